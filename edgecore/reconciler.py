"""Runs one worker per pod and wakes them: on wishes, runtime events, freed room, and a slow look at everything.

All that arrives only wakes a worker, which then looks for itself: nothing is decided by what a message says.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import orjson

from edgecore.book import Book
from edgecore.desk import Desk
from edgecore.spec import vm_uuid
from edgecore.worker import Worker
from kubeapi.core import Pod
from vmruntime.api import EventType, Runtime, VmError, VmStatus

log = logging.getLogger(__name__)

_LOOK_INTERVAL = 30.0
"""Seconds between two looks at all VMs, for what no event told (events are hints)."""


@dataclass
class Reconciler:
    book: Book
    runtime: Runtime
    desk: Desk
    installation: str
    address: str | None
    _workers: dict[str, Worker] = field(default_factory=dict)
    _by_vm: dict[str, str] = field(default_factory=dict)
    """VM UUID → pod UID, for events."""
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled. VMs keep running after it."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self.book.changed = self.wake
            # Listening begins before the first look, so that nothing falls between.
            tasks.create_task(self._events(), name="runtime-events")
            tasks.create_task(self._retry_deferred(), name="retry-deferred")
            tasks.create_task(self._look_around(), name="look-around")
            for uid in {*self.book.pods, *self.book.records}:
                self.wake(uid)

    def wake(self, uid: str) -> None:
        """Its wish may have changed, or its VMs: let its worker look."""
        pod = self.book.pods.get(uid)
        if pod is not None:
            for container in pod.spec.containers:
                self._by_vm[vm_uuid(uid, container.name)] = uid
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()
        elif uid in self.book.pods or (uid in self.book.records and uid not in self.book.distrusted):
            self._start(uid)

    def wake_all(self) -> None:
        for worker in tuple(self._workers.values()):
            worker.wake()

    def _start(self, uid: str) -> None:
        if self._tasks is None:
            return
        worker = Worker(
            uid=uid,
            book=self.book,
            runtime=self.runtime,
            desk=self.desk,
            installation=self.installation,
            address=self.address,
            freed=self._room.set,
            done=self._done,
        )
        self._workers[uid] = worker
        self._tasks.create_task(worker.run(), name=f"pod-{uid}")

    def _done(self, uid: str) -> None:
        self._workers.pop(uid, None)
        for vm in [vm for vm, pod in self._by_vm.items() if pod == uid]:
            del self._by_vm[vm]
        if uid in self.book.pods:  # came back while its worker ended
            self.wake(uid)

    async def _events(self) -> None:
        async for event in self.runtime.events():
            if event.type is EventType.RESYNC:
                self.wake_all()
            elif event.uuid in self._by_vm:
                self.wake(self._by_vm[event.uuid])

    async def _retry_deferred(self) -> None:
        while True:
            await self._room.wait()
            self._room.clear()
            for uid in await self.desk.retry_deferred():
                self.wake(uid)

    async def _look_around(self) -> None:
        while True:
            try:
                await self._look()
            except VmError as error:
                log.warning("cannot list VMs: %s", error)
            await asyncio.sleep(_LOOK_INTERVAL)

    async def _look(self) -> None:
        """Wake the workers of VMs that are not as last seen; take up VMs of ours that the store does not know."""
        found = {vm.uuid: vm for vm in await self.runtime.list()}
        for vm in found.values():
            uid = vm.owner.pod_uid
            if uid not in self.book.pods and (uid not in self.book.records or uid in self.book.distrusted):
                await self._adopt(vm)
        for uid, vms in tuple(self.desk.seen.items()):
            if any(_differs(seen, found.get(seen.uuid)) for seen in vms.values()):
                self.wake(uid)

    async def _adopt(self, vm: VmStatus) -> None:
        """The store was lost, the VM runs: rebuild its pod from the domain's metadata, as Unclaimed."""
        try:
            pod = Pod.from_dict(orjson.loads(vm.document)["pod"])
        except (ValueError, KeyError, TypeError) as error:
            log.error("VM %s is ours but its metadata is not readable (%s): left alone", vm.name, error)
            return
        if pod.metadata.uid != vm.owner.pod_uid:
            log.error("VM %s is ours but its metadata names another pod: left alone", vm.name)
            return
        log.warning("VM %s has no pod in the store: kept as Unclaimed", vm.name)
        await self.book.adopt(pod)
        self.wake(vm.owner.pod_uid)


def _differs(seen: VmStatus, now: VmStatus | None) -> bool:
    if now is None:
        return True
    before = (seen.state, seen.memory_actual_mib, seen.cpu_limit_millicores, seen.agent_ready)
    return before != (now.state, now.memory_actual_mib, now.cpu_limit_millicores, now.agent_ready)
