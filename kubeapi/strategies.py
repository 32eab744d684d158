"""What is particular to each kind when it is created or changed (the reference's pkg/registry/core/*/strategy.go)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kubeapi import defaults, podclasses, podupdate, podvalidation, qos, resize, validation, virtualmachineform
from kubeapi.core import ConfigMap, Event, Lease, LimitRange, Namespace, Node, Pod, PodStatus, Secret
from kubeapi.errors import Cause
from kubeapi.meta import KubeObject
from kubeapi.resource import Strategy

T = TypeVar("T", bound=KubeObject)

_FINALIZER = "kubernetes"
"""A namespace's own: held until it is empty."""


class PodStrategy(Strategy[Pod]):
    def align(self, subresource: str, new: Pod, old: Pod) -> None:
        virtualmachineform.align_objects(new, old, ordinary=not subresource)

    def default(self, obj: Pod) -> None:
        defaults.default_pod(obj)

    def prepare_create(self, obj: Pod) -> None:
        defaults.default_new_pod(obj)
        obj.metadata.generation = 1
        obj.status = PodStatus(phase="Pending", qos_class=qos.compute(obj.spec))

    def validate_create(self, obj: Pod) -> Sequence[Cause]:
        return podvalidation.validate_pod_create(obj)

    def prepare_update(self, new: Pod, old: Pod) -> None:
        new.status = old.status
        podclasses.keep_priority(new.spec, old.spec)
        if new.spec != old.spec:
            new.metadata.generation = (old.metadata.generation or 0) + 1

    def validate_update(self, new: Pod, old: Pod) -> Sequence[Cause]:
        return podupdate.validate_pod_update(new, old)

    def prepare_status_update(self, new: Pod, old: Pod) -> None:
        new.spec = old.spec
        new.status.qos_class = new.status.qos_class or old.status.qos_class
        _keep_observed_generations(new.status, old.status)

    def validate_status_update(self, new: Pod, old: Pod) -> Sequence[Cause]:
        return podupdate.validate_pod_status_update(new, old)

    def prepare_subresource(self, name: str, new: Pod, old: Pod) -> Pod:
        return resize.keep_resize_changes(old, new) if name == "resize" else new

    def validate_subresource(self, name: str, new: Pod, old: Pod) -> Sequence[Cause]:
        return resize.validate_resize(new, old) if name == "resize" else ()

    def grace_seconds(self, obj: Pod, asked: int | None) -> int:
        """The asked time, else the pod's own; none where no node has to confirm (unbound, or ended already)."""
        if not obj.spec.node_name or obj.status.phase in ("Succeeded", "Failed"):
            return 0
        grace = obj.spec.termination_grace_period_seconds if asked is None else asked
        return 1 if grace is not None and grace < 0 else grace or 0


def _keep_observed_generations(new: PodStatus, old: PodStatus) -> None:
    """A writer that does not know the field does not clear it."""
    new.observed_generation = new.observed_generation or old.observed_generation
    before = {condition.type: condition.observed_generation for condition in old.conditions}
    for condition in new.conditions:
        condition.observed_generation = condition.observed_generation or before.get(condition.type)


class NodeStrategy(Strategy[Node]):
    """A node registers with its status: it is kept at creation."""

    def default(self, obj: Node) -> None:
        defaults.default_node(obj)

    def validate_create(self, obj: Node) -> Sequence[Cause]:
        return validation.validate_node(obj)

    def prepare_update(self, new: Node, old: Node) -> None:
        new.status = old.status

    def validate_update(self, new: Node, old: Node) -> Sequence[Cause]:
        return validation.validate_node_update(new, old)

    def prepare_status_update(self, new: Node, old: Node) -> None:
        new.spec = old.spec

    def validate_status_update(self, new: Node, old: Node) -> Sequence[Cause]:
        return validation.validate_node_update(new, old)


class NamespaceStrategy(Strategy[Namespace]):
    def default(self, obj: Namespace) -> None:
        defaults.default_namespace(obj)

    def prepare_create(self, obj: Namespace) -> None:
        obj.status.phase = "Active"
        if _FINALIZER not in obj.spec.finalizers:
            obj.spec.finalizers.append(_FINALIZER)

    def validate_create(self, obj: Namespace) -> Sequence[Cause]:
        return validation.validate_namespace(obj)

    def prepare_update(self, new: Namespace, old: Namespace) -> None:
        new.spec, new.status = old.spec, old.status

    def validate_update(self, new: Namespace, old: Namespace) -> Sequence[Cause]:
        return validation.validate_metadata_update(new, old)

    def prepare_status_update(self, new: Namespace, old: Namespace) -> None:
        new.spec = old.spec

    def prepare_subresource(self, name: str, new: Namespace, old: Namespace) -> Namespace:
        """`finalize` changes the namespace's own finalizers and nothing else."""
        result = old.copied()
        result.metadata.resource_version = new.metadata.resource_version or old.metadata.resource_version
        result.spec.finalizers = new.spec.finalizers
        return result


class PlainStrategy(Strategy[T], Generic[T]):
    """A kind of data only: no status, no generation."""

    def __init__(
        self,
        create: Callable[[T], Sequence[Cause]],
        update: Callable[[T, T], Sequence[Cause]] | None = None,
        default: Callable[[T], None] | None = None,
    ) -> None:
        self._create, self._update, self._default = create, update, default

    def default(self, obj: T) -> None:
        if self._default:
            self._default(obj)

    def validate_create(self, obj: T) -> Sequence[Cause]:
        return self._create(obj)

    def validate_update(self, new: T, old: T) -> Sequence[Cause]:
        if self._update:
            return self._update(new, old)
        return [*validation.validate_metadata_update(new, old), *self._create(new)]


def namespaced(obj: KubeObject) -> Sequence[Cause]:
    """Nothing but the metadata is checked."""
    return validation.validate_metadata(obj.metadata, namespaced=True)


def _limit_range(obj: LimitRange) -> Sequence[Cause]:
    causes = list(namespaced(obj))
    for index, item in enumerate(obj.spec.limits):
        for name in ("max", "min", "default", "default_request"):
            path = f"spec.limits[{index}].{'defaultRequest' if name == 'default_request' else name}"
            causes += validation.validate_amounts(getattr(item, name), path)
    return causes


CONFIGMAP: Strategy[ConfigMap] = PlainStrategy(validation.validate_configmap, validation.validate_configmap_update)
SECRET: Strategy[Secret] = PlainStrategy(
    validation.validate_secret, validation.validate_secret_update, defaults.default_secret
)
EVENT: Strategy[Event] = PlainStrategy(validation.validate_event)
LEASE: Strategy[Lease] = PlainStrategy(validation.validate_lease)
LIMIT_RANGE: Strategy[LimitRange] = PlainStrategy(_limit_range)
