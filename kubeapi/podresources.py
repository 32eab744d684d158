"""How much CPU and memory a pod asks for, and how much must be counted for it.

A resize makes these differ: the *spec* (wished), what the node has *allocated* (admitted), what is *actual* (in force).
The scheduler counts the largest of the three, so that neither a wish nor a shrink that is not done yet is sold twice;
the node counts the larger of allocated and actual, so that a waiting wish blocks nobody else. A wish that the node has
called Infeasible counts nowhere. (KEP-1287; k8s.io/component-helpers/resource.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kubeapi import quantity
from kubeapi.core import Container, ContainerStatus, Pod, ResourceRequirements

RESIZE_PENDING = "PodResizePending"
RESIZE_IN_PROGRESS = "PodResizeInProgress"
INFEASIBLE = "Infeasible"
DEFERRED = "Deferred"


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU in millicores, memory in bytes. `|` is the larger of each."""

    cpu: int = 0
    memory: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu - other.cpu, self.memory - other.memory)

    def __or__(self, other: Amounts) -> Amounts:
        return Amounts(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def fits(self, room: Amounts) -> bool:
        return self.cpu <= room.cpu and self.memory <= room.memory


def amounts(resources: Mapping[str, str]) -> Amounts:
    """Of a resource list; what is not named is zero. Raises QuantityError."""
    return Amounts(quantity.cpu_millis(resources.get("cpu", "0")), quantity.memory_bytes(resources.get("memory", "0")))


def requests(pod: Pod) -> Amounts:
    """What the spec asks for, overhead included."""
    return _effective(pod, lambda container: amounts(container.requests), _level(pod.spec.resources, "requests"))


def limits(pod: Pod) -> Amounts:
    """What the spec allows at most, overhead included; zero where a resource has no limit.

    As in Kubernetes, a sum over containers: where only some have a limit it is not a bound on the pod.
    """
    return _effective(pod, lambda container: amounts(container.limits), _level(pod.spec.resources, "limits"))


def scheduler_counted(pod: Pod) -> Amounts:
    """max(spec, allocated, actual), overhead included; without spec while the resize is Infeasible."""
    return _counted(pod, with_spec=not resize_is_infeasible(pod))


def node_counted(pod: Pod) -> Amounts:
    """max(allocated, actual), overhead included; the spec for a container that has neither (not admitted yet)."""
    return _counted(pod, with_spec=False)


def resize_is_infeasible(pod: Pod) -> bool:
    condition = pod.status.condition(RESIZE_PENDING)
    return condition is not None and condition.status == "True" and condition.reason == INFEASIBLE


def allocatable(resources: Mapping[str, str]) -> Amounts:
    """Of a node's `status.allocatable`."""
    return amounts(resources)


def is_sidecar(container: Container) -> bool:
    """An init container that runs alongside (restartPolicy Always)."""
    return container.restart_policy == "Always"


def _counted(pod: Pod, *, with_spec: bool) -> Amounts:
    statuses = {status.name: status for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)}

    def of_container(container: Container) -> Amounts:
        return _largest(amounts(container.requests), _from_status(statuses.get(container.name)), with_spec)

    level = _level(pod.spec.resources, "requests")
    if level:
        seen = [dict(pod.status.allocated_resources), _level(pod.status.resources, "requests")]
        level = _largest_list(level, [item for item in seen if item], with_spec)
    return _effective(pod, of_container, level)


def _from_status(status: ContainerStatus | None) -> Amounts | None:
    """max(allocated, actual), or None where the node has reported neither."""
    if status is None or (not status.allocated_resources and status.resources is None):
        return None
    actual = status.resources.requests if status.resources else {}
    return amounts(status.allocated_resources) | amounts(actual)


def _largest(spec: Amounts, reported: Amounts | None, with_spec: bool) -> Amounts:
    if reported is None:
        return spec
    return spec | reported if with_spec else reported


def _largest_list(spec: dict[str, str], reported: list[dict[str, str]], with_spec: bool) -> dict[str, str]:
    candidates = [spec, *reported] if with_spec or not reported else reported
    return {
        name: max((item[name] for item in candidates if name in item), key=quantity.parse)
        for name in {key for item in candidates for key in item}
    }


def _level(resources: ResourceRequirements | None, which: str) -> dict[str, str]:
    if resources is None:
        return {}
    return resources.requests if which == "requests" else resources.limits


def _effective(pod: Pod, of: Callable[[Container], Amounts], level: Mapping[str, str]) -> Amounts:
    """Sidecars run with everything that starts after them; other init containers run one at a time, before the rest."""
    sidecars, peak = Amounts(), Amounts()
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            sidecars += of(container)
            peak |= sidecars
        else:
            peak |= sidecars + of(container)
    total = sidecars
    for container in pod.spec.containers:
        total += of(container)
    total |= peak
    if level:
        pod_level = amounts(level)
        total = Amounts(
            pod_level.cpu if "cpu" in level else total.cpu,
            pod_level.memory if "memory" in level else total.memory,
        )
    return total + amounts(pod.spec.overhead)
