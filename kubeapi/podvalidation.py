"""Validation of pods, with the server's paths, words and order (k8s.io/kubernetes/pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubeapi import names, quantity, schedulingvalidation, virtualmachineform, virtualmachinevalidation
from kubeapi.core import Container, ContainerPort, Pod, PodSpec, ResourceRequirements, Toleration
from kubeapi.errors import Cause
from kubeapi.fields import duplicate, forbidden, in_range, invalid, not_supported, required
from kubeapi.podresources import is_sidecar
from kubeapi.validation import validate_amount, validate_amounts, validate_labels, validate_metadata

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
TERMINATION_POLICIES = ("FallbackToLogsOnError", "File")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
TOLERATION_OPERATORS = ("Equal", "Exists")
TOLERATION_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_INT32_MAX = 2**31 - 1


def validate_pod_create(pod: Pod) -> list[Cause]:
    causes = validate_metadata_and_spec(pod)
    if pod.spec.ephemeral_containers:
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if pod.spec.node_name and pod.spec.scheduling_gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden("spec.nodeName", detail))
    return causes


def validate_metadata_and_spec(pod: Pod) -> list[Cause]:
    return [*validate_metadata(pod.metadata, namespaced=True), *validate_spec(pod.spec)]


def validate_spec(spec: PodSpec) -> list[Cause]:
    volumes, causes = _volumes(spec)
    taken: set[str] = set()
    if not spec.containers:
        causes.append(required("spec.containers"))
    causes += _containers("containers", spec.containers, spec, volumes, taken)
    causes += _containers("initContainers", spec.init_containers, spec, volumes, taken)
    if spec.resources:
        causes += validate_requirements(spec.resources, "spec.resources", pod_level=True)
        causes += _pod_level_consistency(spec)
    if spec.virtual_machine is not None:
        causes = [*virtualmachineform.told(spec, causes), *virtualmachinevalidation.validate(spec)]
    causes += _enumerated("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    causes += _enumerated("spec.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    causes += validate_labels(spec.node_selector, "spec.nodeSelector")
    causes += _optional_name("spec.serviceAccountName", spec.service_account_name, names.dns_subdomain)
    causes += _optional_name("spec.nodeName", spec.node_name, names.dns_subdomain)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        causes.append(invalid("spec.activeDeadlineSeconds", deadline, in_range(1, _INT32_MAX)))
    causes += _optional_name("spec.hostname", spec.hostname, names.dns_label)
    causes += _optional_name("spec.subdomain", spec.subdomain, names.dns_label)
    for index, toleration in enumerate(spec.tolerations):
        causes += _toleration(toleration, f"spec.tolerations[{index}]")
    causes += schedulingvalidation.validate(spec)
    causes += _optional_name("spec.priorityClassName", spec.priority_class_name, names.dns_subdomain)
    causes += _optional_name("spec.runtimeClassName", spec.runtime_class_name, names.dns_subdomain)
    return [*causes, *validate_amounts(spec.overhead, "spec.overhead")]


def validate_requirements(resources: ResourceRequirements, path: str, *, pod_level: bool = False) -> list[Cause]:
    causes = []
    rule = _pod_resource_name if pod_level else _container_resource_name
    for name, text in sorted(resources.limits.items()):
        where = f"{path}.limits[{name}]"
        causes += [*rule(name, where), *validate_amount(name, text, where)]
    for name, text in sorted(resources.requests.items()):
        where = f"{path}.requests[{name}]"
        causes += [*rule(name, where), *validate_amount(name, text, where)]
        limit = resources.limits.get(name)
        if limit is None:
            if not _may_overcommit(name):
                detail = "Limit must be set for non overcommitable resources"
                causes.append(required(f"{path}.limits", detail))
            continue
        asked, most = quantity.parse(text), quantity.parse(limit)
        if asked != most and not _may_overcommit(name):
            causes.append(invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif asked > most:
            causes.append(invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}"))
    return causes


def _containers(
    kind: str, containers: Sequence[Container], spec: PodSpec, volumes: set[str], taken: set[str]
) -> list[Cause]:
    """`taken` collects names over all kinds of containers: they share one space."""
    causes = []
    for index, container in enumerate(containers):
        path = f"spec.{kind}[{index}]"
        causes += _container(container, path, spec, volumes)
        if container.name in taken:
            causes.append(duplicate(f"{path}.name", container.name))
        taken.add(container.name)
        if kind == "initContainers":
            causes += _init_container(container, path)
    return causes


def _container(container: Container, path: str, spec: PodSpec, volumes: set[str]) -> list[Cause]:
    causes = []
    if not container.name:
        causes.append(required(f"{path}.name"))
    else:
        causes += [invalid(f"{path}.name", container.name, problem) for problem in names.dns_label(container.name)]
    if not container.image:
        causes.append(required(f"{path}.image"))
    elif container.image.strip() != container.image:
        causes.append(invalid(f"{path}.image", container.image, "must not have leading or trailing whitespace"))
    causes += _enumerated(
        f"{path}.terminationMessagePolicy", container.termination_message_policy, TERMINATION_POLICIES
    )
    causes += _ports(container.ports, f"{path}.ports")
    for index, variable in enumerate(container.env):
        where = f"{path}.env[{index}]"
        if not variable.name:
            causes.append(required(f"{where}.name"))
        else:
            causes += [invalid(f"{where}.name", variable.name, m) for m in names.env_name(variable.name)]
        if variable.value and variable.value_from:
            causes.append(invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty"))
    causes += _mounts(container, path, volumes)
    causes += _enumerated(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)
    if container.resources:
        causes += validate_requirements(container.resources, f"{path}.resources")
    return [*causes, *_resize_policy(container, path, spec)]


def _init_container(container: Container, path: str) -> list[Cause]:
    if container.restart_policy not in (None, "Always"):
        return [not_supported(f"{path}.restartPolicy", container.restart_policy, ("Always",))]
    if is_sidecar(container):
        return []
    return [
        forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")
        for name, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        )
        if value is not None
    ]


def _resize_policy(container: Container, path: str, spec: PodSpec) -> list[Cause]:
    causes = []
    seen = set()
    for index, policy in enumerate(container.resize_policy):
        where = f"{path}.resizePolicy[{index}]"
        name = policy.resource_name
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
        if name not in ("cpu", "memory"):
            causes.append(not_supported(where, name, ("cpu", "memory")))
        if policy.restart_policy not in RESIZE_POLICIES:
            causes.append(not_supported(where, policy.restart_policy, RESIZE_POLICIES))
        if spec.restart_policy == "Never" and policy.restart_policy == "RestartContainer" and not is_sidecar(container):
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            causes.append(invalid(where, policy.restart_policy, detail))
    return causes


def _ports(ports: Sequence[ContainerPort], path: str) -> list[Cause]:
    causes = []
    taken = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if port.name:
            if port.name in taken:
                causes.append(duplicate(f"{where}.name", port.name))
            taken.add(port.name)
        if port.container_port == 0:
            causes.append(required(f"{where}.containerPort"))
        elif not 1 <= port.container_port <= 65535:
            causes.append(invalid(f"{where}.containerPort", port.container_port, in_range(1, 65535)))
        if port.host_port and not 1 <= port.host_port <= 65535:
            causes.append(invalid(f"{where}.hostPort", port.host_port, in_range(1, 65535)))
        causes += _enumerated(f"{where}.protocol", port.protocol, PROTOCOLS)
    return causes


def _volumes(spec: PodSpec) -> tuple[set[str], list[Cause]]:
    taken: set[str] = set()
    causes = []
    for index, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{index}].name"
        name = str(volume.get("name") or "")
        if not name:
            causes.append(required(path))
            continue
        causes += [invalid(path, name, problem) for problem in names.dns_label(name)]
        if name in taken:
            causes.append(duplicate(path, name))
        taken.add(name)
    return taken, causes


def _mounts(container: Container, path: str, volumes: set[str]) -> list[Cause]:
    causes = []
    places = set()
    for index, mount in enumerate(container.volume_mounts):
        where = f"{path}.volumeMounts[{index}]"
        name, place = mount.name, mount.mount_path
        if not name:
            causes.append(required(f"{where}.name"))
        elif name not in volumes:
            causes.append(
                Cause("FieldValueNotFound", f'Not found: "{name}"', f"{where}.name"),
            )
        if not place:
            causes.append(required(f"{where}.mountPath"))
        elif place in places:
            causes.append(invalid(f"{where}.mountPath", place, "must be unique"))
        places.add(place)
    return causes


def _toleration(toleration: Toleration, path: str) -> list[Cause]:
    causes = []
    if toleration.key:
        causes += [invalid(f"{path}.key", toleration.key, m) for m in names.qualified_name(toleration.key)]
    elif toleration.operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid(f"{path}.operator", toleration.operator or "", detail))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", toleration.effect or "", detail))
    if toleration.operator in (None, "", "Equal"):
        causes += [invalid(f"{path}.operator", toleration.value, m) for m in names.label_value(toleration.value or "")]
    elif toleration.operator == "Exists":
        if toleration.value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid(f"{path}.operator", toleration.value, detail))
    else:
        causes.append(not_supported(f"{path}.operator", toleration.operator, TOLERATION_OPERATORS))
    return [*causes, *_enumerated(f"{path}.effect", toleration.effect, TOLERATION_EFFECTS)]


def _pod_level_consistency(spec: PodSpec) -> list[Cause]:
    """Pod-level requests cover the containers' sum; no container may have more than the pod's limit.

    The last path is the server's own oddity (`spec.resources.containers[0][cpu].limits`).
    """
    causes = []
    resources = spec.resources or ResourceRequirements()
    for name, text in sorted(resources.requests.items()):
        total = sum(
            (quantity.parse(item.requests[name]) for item in _running(spec) if name in item.requests),
            start=quantity.parse("0"),
        )
        if total > quantity.parse(text):
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            causes.append(invalid(f"spec.resources.requests[{name}]", text, detail))
    for index, container in enumerate(spec.containers):
        for name, text in sorted(container.limits.items()):
            most = resources.limits.get(name)
            if most is not None and quantity.parse(text) > quantity.parse(most):
                path = f"spec.resources.containers[{index}][{name}].limits"
                causes.append(invalid(path, text, f"must be less than or equal to pod limits of {most}"))
    return causes


def _running(spec: PodSpec) -> list[Container]:
    return [*spec.containers, *filter(is_sidecar, spec.init_containers)]


def _container_resource_name(name: str, path: str) -> list[Cause]:
    problems = names.qualified_name(name)
    if problems:
        return [invalid(path, name, problem) for problem in problems]
    if "/" in name or name in _CONTAINER_RESOURCES or name.startswith("hugepages-"):
        return []
    return [
        invalid(path, name, "must be a standard resource type or fully qualified"),
        invalid(path, name, "must be a standard resource for containers"),
    ]


def _pod_resource_name(name: str, path: str) -> list[Cause]:
    if name in ("cpu", "memory") or name.startswith("hugepages-"):
        return []
    return [not_supported(path, name, ("cpu", "hugepages-", "memory"))]


def _may_overcommit(name: str) -> bool:
    """Only cpu, memory and their like: devices and huge pages are handed out whole."""
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith("hugepages-")


def _enumerated(path: str, value: str | None, supported: Sequence[str]) -> list[Cause]:
    return [not_supported(path, value, supported)] if value and value not in supported else []


def _optional_name(path: str, value: str | None, rule: Callable[[str], Sequence[str]]) -> list[Cause]:
    return [invalid(path, value, problem) for problem in rule(value)] if value else []
