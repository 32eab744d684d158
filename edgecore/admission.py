"""What fits on this node: pure. Counts max(allocated, actuated) of every pod, overhead included, against allocatable.

Words are the kubelet's (recorded: tests/data/kubernetes/resize-states). CPU in millicores, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgecore.record import PodRecord
from kubeapi import quantity
from kubeapi.core import ResourceRequirements


@dataclass(frozen=True, slots=True)
class Amounts:
    cpu: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: str
    """`OutOfcpu`, `OutOfmemory`, `OutOfpods`."""
    message: str
    never: bool
    """More than the whole node: waiting does not help."""


def requests(resources: ResourceRequirements | None) -> Amounts:
    found = resources.requests if resources else {}
    limits = resources.limits if resources else {}
    cpu = found.get("cpu", limits.get("cpu", "0"))
    memory = found.get("memory", limits.get("memory", "0"))
    return Amounts(quantity.cpu_millis(cpu), quantity.memory_bytes(memory))


def held(record: PodRecord) -> Amounts:
    """What a pod takes of the node now: nothing before it is admitted or once it is torn down or has failed."""
    if not record.admitted or record.torn_down or record.rejected:
        return Amounts()
    total = Amounts(record.overhead_cpu, record.overhead_memory, 1)
    for name, resources in record.allocated.items():
        allocated, actuated = requests(resources), requests(record.container(name).actuated)
        total += Amounts(max(allocated.cpu, actuated.cpu), max(allocated.memory, actuated.memory))
    return total


def wanted(resources: Mapping[str, ResourceRequirements], overhead: Amounts) -> Amounts:
    total = overhead + Amounts(pods=1)
    for container in resources.values():
        total += requests(container)
    return total


def check(
    want: Amounts, others: Iterable[PodRecord], allocatable: Amounts, mine: Amounts | None = None
) -> Refusal | None:
    """None when it fits. `mine` is what the asking pod holds already: only a resource it increases is checked."""
    used = Amounts()
    for record in others:
        used += held(record)
    for name in ("cpu", "memory", "pods"):
        ask, have, most = getattr(want, name), getattr(used, name), getattr(allocatable, name)
        if mine is not None and ask <= getattr(mine, name):
            continue
        if ask > most and mine is not None:
            return Refusal(
                f"OutOf{name}", f"Node didn't have enough capacity: {name}, requested: {ask}, capacity: {most}", True
            )
        if have + ask > most:
            message = f"Node didn't have enough resource: {name}, requested: {ask}, used: {have}, capacity: {most}"
            return Refusal(f"OutOf{name}", message, False)
    return None
