"""The `resize` subresource of pods: what it takes from a patched pod, and what it refuses.

Source of the rules and words: KEP-1287 and kube-apiserver 1.36.2, whose answers are in tests/data/kubernetes
(resize-cases.json). Admission, which needs the node, is in `kubeapi.admission`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubeapi import fields, qos, virtualmachineform
from kubeapi.core import Container, Pod, ResourceRequirements
from kubeapi.errors import Cause, invalid
from kubeapi.fields import forbidden
from kubeapi.podresources import is_sidecar
from kubeapi.podvalidation import validate_metadata_and_spec
from kubeapi.validation import validate_metadata_update

_MUTABLE = ("cpu", "memory")
_MIRROR = "kubernetes.io/config.mirror"
ONLY_CPU_AND_MEMORY = "only cpu and memory resources are mutable"


def apply_resize(old: Pod, patched: Pod) -> Pod:
    """The pod to store: `old` with the resources of `patched`, its generation risen if they differ.

    Everything else in `patched` (labels, images) is ignored, as the server does. `patched` is defaulted already. Raises
    ApiError 422.
    """
    new = keep_resize_changes(old, patched)
    causes = validate_resize(new, old)
    if causes:
        raise invalid("Pod", old.metadata.name, causes)
    return new


def keep_resize_changes(old: Pod, patched: Pod) -> Pod:
    """`old` with only the resources and resize policies of `patched`. Added, removed or renamed containers are kept as
    sent, for validation to refuse."""
    new = old.copied()
    new.metadata.resource_version = patched.metadata.resource_version or old.metadata.resource_version
    new.metadata.managed_fields = patched.metadata.managed_fields
    new.spec.resources = patched.spec.resources
    new.spec.containers = _merged(old.spec.containers, patched.spec.containers)
    new.spec.init_containers = _merged(old.spec.init_containers, patched.spec.init_containers)
    vm, wish = new.spec.virtual_machine, patched.spec.virtual_machine
    if vm is not None and wish is not None:
        vm.resources, vm.resize_policy = wish.resources, wish.resize_policy
    if new.spec != old.spec:
        new.metadata.generation = (old.metadata.generation or 0) + 1
    return new


def validate_resize(new: Pod, old: Pod) -> Sequence[Cause]:
    return virtualmachineform.told(new.spec, _validate(new, old))


def _validate(new: Pod, old: Pod) -> list[Cause]:
    if _MIRROR in old.metadata.annotations:
        return [forbidden(fields.NO_FIELD, "static pods cannot be resized")]
    if old.spec.os and old.spec.os.get("name") == "windows":
        return [forbidden(fields.NO_FIELD, "windows pods cannot be resized")]
    causes = [*validate_metadata_update(new, old), *validate_metadata_and_spec(new)]
    if qos.qos_class(old) != qos.compute(new.spec):
        causes.append(fields.invalid("spec", old.status.qos_class or "", _QOS_CHANGED))
    if not _node_supports_resize(old):
        causes.append(forbidden("spec", "Pod running on node without support for resize"))
    causes += _pod_level(new.spec.resources, old.spec.resources)
    order = [
        *_order("containers", new.spec.containers, old.spec.containers),
        *_order("initContainers", new.spec.init_containers, old.spec.init_containers),
    ]
    if order:
        return [*causes, *order]
    causes += _removed("initContainers", new.spec.init_containers, old.spec.init_containers)
    causes += _removed("containers", new.spec.containers, old.spec.containers)
    causes += [
        forbidden("spec", ONLY_CPU_AND_MEMORY)
        for container, before in zip(new.spec.containers, old.spec.containers, strict=True)
        if _other_change(container, before)
    ]
    for index, (container, before) in enumerate(zip(new.spec.init_containers, old.spec.init_containers, strict=True)):
        causes += _init_container(f"spec.initContainers[{index}]", container, before)
    return causes


_QOS_CHANGED = "Pod QOS Class may not change as a result of resizing"


def _merged(old: list[Container], patched: list[Container]) -> list[Container]:
    if [container.name for container in old] != [container.name for container in patched]:
        return patched
    merged = []
    for before, after in zip(old, patched, strict=True):
        container = before.copied()
        container.resources = after.resources
        container.resize_policy = after.resize_policy
        merged.append(container)
    return merged


def _node_supports_resize(pod: Pod) -> bool:
    """A node that does reports the resources of what runs. With nothing running one cannot tell, and assumes it."""
    for status in pod.status.container_statuses:
        if status.state and status.state.running is not None:
            return status.resources is not None
    return True


def _pod_level(new: ResourceRequirements | None, old: ResourceRequirements | None) -> list[Cause]:
    if old is None and new is None:
        return []
    if new is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    before = old or ResourceRequirements()
    causes = []
    if before.requests.keys() - new.requests.keys():
        causes.append(forbidden("spec.resources.requests", "pod-level resource requests cannot be removed"))
    if before.limits.keys() - new.limits.keys():
        causes.append(forbidden("spec.resources.limits", "pod-level resource limits cannot be removed"))
    if _fixed(new) != _fixed(before):
        causes.append(forbidden("spec", f"{ONLY_CPU_AND_MEMORY} at pod-level"))
    return causes


def _order(name: str, new: list[Container], old: list[Container]) -> list[Cause]:
    if len(new) != len(old):
        return [forbidden(f"spec.{name}", f"{name} may not be added or removed on resize")]
    return [
        forbidden(f"spec.{name}[{index}].name", f"{name} may not be renamed or reordered on resize")
        for index, (after, before) in enumerate(zip(new, old, strict=True))
        if after.name != before.name
    ]


def _removed(name: str, new: list[Container], old: list[Container]) -> list[Cause]:
    causes = []
    for index, (after, before) in enumerate(zip(new, old, strict=True)):
        path = f"spec.{name}[{index}].resources"
        if before.requests.keys() - after.requests.keys():
            causes.append(forbidden(f"{path}.requests", "resource requests cannot be removed"))
        if before.limits.keys() - after.limits.keys():
            causes.append(forbidden(f"{path}.limits", "resource limits cannot be removed"))
    return causes


def _init_container(path: str, new: Container, old: Container) -> list[Cause]:
    causes = []
    if _other_change(new, old):
        causes.append(forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
    restarts = any(policy.restart_policy == "RestartContainer" for policy in new.resize_policy)
    if new != old and restarts and not is_sidecar(new):
        causes.append(
            forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
        )
    return causes


def _other_change(new: Container, old: Container) -> bool:
    """Differs in more than CPU and memory."""
    ours, theirs = new.to_dict(), old.to_dict()
    ours.pop("resources", None)
    theirs.pop("resources", None)
    fixed = _fixed(new.resources or ResourceRequirements()) != _fixed(old.resources or ResourceRequirements())
    return ours != theirs or fixed


def _fixed(resources: ResourceRequirements) -> Mapping[str, object]:
    """Everything but CPU and memory."""
    data = resources.to_dict()
    for part in ("limits", "requests"):
        kept = {name: value for name, value in data.pop(part, {}).items() if name not in _MUTABLE}
        if kept:
            data[part] = kept
    return data
