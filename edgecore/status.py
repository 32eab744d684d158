"""PodStatus from what is recorded and seen: pure. Nothing here is a hope; what was not seen is not said.

The shape is what a 1.36 kubelet writes (tests/data/kubernetes/resize-states).
"""

from __future__ import annotations

from edgecore.machine import OFF, configured, machine_status
from edgecore.plan import Vms, ended_for_good, powered_off, restarts
from edgecore.record import ContainerRecord, PodRecord
from kubeapi import quantity
from kubeapi.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from kubeapi.qos import qos_class
from vmruntime.api import VmState, VmStatus

_MIB = 1 << 20
_ENDED = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""Why a pod in that phase is not Ready."""


def pod_status(pod: Pod, record: PodRecord, vms: Vms, address: str | None, now: str) -> PodStatus:
    """`address`: the node's; `now` stamps conditions that change."""
    generation = pod.metadata.generation
    if record.rejected:
        return PodStatus(
            observed_generation=generation,
            phase="Failed",
            reason=record.rejected,
            message=f"Pod was rejected: {record.rejected_message}",
            start_time=record.start_time,
            qos_class=qos_class(pod),
        )
    containers = [
        _container_status(pod, container, record, vms.get(container.name)) for container in pod.spec.containers
    ]
    status = PodStatus(
        observed_generation=generation,
        phase=_phase(pod, containers),
        start_time=record.start_time,
        qos_class=qos_class(pod),
        container_statuses=containers,
        virtual_machine_status=machine_status(pod, record, vms, containers),
        host_ip=address,
        host_ips=[PodIP(ip=address)] if address else [],
    )
    status.conditions = _conditions(pod, record, vms, status, now)
    return status


def _phase(pod: Pod, containers: list[ContainerStatus]) -> str:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase"""
    ended = [
        item.state.terminated.exit_code
        for item in containers
        if item.state and item.state.terminated and not restarts(pod, item.state.terminated.exit_code)
    ]
    if containers and len(ended) == len(containers):
        return "Succeeded" if not any(ended) else "Failed"
    began = any(item.restart_count or (item.state and not item.state.waiting) or item.last_state for item in containers)
    return "Running" if began else "Pending"


def _container_status(pod: Pod, container: Container, record: PodRecord, vm: VmStatus | None) -> ContainerStatus:
    known = record.container(container.name)
    running = vm is not None and vm.state in (VmState.RUNNING, VmState.PAUSED) and known.exit is None
    allocated = record.allocated.get(container.name)
    status = ContainerStatus(
        name=container.name,
        image=known.image or container.image,
        image_id=known.image_id,
        restart_count=max(known.attempt, 0),
        state=_state(known),
        ready=bool(running and vm and vm.agent_ready),
        started=bool(running and vm and vm.agent_ready),
        container_id=f"copepod://{vm.uuid}" if vm is not None else None,
    )
    if known.last_exit is not None:
        status.last_state = ContainerState(terminated=known.last_exit)
    if powered_off(pod) and not running and not ended_for_good(pod, record, container.name):
        status.state = OFF
        if known.exit is not None:
            status.last_state = ContainerState(terminated=known.exit)
    if allocated is not None and record.admitted:
        status.allocated_resources = dict(allocated.requests)
        status.resources = _in_force(allocated, known, vm if running else None)
    return status


def _state(known: ContainerRecord) -> ContainerState:
    """As recorded: an end that is seen but not yet noted is no way back from running to waiting."""
    if known.started_at and known.exit is None:
        return ContainerState(running=ContainerStateRunning(started_at=known.started_at))
    if known.trouble is not None:
        waiting = ContainerStateWaiting(reason=known.trouble.reason, message=known.trouble.message)
        return ContainerState(waiting=waiting)
    if known.exit is not None:
        return ContainerState(terminated=known.exit)
    return ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))


def _in_force(allocated: ResourceRequirements, known: ContainerRecord, vm: VmStatus | None) -> ResourceRequirements:
    """Limits as the hypervisor shows them; requests as last verified (nothing outside shows a request)."""
    actuated = known.actuated or allocated
    if vm is None:
        return actuated
    limits = {name: value for name, value in actuated.limits.items() if name not in ("cpu", "memory")}
    if vm.cpu_limit_millicores is not None:
        limits["cpu"] = _named(vm.cpu_limit_millicores, allocated.limits.get("cpu"))
    if "memory" in allocated.limits or "memory" in actuated.limits:
        limits["memory"] = _named_memory(vm.memory_actual_mib, allocated, actuated)
    return ResourceRequirements(limits=dict(sorted(limits.items())), requests=dict(actuated.requests))


def _named(millicores: int, wished: str | None) -> str:
    """In the wish's own words where it is met (a limit of 5m is enforced as 10m, and says so)."""
    return wished if wished and quantity.cpu_millis(wished) == millicores else quantity.format_cpu(millicores)


def _named_memory(mib: int, *candidates: ResourceRequirements) -> str:
    """A size in bytes that rounds up to these MiB is that size: the device has steps, the wish need not."""
    for candidate in candidates:
        text = candidate.limits.get("memory")
        if text is not None and 0 <= mib * _MIB - quantity.memory_bytes(text) < 2 * _MIB:
            return text
    return quantity.format_memory(mib * _MIB)


def _readiness(status: PodStatus) -> tuple[bool, str | None, str | None]:
    """Whether all containers are ready; else reason and message, as pkg/kubelet/status/generate.go words them."""
    unready = [item.name for item in status.container_statuses if not item.ready]
    if status.container_statuses and not unready:
        return True, None, None
    if status.phase in _ENDED:
        return False, _ENDED[status.phase], None
    return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"


def _conditions(pod: Pod, record: PodRecord, vms: Vms, status: PodStatus, now: str) -> list[PodCondition]:
    generation = pod.metadata.generation
    ready, reason, why = _readiness(status)
    wanted: list[tuple[str, bool, str | None, str | None]] = []
    if record.pending is not None:
        wanted.append(("PodResizePending", True, record.pending.reason, record.pending.message))
    if pod.spec.virtual_machine is not None:
        wanted.append(("VirtualMachineConfigured", *configured(pod.spec.virtual_machine)))
    if record.progress is not None:
        error = record.progress.error
        wanted.append(("PodResizeInProgress", True, "Error" if error else None, error or _awaited(pod, vms)))
    wanted += [
        ("PodReadyToStartContainers", record.admitted, None, None),
        ("Initialized", True, "PodCompleted" if status.phase == "Succeeded" else None, None),
        ("Ready", ready, reason, why),
        ("ContainersReady", ready, reason, why),
        ("PodScheduled", True, None, None),
    ]
    before = {item.type: item for item in record.status.conditions} if record.status else {}
    return [
        PodCondition(
            type=kind,
            status="True" if true else "False",
            reason=because,
            message=message,
            observed_generation=generation,
            last_transition_time=_since(before.get(kind), true, now),
        )
        for kind, true, because, message in wanted
    ]


def _awaited(pod: Pod, vms: Vms) -> str | None:
    """Whose word a resize waits for: nothing is done until the guest shows it (S-63)."""
    if powered_off(pod):
        return "the virtual machine is powered off, and has its new size when it is switched on"
    for name, vm in vms.items():
        if vm.state is VmState.RUNNING and not vm.agent_ready:
            return f"container {name!r}: waiting for the guest's agent to connect (it boots, or its agent has ended)"
        if vm.state is VmState.RUNNING and vm.vcpus_online is None:
            return f"container {name!r}: waiting for the guest's agent to answer"
    return None


def _since(before: PodCondition | None, true: bool, now: str) -> str:
    if before is not None and before.status == ("True" if true else "False") and before.last_transition_time:
        return before.last_transition_time
    return now


def terminated(
    code: int, reason: str, message: str | None, started: str | None, finished: str, container_id: str
) -> ContainerStateTerminated:
    return ContainerStateTerminated(
        exit_code=code,
        reason=reason,
        message=message,
        started_at=started,
        finished_at=finished,
        container_id=f"copepod://{container_id}",
    )
