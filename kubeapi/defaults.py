"""What the API server fills in, recorded from kube-apiserver 1.36.2 (get_b1_resize_subresource.json)."""

from __future__ import annotations

import base64
from typing import Any

from kubeapi import quantity, virtualmachineform
from kubeapi.core import Container, Namespace, Node, Pod, ResourceRequirements, Secret, VirtualMachine
from kubeapi.podresources import is_sidecar

DEFAULT_GRACE_SECONDS = 30
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_pod(pod: Pod) -> None:
    spec = pod.spec
    virtualmachineform.complete(spec)
    for container in (*spec.containers, *spec.init_containers):
        _default_container(container)
    if spec.virtual_machine is not None:
        _default_virtual_machine(spec.virtual_machine)
    if spec.resources:
        _default_pod_level(pod)
    spec.restart_policy = spec.restart_policy or "Always"
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = DEFAULT_GRACE_SECONDS
    spec.dns_policy = spec.dns_policy or "ClusterFirst"
    if spec.security_context is None:
        spec.security_context = {}
    spec.scheduler_name = spec.scheduler_name or "default-scheduler"
    if spec.enable_service_links is None:
        spec.enable_service_links = True


def default_new_pod(pod: Pod) -> None:
    """What admission adds to a pod at creation only.

    Unlike the reference, no tolerations of 300 s for an unreachable node: a pod of an edge node that is offline stays.
    """
    spec = pod.spec
    if spec.priority is None and not spec.priority_class_name:
        spec.priority = 0
    spec.preemption_policy = spec.preemption_policy or "PreemptLowerPriority"


def default_namespace(namespace: Namespace) -> None:
    namespace.metadata.labels.setdefault("kubernetes.io/metadata.name", namespace.metadata.name)
    if not namespace.metadata.labels["kubernetes.io/metadata.name"]:
        del namespace.metadata.labels["kubernetes.io/metadata.name"]


def default_node(node: Node) -> None:
    """Allocatable is the capacity unless said otherwise."""
    for name, amount in node.status.capacity.items():
        node.status.allocatable.setdefault(name, amount)


def default_secret(secret: Secret) -> None:
    """`stringData` is write only: it goes into `data`, in base64."""
    secret.type = secret.type or "Opaque"
    for key, text in secret.string_data.items():
        secret.data[key] = base64.b64encode(text.encode()).decode()
    secret.string_data = {}


def _default_container(container: Container) -> None:
    if container.resources is None:
        container.resources = ResourceRequirements()
    for name, limit in container.resources.limits.items():
        container.resources.requests.setdefault(name, limit)
    for port in container.ports:
        port.protocol = port.protocol or "TCP"
    container.termination_message_path = container.termination_message_path or "/dev/termination-log"
    container.termination_message_policy = container.termination_message_policy or "File"
    container.image_pull_policy = container.image_pull_policy or _pull_policy(container.image)
    for probe in (container.liveness_probe, container.readiness_probe, container.startup_probe):
        if probe is not None:
            _default_probe(probe)


def _default_probe(probe: dict[str, Any]) -> None:
    """Zero means unset, as everywhere. Parts of the wrong type stay as they are."""
    for name, value in _PROBE.items():
        probe[name] = probe.get(name) or value
    request = probe.get("httpGet")
    if isinstance(request, dict):
        request["path"] = request.get("path") or "/"
        request["scheme"] = request.get("scheme") or "HTTP"


def _default_virtual_machine(vm: VirtualMachine) -> None:
    """As its mirror, which was like it: what differs stays different, for validation to see."""
    mirror = virtualmachineform.mirrored(vm)
    _default_container(mirror)
    vm.resources, vm.image_pull_policy = mirror.resources, mirror.image_pull_policy


def _pull_policy(image: str) -> str:
    """Always for what may change under its name: `latest`, or no tag."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _default_pod_level(pod: Pod) -> None:
    """A pod-level request that is left out is the containers' sum, where all have one, else the pod-level limit."""
    resources = pod.spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return
    running = [*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)]
    for name in ("cpu", "memory"):
        if name in resources.requests:
            continue
        asked = [container.requests[name] for container in running if name in container.requests]
        if asked:
            total = sum((quantity.parse(text) for text in asked), start=quantity.parse("0"))
            resources.requests[name] = str(total)
        elif name in resources.limits:
            resources.requests[name] = resources.limits[name]
