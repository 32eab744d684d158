"""What to do next for one pod: a pure function of wish, record and what is seen. One step at a time.

After each step the worker looks again, so a plan never goes stale and a crash between two steps needs no repair. The
shell (`edgecore.worker`) executes; nothing here waits, reads a clock or touches a VM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgecore.record import ContainerRecord, PodRecord
from edgecore.sizes import Policy, container_resources, sizes
from kubeapi.core import Container, Pod
from kubeapi.virtualmachine import SHUTDOWN, TERMINATE
from vmruntime.api import Exit, ExitReason, VmState, VmStatus

ADMISSION = ""
"""In the place of a container's name: the pod's own admission."""
_GUEST_RETRY = 2.0
"""Seconds until a guest that is booted but did not answer is asked again."""


RESIZE_RESTART, IMAGE_CHANGED, POWER_OFF = "ResizeRestart", "ImageChanged", "PowerOff"
"""Reasons of a Stop after which the container is started again: at once, or when power is wished again."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Decide whether the node takes the pod at all."""


@dataclass(frozen=True, slots=True)
class AdmitResize:
    """Decide whether the node takes the wished resources."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the container's next attempt: count it, define the VM, start it."""

    container: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Start a VM whose attempt is counted already (the agent died in between)."""

    container: str


@dataclass(frozen=True, slots=True)
class NoteRunning:
    container: str


@dataclass(frozen=True, slots=True)
class NoteExit:
    container: str
    exit: Exit


@dataclass(frozen=True, slots=True)
class SetMemory:
    container: str
    mib: int


@dataclass(frozen=True, slots=True)
class SetCpu:
    container: str
    limit_millicores: int | None
    vcpus_online: int


@dataclass(frozen=True, slots=True)
class NoteResized:
    """Everything allocated is seen in force."""


@dataclass(frozen=True, slots=True)
class Stop:
    container: str
    grace: float
    reason: str


@dataclass(frozen=True, slots=True)
class Remove:
    container: str


@dataclass(frozen=True, slots=True)
class TornDown:
    """No VM is left: tell the hub."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Neither the hub nor the host has it any more."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until something changes, or until `wake_at` (loop time)."""

    wake_at: float | None = None


Step = (
    Admit
    | AdmitResize
    | Launch
    | Resume
    | NoteRunning
    | NoteExit
    | SetMemory
    | SetCpu
    | NoteResized
    | Stop
    | Remove
    | TornDown
    | Forget
    | Settled
)

Vms = Mapping[str, VmStatus]
"""Container name → what is seen of its VM."""


def plan(
    pod: Pod | None, record: PodRecord, vms: Vms, policy: Policy, not_before: Mapping[str, float], now: float
) -> Step:
    """`not_before`: container, or ADMISSION, → loop time before which it must not be tried again (back-off)."""
    if pod is None or pod.metadata.deletion_timestamp:
        return _tear_down(pod, record, vms)
    if record.rejected:
        return _remove_any(record, vms) or Settled()
    if not record.admitted:
        wait = not_before.get(ADMISSION, 0.0)
        return Settled(wait) if wait > now else Admit()
    if _undecided(pod, record):
        return AdmitResize()
    waits: list[float] = []
    for container in pod.spec.containers:
        step = _run(pod, container, record, vms.get(container.name), not_before.get(container.name, 0.0), now)
        if isinstance(step, Settled):
            if step.wake_at is not None:
                waits.append(step.wake_at)
        elif step is not None:
            return step
    step = _resize(pod, record, vms, policy, not_before, now)
    if isinstance(step, Settled) and step.wake_at is not None:
        waits.append(step.wake_at)
    elif not isinstance(step, Settled):
        return step
    return Settled(min(waits, default=None))


def _tear_down(pod: Pod | None, record: PodRecord, vms: Vms) -> Step:
    grace = record.grace
    if pod is not None and pod.metadata.deletion_grace_period_seconds is not None:
        grace = pod.metadata.deletion_grace_period_seconds
    for name, vm in vms.items():
        if vm.state in (VmState.RUNNING, VmState.PAUSED):
            return Stop(name, float(grace), "Killing")
    removal = _remove_any(record, vms)
    if removal:
        return removal
    if pod is None:
        return Forget()
    return Settled() if record.torn_down else TornDown()


def _remove_any(record: PodRecord, vms: Vms) -> Remove | None:
    return next((Remove(name) for name in vms), None)


def resources_differ(pod: Pod, record: PodRecord) -> bool:
    return any(
        container_resources(container) != record.allocated.get(container.name) for container in pod.spec.containers
    )


def _undecided(pod: Pod, record: PodRecord) -> bool:
    """A wish is decided once; a Deferred one again by the desk (edgecore.desk) whenever room appears. A wish that was
    taken back is decided too: what waited for it does so no longer."""
    if record.pending is None:
        return resources_differ(pod, record)
    return record.pending.generation != (pod.metadata.generation or 0)


def restarts(pod: Pod, exit_code: int) -> bool:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy

    In Arktos' form, `shutdownBehavior: terminate` makes a guest that powers itself off stay so.
    """
    vm = pod.spec.virtual_machine
    if vm is not None and vm.shutdown_behavior == TERMINATE and exit_code == 0:
        return False
    policy = pod.spec.restart_policy or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def over(pod: Pod, record: PodRecord) -> bool:
    """Every container has ended for good: the pod holds nothing any more, and nothing brings it back."""
    return bool(pod.spec.containers) and all(ended_for_good(pod, record, item.name) for item in pod.spec.containers)


def ended_for_good(pod: Pod, record: PodRecord, name: str) -> bool:
    known = record.container(name)
    return known.exit is not None and not known.restart and not restarts(pod, known.exit.exit_code)


def powered_off(pod: Pod) -> bool:
    """It is wished so (Arktos' form only)."""
    vm = pod.spec.virtual_machine
    return vm is not None and vm.power_spec == SHUTDOWN


def planned(pod: Pod, container: Container, known: ContainerRecord) -> bool:
    """An end that is no failure, and after which the container is started again whatever the restart policy says."""
    return known.restart or image_changed(container, known) or powered_off(pod)


def image_changed(container: Container, known: ContainerRecord) -> bool:
    """The spec names another image than the one that runs: it is started again, whatever the restart policy says."""
    return bool(known.image) and known.image != container.image


def _run(
    pod: Pod, container: Container, record: PodRecord, vm: VmStatus | None, not_before: float, now: float
) -> Step | None:
    """The next step in the life of one container; None when it runs and nothing is owed."""
    name, known = container.name, record.container(container.name)
    if vm is not None and vm.state in (VmState.RUNNING, VmState.PAUSED) and known.attempt >= 0:
        if powered_off(pod):
            return Stop(name, float(record.grace), POWER_OFF)
        if known.restart:
            return Stop(name, float(record.grace), RESIZE_RESTART)
        if image_changed(container, known):
            return Stop(name, float(record.grace), IMAGE_CHANGED)
        return None if known.started_at and known.trouble is None else NoteRunning(name)
    if known.attempt < 0 or known.exit is not None:
        if powered_off(pod):
            return Settled()
        return _start_next(pod, record, name, not_before, now)
    if powered_off(pod):  # between two steps of a start, or it went off by itself
        return NoteExit(name, (vm.exit if vm else None) or Exit(ExitReason.STOPPED, 0))
    if vm is None:
        if known.started_at is None:
            return Settled(not_before) if not_before > now else Resume(name)
        return NoteExit(name, Exit(ExitReason.UNKNOWN, 255))
    if vm.state is VmState.DEFINED or vm.attempt < known.attempt:
        return Settled(not_before) if not_before > now else Resume(name)
    return NoteExit(name, vm.exit or Exit(ExitReason.UNKNOWN, 255))


def _start_next(pod: Pod, record: PodRecord, name: str, not_before: float, now: float) -> Step:
    if ended_for_good(pod, record, name):
        return Settled()
    return Settled(not_before) if not_before > now else Launch(name)


def _resize(pod: Pod, record: PodRecord, vms: Vms, policy: Policy, not_before: Mapping[str, float], now: float) -> Step:
    """Memory before CPU, decreases first, so that what one VM gives is there for the next."""
    steps: list[tuple[int, Step]] = []
    waits: list[float] = []
    settled = True
    for container in pod.spec.containers:
        vm = vms.get(container.name)
        if vm is None or vm.state is not VmState.RUNNING:
            continue
        step = (_resize_one if vm.agent_ready else _lower_quota)(container.name, record, vm, policy)
        if step is None and vm.vcpus_online is not None:
            continue
        settled = False
        if step is None:  # the guest has not confirmed: its agent's event wakes us, or it is late with its answer
            waits += [now + _GUEST_RETRY] if vm.agent_ready else []
            continue
        wait = not_before.get(container.name, 0.0)
        if wait > now:
            waits.append(wait)
        else:
            steps.append(step)
    if steps:
        return min(steps, key=lambda item: item[0])[1]
    if settled and _owes_resized(pod, record, vms):
        return NoteResized()
    return Settled(min(waits, default=None))


def _resize_one(name: str, record: PodRecord, vm: VmStatus, policy: Policy) -> tuple[int, Step] | None:
    target = sizes(record.allocated.get(name), vm.vcpus_max, policy)
    if target.memory_mib != vm.memory_actual_mib or target.memory_mib != vm.memory_requested_mib:
        return (0 if target.memory_mib < vm.memory_actual_mib else 1), SetMemory(name, target.memory_mib)
    # A guest that does not answer is not asked to change its CPUs; the quota outside holds meanwhile.
    online_differs = vm.vcpus_online is not None and vm.vcpus_online != target.vcpus_online
    if target.cpu_limit_millicores != vm.cpu_limit_millicores or online_differs:
        return 2, SetCpu(name, target.cpu_limit_millicores, target.vcpus_online)
    return None


def _lower_quota(name: str, record: PodRecord, vm: VmStatus, policy: Policy) -> tuple[int, Step] | None:
    """What needs no guest: a CPU limit that falls is enforced outside at once, however deaf the guest is or plays."""
    target = sizes(record.allocated.get(name), vm.vcpus_max, policy)
    limit, now = target.cpu_limit_millicores, vm.cpu_limit_millicores
    if limit is None or (now is not None and now <= limit):
        return None
    return 2, SetCpu(name, limit, target.vcpus_online)


def _owes_resized(pod: Pod, record: PodRecord, vms: Vms) -> bool:
    """Something is allocated whose arrival was not noted yet, in a VM that runs."""
    if record.progress is not None:
        return all(
            not record.container(item.name).restart and (item.name in vms or record.container(item.name).exit)
            for item in pod.spec.containers
        )
    return any(
        name in vms and vms[name].agent_ready and record.container(name).actuated != resources
        for name, resources in record.allocated.items()
    )
