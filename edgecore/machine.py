"""What a node says of a pod in Arktos' form, beside what it says of every pod: pure."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore.plan import Vms
from edgecore.record import ContainerRecord, PodRecord
from kubeapi.core import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    VirtualMachine,
    VirtualMachineStatus,
)
from kubeapi.virtualmachine import PAUSED, SUSPENDED
from vmruntime.api import ExitReason, VmState, VmStatus

POWERED_OFF = "PoweredOff"
OFF = ContainerState(
    waiting=ContainerStateWaiting(reason=POWERED_OFF, message="spec.virtualMachine.powerSpec is Shutdown")
)
_NOT_APPLIED = (
    "publicKey", "keyPairName", "userData", "cloudInitUserDataScript", "bootVolume", "volumeMounts", "volumeDevices",
    "trustedImageCertificate",
)  # fmt: skip
"""What this node's runtime does nothing about yet: its VMs boot their image, and have no other disks or seeds."""


def configured(vm: VirtualMachine) -> tuple[bool, str | None, str | None]:
    """Whether all that the machine asks for is done; else reason and message. Nothing is left out silently."""
    given = vm.to_dict()
    left = [name for name in _NOT_APPLIED if given.get(name)]
    if vm.power_spec in (PAUSED, SUSPENDED):
        left.append(f"powerSpec {vm.power_spec}")
    return (False, "NotSupported", f"this node does not apply: {', '.join(left)}") if left else (True, None, None)


def machine_status(
    pod: Pod, record: PodRecord, vms: Vms, containers: Sequence[ContainerStatus]
) -> VirtualMachineStatus | None:
    """None for a pod of containers. `containers`: of the same status."""
    if pod.spec.virtual_machine is None or len(containers) != 1:
        return None
    mirror = containers[0]
    vm, known = vms.get(mirror.name), record.container(mirror.name)
    return VirtualMachineStatus(
        name=mirror.name,
        virtual_machine_id=vm.uuid if vm is not None else None,
        image=mirror.image,
        image_id=mirror.image_id or None,
        state=_state(vm, known),
        power_state=_power(vm),
        ready=mirror.ready,
        restart_count=mirror.restart_count,
        resources=mirror.resources,
        allocated_resources=record.allocated.get(mirror.name),
    )


def _power(vm: VmStatus | None) -> str:
    """As the hypervisor has it, in Arktos' words."""
    if vm is None:
        return "nostate"
    if vm.state is VmState.STOPPED and vm.exit is not None and vm.exit.reason in (ExitReason.PANIC, ExitReason.KILLED):
        return "crashed"
    return {VmState.RUNNING: "running", VmState.PAUSED: "paused"}.get(vm.state, "shutdown")


def _state(vm: VmStatus | None, known: ContainerRecord) -> str | None:
    """As its users should think of it; None while there is nothing."""
    if vm is not None and vm.state in (VmState.RUNNING, VmState.PAUSED):
        return "active" if vm.state is VmState.RUNNING else "paused"
    if known.trouble is not None or _power(vm) == "crashed":
        return "error"
    return None if vm is None else "stopped"
