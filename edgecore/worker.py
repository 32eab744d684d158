"""One serial worker per pod: look, plan, do one step, look again. A wish that changes meanwhile is simply seen next.

The worker never remembers what it did; the record does. Only back-off deadlines live in memory: after a restart of the
agent everything may be tried at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from edgecore import plan as steps
from edgecore.book import Book
from edgecore.desk import Desk
from edgecore.environment import EnvError, references
from edgecore.events import Note, resize_detail
from edgecore.machine import POWERED_OFF
from edgecore.plan import Step, Vms, plan
from edgecore.record import ContainerRecord, PodRecord, Trouble
from edgecore.sizes import SizeError
from edgecore.spec import Place, document, vm_spec, vm_uuid
from edgecore.status import pod_status, terminated
from edgelink.api import ItemKey
from kubeapi.clock import woken
from kubeapi.core import Container, Pod
from metastore.api import StoreError
from vmruntime.api import (
    Exit,
    ExitReason,
    GuestUnavailable,
    ImageNotFound,
    InvalidSpec,
    ResizeIncomplete,
    ResizeInfeasible,
    ResizeRefused,
    Runtime,
    RuntimeUnavailable,
    StartFailed,
    VmError,
    VmNotFound,
    VmState,
)

log = logging.getLogger(__name__)

_BACKOFF_FIRST, _BACKOFF_MAX = 10.0, 300.0
"""Seconds, as the kubelet's for crash loops."""
_RESET_AFTER = 600.0
"""A run this long makes the next crash the first again (the kubelet's ten minutes)."""
_RESIZE_RETRY, _RESIZE_RETRY_MAX = 2.0, 60.0
_UNAVAILABLE_RETRY = 2.0
_REFERENCE_RETRY = 5.0
_ADMISSION_RETRY = 0.5
"""Seconds until a pod that waits for others on their way out asks again."""
_WAITING = {
    ImageNotFound: "ErrImagePull",
    InvalidSpec: "CreateContainerConfigError",
    SizeError: "CreateContainerConfigError",
    EnvError: "CreateContainerConfigError",
    StartFailed: "RunContainerError",
}
_EXIT_REASONS = {
    ExitReason.SHUTDOWN: "Completed",
    ExitReason.STOPPED: "Error",
    ExitReason.KILLED: "Killed",
    ExitReason.PANIC: "GuestPanic",
    ExitReason.HOST: "HostReboot",
    ExitReason.UNKNOWN: "Unknown",
}


_RESTARTS = {
    steps.RESIZE_RESTART: "Container {name} resize requires restart",
    steps.IMAGE_CHANGED: "Container {name} definition changed, will be restarted",
    steps.POWER_OFF: "Powering off virtual machine {name}, as its powerSpec wishes",
}
"""Stops that are followed by a start, whatever the restart policy says; the kubelet's words, where it has them."""


def _container(pod: Pod, name: str) -> Container:
    return next(item for item in pod.spec.containers if item.name == name)


def restart_delay(crashes: int) -> float:
    """Seconds before the start after the `crashes`-th exit in a row: at once, then 10, 20, … 300."""
    return 0.0 if crashes <= 1 else min(_BACKOFF_FIRST * 2 ** (crashes - 2), _BACKOFF_MAX)


def retry_delay(failures: int) -> float:
    return float(min(_BACKOFF_FIRST * 2 ** (failures - 1), _BACKOFF_MAX))


def _exit_reason(ending: Exit) -> str:
    if ending.reason is ExitReason.SHUTDOWN and ending.code:
        return "Error"
    return _EXIT_REASONS[ending.reason]


@dataclass
class Worker:
    uid: str
    book: Book
    runtime: Runtime
    desk: Desk
    installation: str
    address: str | None
    freed: Callable[[], None]
    """Called when this pod has given something back to the node."""
    done: Callable[[str], None]
    """Called when the pod is forgotten: this worker ends."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _not_before: dict[str, float] = field(default_factory=dict)
    _resize_failures: dict[str, int] = field(default_factory=dict)
    _ran_at: dict[str, float] = field(default_factory=dict)
    _finished: bool = False

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while not self._finished:
            self._wake.clear()
            wake_at = await self._guarded_round()
            if self._finished:
                return
            await woken(self._wake, None if wake_at is None else max(wake_at - self._now(), 0.0))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _guarded_round(self) -> float | None:
        """Steps until nothing is left to do. Returns when to look again (loop time), or None for "when woken"."""
        try:
            return await self._round()
        except (RuntimeUnavailable, StoreError) as error:
            log.warning("pod %s: %s", self.uid, error)
        except Exception:  # the worker's boundary: a fault in one pod stays with that pod
            log.exception("pod %s: unexpected fault, trying again", self.uid)
        return self._now() + _UNAVAILABLE_RETRY

    async def _round(self) -> float | None:
        while True:
            pod = self.book.pods.get(self.uid)
            record = self.book.record(pod) if pod is not None else self.book.records.get(self.uid)
            if record is None:
                self._end()
                return None
            vms = await self._look(pod, record)
            step = plan(pod, record, vms, self.desk.policy, self._not_before, self._now())
            record = await self._report(pod, record, vms, settled=isinstance(step, steps.Settled))
            if isinstance(step, steps.Settled):
                return step.wake_at
            log.info("pod %s/%s: %s", record.namespace, record.name, step)
            await self._execute(step, pod, record)
            if self._finished:
                return None

    def _end(self) -> None:
        self._finished = True
        self.desk.seen.pop(self.uid, None)
        self.done(self.uid)

    async def _look(self, pod: Pod | None, record: PodRecord) -> Vms:
        names = dict.fromkeys([*(item.name for item in pod.spec.containers)] if pod else [])
        names.update(dict.fromkeys(record.containers))
        found = {}
        for name in names:
            try:
                found[name] = await self.runtime.inspect(vm_uuid(self.uid, name))
            except VmNotFound:
                continue
        self.desk.seen[self.uid] = found
        return found

    async def _report(self, pod: Pod | None, record: PodRecord, vms: Vms, *, settled: bool) -> PodRecord:
        """Send the status if it changed. While a pod is torn down its last status stands until it is gone."""
        if pod is None or record.torn_down or (not record.admitted and not record.rejected):
            return record
        status = pod_status(pod, record, vms, self.address, self.book.now())
        if not settled and record.status is not None:
            # A generation is observed when everything it asks for has been decided.
            status.observed_generation = record.status.observed_generation
        if record.status is not None and status == record.status:
            return record
        return await self.book.save(record, status=status)

    async def _execute(self, step: Step, pod: Pod | None, record: PodRecord) -> None:
        match step:
            case steps.Stop(name, grace, reason):
                await self._stop(pod, record, name, grace, reason)
            case steps.Remove(name):
                await self.runtime.delete(vm_uuid(self.uid, name))
            case steps.TornDown():
                await self.book.gone(record)
                self.freed()
            case steps.Forget():
                await self.book.forget(record)
                self.freed()
                self._end()
            case _ if pod is not None:
                await self._execute_living(step, pod, record)

    async def _execute_living(self, step: Step, pod: Pod, record: PodRecord) -> None:
        match step:
            case steps.Admit():
                record = await self.desk.admit(pod)
                if not record.admitted and not record.rejected:
                    self._not_before[steps.ADMISSION] = self._now() + _ADMISSION_RETRY
            case steps.AdmitResize():
                await self.desk.admit_resize(pod)
                self._resize_failures.clear()
            case steps.Launch(name):
                image = _container(pod, name).image
                await self._launch(pod, await self._count_attempt(record, name, image), name)
            case steps.Resume(name):
                await self._launch(pod, record, name)
            case steps.NoteRunning(name):
                await self._note_running(pod, record, name)
            case steps.NoteExit(name, ending):
                await self._note_exit(pod, record, name, ending)
            case steps.SetMemory(name, mib):
                await self._resize(pod, record, name, lambda uuid: self.runtime.set_memory(uuid, mib))
            case steps.SetCpu(name, limit, online):
                await self._resize(pod, record, name, lambda uuid: self.runtime.set_cpu(uuid, limit, online))
            case steps.NoteResized():
                await self._note_resized(pod, record)

    # Starting and ending

    async def _count_attempt(self, record: PodRecord, name: str, image: str) -> PodRecord:
        """The intent, before the act: a crash after this finds an attempt to finish, and does not count it again."""
        known = record.container(name)
        fresh = ContainerRecord(
            attempt=known.attempt + 1,
            image=image,
            image_id=known.image_id,
            last_exit=known.exit or known.last_exit,
            crashes=known.crashes,
            trouble=known.trouble,
        )
        return await self.book.save(record.with_container(name, fresh))

    async def _launch(self, pod: Pod, record: PodRecord, name: str) -> None:
        container = _container(pod, name)
        uuid = vm_uuid(self.uid, name)
        try:
            spec = vm_spec(pod, container, record, await self._place(pod, container))
            image = await self.runtime.image(container.image)
            if image.digest != record.container(name).image_id:
                known = record.container(name).model_copy(update={"image_id": image.digest})
                record = await self.book.save(record.with_container(name, known))
            await self.runtime.create(spec)
            await self.runtime.start(uuid)
        except EnvError as error:
            trouble = record.container(name).trouble
            if trouble is None or trouble.message != str(error):
                await self._note_trouble(pod, record, name, _WAITING[EnvError], str(error))
            # What is missing may come with the next delta; to look again costs nothing, and writes nothing.
            self._not_before[name] = self._now() + _REFERENCE_RETRY
        except (ImageNotFound, InvalidSpec, StartFailed, SizeError) as error:
            await self._note_trouble(pod, record, name, _WAITING[type(error)], str(error))

    async def _place(self, pod: Pod, container: Container) -> Place:
        namespace = pod.metadata.namespace or ""
        objects = {}
        for kind, name in references(container):
            if (found := await self.book.object(ItemKey(kind, namespace, name))) is not None:
                objects[kind, name] = found
        return Place(self.installation, self.desk.policy, objects, self.address or "")

    async def _note_trouble(self, pod: Pod, record: PodRecord, name: str, reason: str, message: str) -> None:
        known = record.container(name)
        failures = known.trouble.failures + 1 if known.trouble else 1
        self._not_before[name] = self._now() + retry_delay(failures)
        log.warning("pod %s/%s: %s: %s", record.namespace, record.name, reason, message)
        trouble = Trouble(reason=reason, message=message, failures=failures)
        notes = [] if known.trouble and known.trouble.message == message else [Note("Failed", message, warning=True)]
        record = record.with_container(name, known.model_copy(update={"trouble": trouble}))
        await self.book.save(record, pod=pod, notes=notes)

    async def _note_running(self, pod: Pod, record: PodRecord, name: str) -> None:
        known = record.container(name)
        self._ran_at[name] = self._now()
        self._not_before.pop(name, None)
        fresh = known.model_copy(update={"started_at": known.started_at or self.book.now(), "trouble": None})
        note = Note("Started", f"Started container {name}" + (f" (attempt {known.attempt})" if known.attempt else ""))
        await self.book.save(record.with_container(name, fresh), pod=pod, notes=[note])

    async def _note_exit(self, pod: Pod, record: PodRecord, name: str, ending: Exit) -> None:
        known = record.container(name)
        ran = self._now() - self._ran_at.get(name, self._now())
        planned = steps.planned(pod, _container(pod, name), known)
        crashes = known.crashes if planned else (1 if ran >= _RESET_AFTER else known.crashes + 1)
        reason = (
            _EXIT_REASONS[ending.reason] if ending.code or ending.reason is not ExitReason.SHUTDOWN else "Completed"
        )
        if ending.reason is ExitReason.SHUTDOWN and ending.code:
            reason = "Error"
        if steps.powered_off(pod):
            reason = POWERED_OFF
        uuid = vm_uuid(self.uid, name)
        state = terminated(ending.code, reason, None, known.started_at, self.book.now(), uuid)
        self._not_before[name] = self._now() + (0.0 if planned else restart_delay(crashes))
        trouble = None
        if not planned and steps.restarts(pod, ending.code) and crashes > 1:
            message = f"back-off {restart_delay(crashes):.0f}s restarting failed container={name}"
            trouble = Trouble(reason="CrashLoopBackOff", message=message, failures=1)
        fresh = known.model_copy(update={"exit": state, "crashes": crashes, "trouble": trouble, "restart": planned})
        notes = (
            []
            if planned
            else [Note("Exited", f"Container {name}: {reason}, exit code {ending.code}", bool(ending.code))]
        )
        await self.book.save(record.with_container(name, fresh), pod=pod, notes=notes)
        self.freed()

    async def _stop(self, pod: Pod | None, record: PodRecord, name: str, grace: float, reason: str) -> None:
        restart = reason in _RESTARTS
        message = _RESTARTS.get(reason, "Stopping container {name}").format(name=name)
        if pod is not None:
            await self.book.save(record, pod=pod, notes=[Note("Killing", message)])
        uuid = vm_uuid(self.uid, name)
        await self.runtime.stop(uuid, grace)
        if restart and pod is not None:
            await self._note_exit(pod, record, name, await self._ending(uuid))

    async def _ending(self, uuid: str) -> Exit:
        try:
            seen = await self.runtime.inspect(uuid)
        except VmNotFound:
            return Exit(ExitReason.STOPPED, 137)
        return seen.exit if seen.state is VmState.STOPPED and seen.exit else Exit(ExitReason.STOPPED, 137)

    # Resizing

    async def _resize(self, pod: Pod, record: PodRecord, name: str, act: Callable[[str], Awaitable[None]]) -> None:
        uuid = vm_uuid(self.uid, name)
        try:
            await act(uuid)
        except (ResizeInfeasible, ResizeRefused, ResizeIncomplete, GuestUnavailable) as error:
            seen = self.desk.seen.get(self.uid, {}).get(name)
            if isinstance(error, GuestUnavailable) and seen is not None and not seen.agent_ready:
                # Known before it was tried, for the part that needs no guest; the condition says what is waited for.
                self._not_before[name] = self._now() + _RESIZE_RETRY
                return
            await self._note_resize_error(pod, record, name, error)
        else:
            self._resize_failures.pop(name, None)

    async def _note_resize_error(self, pod: Pod, record: PodRecord, name: str, error: VmError) -> None:
        failures = self._resize_failures.get(name, 0) + 1
        self._resize_failures[name] = failures
        self._not_before[name] = self._now() + min(_RESIZE_RETRY * 2 ** (failures - 1), _RESIZE_RETRY_MAX)
        if record.progress is None or record.progress.error == str(error):
            return
        update = {"progress": record.progress.model_copy(update={"error": str(error)})}
        note = Note("ResizeError", f"Pod resize error: {resize_detail(pod, str(error))}", warning=True)
        await self.book.save(record.model_copy(update=update), pod=pod, notes=[note])

    async def _note_resized(self, pod: Pod, record: PodRecord) -> None:
        """Verified: only now the allocation is what is in force, and what it gave back is free."""
        containers = {
            name: record.container(name).model_copy(update={"actuated": resources})
            for name, resources in record.allocated.items()
        }
        notes = []
        if record.progress is not None:
            notes.append(Note("ResizeCompleted", f"Pod resize completed: {resize_detail_of(record)}"))
        for name in containers:
            try:
                await self.runtime.set_document(vm_uuid(self.uid, name), document(pod, record))
            except VmNotFound:
                continue
        update = {"containers": record.containers | containers, "progress": None}
        await self.book.save(record.model_copy(update=update), pod=pod, notes=notes)
        self._resize_failures.clear()
        self.freed()


def resize_detail_of(record: PodRecord) -> str:
    """As `resize_detail`, of what was allocated: the wish may have moved on meanwhile."""
    pod = Pod.from_dict(
        {
            "metadata": {"generation": record.progress.generation if record.progress else 0},
            "spec": {
                "containers": [
                    {"name": name, "resources": resources.to_dict()} for name, resources in record.allocated.items()
                ]
            },
        }
    )
    return resize_detail(pod)
