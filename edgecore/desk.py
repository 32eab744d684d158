"""The admission desk: whether the node takes a pod, and whether it takes a resize. One decision at a time.

Decisions are made between two awaits, on the book as it is, and written before anything is done about them. Deferred
wishes come back to the desk whenever room appears, in the documented order (architecture, "Vertical resize").
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from edgecore.admission import Amounts, Refusal, check, held, requests, wanted
from edgecore.book import Book
from edgecore.events import Note, resize_detail
from edgecore.plan import Vms, ended_for_good, over, resources_differ
from edgecore.record import Pending, PodRecord, Progress
from edgecore.sizes import Policy, SizeError, container_resources, maxima, sizes
from kubeapi import quantity
from kubeapi.core import Pod, ResourceRequirements
from kubeapi.qos import qos_class
from vmruntime.api import VmState, VmStatus

_QOS_ORDER = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


@dataclass
class Desk:
    book: Book
    policy: Policy
    allocatable: Amounts
    vm_overhead_memory: int
    """Bytes for one VM, where the pod's spec names no overhead."""
    seen: dict[str, Vms] = field(default_factory=dict)
    """Pod UID → its VMs as last seen (by the workers)."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def admit(self, pod: Pod) -> PodRecord:
        """A pod that is new here: Running soon, or Failed with the reason, or (returned undecided) to ask again."""
        async with self._turn:
            record = self.book.record(pod)
            now = self.book.now()
            overhead = self._overhead(pod)
            resources = {item.name: container_resources(item) for item in pod.spec.containers}
            want = wanted(resources, overhead)
            refusal = check(want, self._others(record), self.allocatable)
            if refusal is not None and check(want, self._staying(record), self.allocatable) is None:
                return record  # there is room once those that are on their way out have left: ask again
            update: dict[str, object] = {"start_time": now}
            if refusal is not None:
                update |= {"rejected": refusal.reason, "rejected_message": refusal.message}
                note = Note(refusal.reason, refusal.message, warning=True)
                return await self.book.save(record.model_copy(update=update), pod=pod, notes=[note])
            update |= {
                "admitted": True,
                "allocated": resources,
                "allocated_generation": pod.metadata.generation or 0,
                "overhead_cpu": overhead.cpu,
                "overhead_memory": overhead.memory,
            }
            return await self.book.save(record.model_copy(update=update))

    async def admit_resize(self, pod: Pod) -> PodRecord:
        """The wish differs from what is allocated: take it, defer it, or say that it can never be."""
        async with self._turn:
            record, notes = self._decide(pod, self.book.record(pod))
            return await self.book.save(record, pod=pod, notes=notes)

    async def retry_deferred(self) -> list[str]:
        """Room may have appeared. Returns the UIDs of the pods whose wish was taken now."""
        taken = []
        for pod in sorted(self._waiting(), key=self._order):
            record = await self.admit_resize(pod)
            if record.pending is None:
                taken.append(record.uid)
        return taken

    def _waiting(self) -> Iterable[Pod]:
        for uid, record in self.book.records.items():
            pod = self.book.pods.get(uid)
            if record.pending and record.pending.reason == "Deferred" and pod and not pod.metadata.deletion_timestamp:
                yield pod

    def _order(self, pod: Pod) -> tuple[bool, int, int, str]:
        record = self.book.record(pod)
        want, mine = wanted(_wished(pod), self._overhead_of(record)), held(record)
        grows = want.cpu > mine.cpu or want.memory > mine.memory
        since = record.pending.since if record.pending else ""
        return (grows, -(pod.spec.priority or 0), _QOS_ORDER.get(qos_class(pod), 2), since)

    def _decide(self, pod: Pod, record: PodRecord) -> tuple[PodRecord, list[Note]]:
        now, generation = self.book.now(), pod.metadata.generation or 0
        if not resources_differ(pod, record):
            return record.model_copy(update={"pending": None}), []
        wish = _wished(pod)
        impossible = self._impossible(pod, record, wish)
        refusal = (
            Refusal("", impossible, True)
            if impossible
            else check(
                wanted(wish, self._overhead_of(record)), self._others(record), self.allocatable, mine=held(record)
            )
        )
        if refusal is not None:
            return self._refuse(pod, record, refusal, now, generation)
        restart = self._restarting(pod, record, wish)
        containers = {
            name: record.container(name).model_copy(
                update={"restart": record.container(name).restart or name in restart}
            )
            for name in wish
        }
        update = {
            "allocated": wish,
            "allocated_generation": generation,
            "pending": None,
            "progress": Progress(generation=generation, since=now),
            "containers": record.containers | containers,
        }
        note = Note("ResizeStarted", f"Pod resize started: {resize_detail(pod)}")
        return record.model_copy(update=update), [note]

    def _refuse(
        self, pod: Pod, record: PodRecord, refusal: Refusal, now: str, generation: int
    ) -> tuple[PodRecord, list[Note]]:
        reason = "Infeasible" if refusal.never else "Deferred"
        before = record.pending
        same = before is not None and (before.reason, before.generation) == (reason, generation)
        since = before.since if before is not None and before.reason == reason else now
        pending = Pending(reason=reason, message=refusal.message, generation=generation, since=since)
        record = record.model_copy(update={"pending": pending})
        if same:
            return record, []
        head = f"Pod resize {refusal.reason or reason}"
        detail = resize_detail(pod, refusal.message)
        return record, [Note(f"Resize{reason}", f"{head}: {detail}", warning=True)]

    def _impossible(self, pod: Pod, record: PodRecord, wish: Mapping[str, ResourceRequirements]) -> str | None:
        """What was fixed when the VM booted bounds what can change in place; a restart is not bound by it."""
        restart = self._restarting(pod, record, wish)
        for name, resources in wish.items():
            try:
                most = maxima(pod, resources, self.policy)
            except SizeError as error:
                return str(error)
            vm = self.seen.get(record.uid, {}).get(name)
            running = vm is not None and vm.state in (VmState.RUNNING, VmState.PAUSED)
            if vm is not None and running and name not in restart:
                problem = _beyond_boot(name, sizes(resources, most.vcpus, self.policy).memory_mib, resources, vm)
                if problem:
                    return problem
        return None

    def _restarting(self, pod: Pod, record: PodRecord, wish: Mapping[str, ResourceRequirements]) -> set[str]:
        """Containers whose resizePolicy restarts them for what changes."""
        found = set()
        for container in pod.spec.containers:
            policy = {item.resource_name: item.restart_policy for item in container.resize_policy}
            old = record.allocated.get(container.name) or ResourceRequirements()
            if ended_for_good(pod, record, container.name):
                continue
            for name in ("cpu", "memory"):
                if policy.get(name) == "RestartContainer" and _changes(name, old, wish[container.name]):
                    found.add(container.name)
        return found

    def _others(self, record: PodRecord) -> list[PodRecord]:
        """The records of the other pods that hold something."""
        return [other for uid, other in self.book.records.items() if uid != record.uid and not self._over(other)]

    def _over(self, record: PodRecord) -> bool:
        pod = self.book.pods.get(record.uid)
        return pod is not None and over(pod, record)

    def _staying(self, record: PodRecord) -> list[PodRecord]:
        """The others, less those that are being deleted (or that the hub has deleted already)."""
        pods = self.book.pods
        return [
            other
            for other in self._others(record)
            if other.uid in pods and not pods[other.uid].metadata.deletion_timestamp
        ]

    def _overhead(self, pod: Pod) -> Amounts:
        given = pod.spec.overhead
        if given:
            return Amounts(quantity.cpu_millis(given.get("cpu", "0")), quantity.memory_bytes(given.get("memory", "0")))
        return Amounts(memory=self.vm_overhead_memory * len(pod.spec.containers))

    @staticmethod
    def _overhead_of(record: PodRecord) -> Amounts:
        return Amounts(record.overhead_cpu, record.overhead_memory)


def _wished(pod: Pod) -> dict[str, ResourceRequirements]:
    return {item.name: container_resources(item) for item in pod.spec.containers}


def _changes(name: str, old: ResourceRequirements, new: ResourceRequirements) -> bool:
    if name == "memory":  # what the guest gets is the limit, or the request where there is none
        return (old.limits.get(name), requests(old).memory) != (new.limits.get(name), requests(new).memory)
    return (old.limits.get(name), requests(old).cpu) != (new.limits.get(name), requests(new).cpu)


def _beyond_boot(name: str, memory_mib: int, resources: ResourceRequirements, vm: VmStatus) -> str | None:
    limit = quantity.cpu_millis(resources.limits.get("cpu", "0"))
    vcpus = -(-limit // 1000)
    what = f"container {name!r}: "
    if vcpus > vm.vcpus_max:
        return (
            f"{what}limits.cpu {resources.limits['cpu']} needs {vcpus} vCPUs, the VM was started with {vm.vcpus_max}; "
            "a restart with annotation copepod.dev/max-cpu would allow it"
        )
    if memory_mib > vm.memory_max_mib:
        return (
            f"{what}memory {memory_mib}Mi is beyond the {vm.memory_max_mib}Mi that the VM was started with as its "
            "maximum; a restart with annotation copepod.dev/max-memory would allow it"
        )
    if memory_mib < vm.memory_base_mib:
        return (
            f"{what}memory {memory_mib}Mi is below the {vm.memory_base_mib}Mi that the VM booted with; "
            "a restart would allow it"
        )
    return None
