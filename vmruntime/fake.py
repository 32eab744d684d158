"""The in-memory runtime: every promise of `vmruntime.api` over a `FakeHost`, on the event loop's own time.

It runs the same contract suite as the libvirt driver. Nothing here may use threads, wall-clock time or
chance: simulations run thousands of these under a virtual clock and must replay exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from weakref import WeakSet

from vmruntime import checks
from vmruntime.api import (
    Acceleration,
    EventType,
    ExecResult,
    Exit,
    ExitReason,
    GuestUnavailable,
    HostInfo,
    Image,
    ImageNotFound,
    InvalidSpec,
    ResizeIncomplete,
    RuntimeUnavailable,
    StartFailed,
    VmError,
    VmEvent,
    VmNotFound,
    VmSpec,
    VmState,
    VmStatus,
    VmUsage,
)
from vmruntime.fake_console import FakeConsole
from vmruntime.fake_host import GUEST_KERNEL_MIB, FakeHost, FakeVm, Faults
from vmruntime.fake_process import FakeProcess
from vmruntime.process import MAX_PROCESSES, GuestProcess, Terminal
from vmruntime.sizing import OVERHEAD_MIB

__all__ = ["FakeHost", "FakeRuntime", "FakeVm", "Faults"]

DEVICE_SECONDS = 0.02
"""What a device takes to plug or unplug (docs/vm-lore.md: 4-30 ms)."""
SHUTDOWN_SECONDS = 0.5
"""What a healthy guest takes to power off."""
IDLE_CORES = 0.02
"""What a pretended guest uses, always."""


class FakeRuntime:
    """A `Runtime` for one installation on a pretended host. Several may share a host."""

    def __init__(self, host: FakeHost, installation: str) -> None:
        self._host, self._installation = host, installation
        self._processes: dict[str, WeakSet[FakeProcess]] = {}

    # -- what there is --------------------------------------------------------------------------------------------

    async def host(self) -> HostInfo:
        self._check_up()
        acceleration = Acceleration("tcg", False, "a pretended host has no /dev/kvm")
        overhead = OVERHEAD_MIB[acceleration.kind]
        return HostInfo("fake", "fake://1", acceleration, overhead, self._host.cpus, self._host.memory_mib)

    async def image(self, reference: str) -> Image:
        image = self._host.image(reference)
        if image is None:
            raise ImageNotFound(f"image {reference} is not on this node; build it with `copepod image build`")
        return image

    async def list(self) -> Sequence[VmStatus]:
        self._check_up()
        mine = [vm for vm in self._host.vms.values() if vm.spec.owner.installation == self._installation]
        return [self._status(vm, ask_guest=False) for vm in mine]

    async def inspect(self, uuid: str) -> VmStatus:
        vm = self._vm(uuid)
        delay = self._host.faults_of(uuid).agent_delay
        answers = self._answers(vm) and delay < 5.0
        if answers and delay:
            await asyncio.sleep(delay)
        return self._status(self._vm(uuid), ask_guest=answers)

    async def usage(self, uuid: str) -> VmUsage:
        vm = self._running(uuid)
        runs_for = asyncio.get_running_loop().time() - vm.started_at
        return VmUsage(IDLE_CORES * runs_for, (vm.used_mib if self._answers(vm) else vm.actual_mib) << 20)

    # -- life and death -------------------------------------------------------------------------------------------

    async def create(self, spec: VmSpec) -> None:
        self._check_up()
        if spec.owner.installation != self._installation:
            raise InvalidSpec(
                f"VM {spec.name} belongs to installation {spec.owner.installation}, not {self._installation}"
            )
        checks.check_spec(spec, await self.image(spec.image))
        known = self._host.vms.get(spec.uuid)
        if any(vm.spec.name == spec.name and vm is not known for vm in self._host.vms.values()):
            raise InvalidSpec(f"VM name {spec.name} is taken by another VM on this host")
        if known is not None and known.spec.owner.installation != self._installation:
            raise InvalidSpec(f"VM {spec.uuid} exists and is not ours")
        if known is not None and known.running:
            if checks.fixed_parts(known.spec) != checks.fixed_parts(spec):
                raise InvalidSpec(f"VM {spec.name} runs with another spec; stop it before creating it anew")
            return
        self._host.vms[spec.uuid] = FakeVm(spec, boots=known.boots if known else 0)
        self._host.save()

    async def start(self, uuid: str) -> None:
        vm = self._vm(uuid)
        if vm.running:
            return
        self._fail_start(vm)
        spec = vm.spec
        vm.state, vm.exit, vm.boots = VmState.RUNNING, None, vm.boots + 1
        vm.cpu_limit_millicores, vm.vcpus_online = spec.cpu_limit_millicores, spec.vcpus_online
        vm.requested_mib = vm.actual_mib = spec.memory_mib
        vm.console.clear()
        vm.started_at = asyncio.get_running_loop().time()
        self._host.begin_boot(vm)
        self._host.publish(EventType.STARTED, uuid)
        self._host.save()

    def _fail_start(self, vm: FakeVm) -> None:
        faults = self._host.faults_of(vm.spec.uuid)
        if not faults.start or faults.start_times == 0:
            return
        if faults.start_times is not None:
            faults.start_times -= 1
        raise StartFailed(f"cannot start VM {vm.spec.name}: {faults.start}")

    async def stop(self, uuid: str, grace: float) -> None:
        vm = self._vm(uuid)
        if not vm.running:
            return
        boots = vm.boots
        takes = self._obeys_after(vm)
        obeys = takes is not None and takes < grace
        await asyncio.sleep(takes if takes is not None and obeys else max(grace, 0.0))
        if vm.running and vm.boots == boots:
            self._host.end(uuid, Exit(ExitReason.STOPPED, 143 if obeys else 137))

    def _obeys_after(self, vm: FakeVm) -> float | None:
        """Seconds until the guest has powered off. One that still boots obeys once it hears: requests are resent."""
        faults = self._host.faults_of(vm.spec.uuid)
        if faults.hung or faults.boot_hangs or vm.state is not VmState.RUNNING:
            return None
        boots_for = max(vm.ready_at - asyncio.get_running_loop().time(), 0.0)
        return boots_for + SHUTDOWN_SECONDS

    async def delete(self, uuid: str) -> None:
        self._check_up()
        vm = self._host.vms.get(uuid)
        if vm is None or vm.spec.owner.installation != self._installation:
            return
        self._host.end(uuid, Exit(ExitReason.STOPPED, 137))
        del self._host.vms[uuid]
        self._host.publish(EventType.REMOVED, uuid)
        self._host.save()

    # -- resizing -------------------------------------------------------------------------------------------------

    async def set_cpu(self, uuid: str, limit_millicores: int | None, vcpus_online: int) -> None:
        vm = self._running(uuid)
        checks.check_quota(vm.spec.name, limit_millicores)
        checks.check_online(vm.spec.name, vcpus_online, vm.spec.vcpus_max)
        vm.cpu_limit_millicores = limit_millicores
        self._host.save()
        if vm.vcpus_online == vcpus_online:
            return
        await self._ask_guest(vm)
        if self._host.faults_of(uuid).guest_ignores:
            raise ResizeIncomplete(
                f"VM {vm.spec.name}: {vcpus_online} CPUs asked for, its guest shows {vm.vcpus_online}", vm.vcpus_online
            )
        vm.vcpus_online = vcpus_online
        self._host.publish(EventType.RESIZED, uuid)
        self._host.save()

    async def set_memory(self, uuid: str, size_mib: int, deadline: float = 30.0) -> None:
        vm = self._running(uuid)
        checks.check_resize(vm.spec.name, size_mib, vm.spec.memory_base_mib, vm.spec.memory_max_mib)
        if size_mib == vm.requested_mib == vm.actual_mib == vm.guest_mib:
            return
        await self._ask_guest(vm)
        checks.check_shrink(vm.spec.name, size_mib, vm.actual_mib, vm.used_mib)
        vm.requested_mib = size_mib
        self._host.save()
        await asyncio.sleep(DEVICE_SECONDS)
        self._plug(vm, size_mib)
        self._host.publish(EventType.RESIZED, uuid)
        self._host.save()
        shown = min(vm.actual_mib, vm.guest_mib) if size_mib >= vm.guest_mib else vm.actual_mib
        if shown != size_mib:
            await asyncio.sleep(deadline)
            raise ResizeIncomplete(
                f"VM {vm.spec.name}: {size_mib} MiB asked for, {shown} MiB seen after {deadline:g} s", shown
            )

    def _plug(self, vm: FakeVm, size_mib: int) -> None:
        faults = self._host.faults_of(vm.spec.uuid)
        grows = size_mib >= vm.actual_mib
        short = faults.plug_short_mib if size_mib != vm.actual_mib else 0
        reached = max(size_mib - short, vm.actual_mib) if grows else min(size_mib + short, vm.actual_mib)
        vm.actual_mib = reached
        vm.guest_mib = min(vm.guest_mib, reached) if faults.guest_ignores else reached

    async def set_document(self, uuid: str, document: bytes) -> None:
        vm = self._vm(uuid)
        vm.spec = replace(vm.spec, document=document)
        self._host.save()

    # -- seeing and touching the guest ----------------------------------------------------------------------------

    def events(self) -> AsyncIterator[VmEvent]:
        return self._host.publisher.subscribe()

    async def console(self, uuid: str, *, tail: int | None = None, follow: bool = False) -> AsyncIterator[bytes]:
        vm = self._vm(uuid)
        lines = bytes(vm.console).splitlines(keepends=True)
        start = b"".join(lines if tail is None else lines[max(len(lines) - tail, 0) :])
        if start:
            yield start
        seen, boots = len(vm.console), vm.boots
        while follow and vm.running and vm.boots == boots:
            await self._host.console_changed.wait()
            if len(vm.console) > seen:
                yield bytes(vm.console[seen:])
            seen = len(vm.console)

    async def attach(self, uuid: str) -> GuestProcess:
        return FakeConsole(self._host, self._running(uuid))

    async def exec(self, uuid: str, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0) -> ExecResult:
        vm = self._running(uuid)
        await self._ask_guest(vm)
        return _run(vm, tuple(argv), stdin)

    async def spawn(
        self, uuid: str, argv: Sequence[str], *, stdin: bool = False, terminal: Terminal | None = None
    ) -> GuestProcess:
        vm = self._running(uuid)
        await self._ask_guest(vm)
        living = self._processes.setdefault(uuid, WeakSet())
        if sum(not process.ended for process in living) >= MAX_PROCESSES:
            raise VmError(f"{MAX_PROCESSES} programs are watched in this VM already; end one first")
        process = FakeProcess(self._host, vm, argv, stdin, terminal)
        living.add(process)
        return process

    async def close(self) -> None:
        """VMs, and other runtimes on this host, run on."""

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check_up(self) -> None:
        if self._host.down:
            raise RuntimeUnavailable("libvirtd does not answer (pretended)")

    def _vm(self, uuid: str) -> FakeVm:
        self._check_up()
        vm = self._host.vms.get(uuid)
        if vm is None or vm.spec.owner.installation != self._installation:
            raise VmNotFound(f"no VM {uuid} of installation {self._installation} on this host")
        return vm

    def _running(self, uuid: str) -> FakeVm:
        vm = self._vm(uuid)
        if not vm.running:
            raise GuestUnavailable(f"VM {vm.spec.name} is {vm.state}, not running")
        return vm

    def _answers(self, vm: FakeVm) -> bool:
        return self._host.ready(vm) and not self._host.faults_of(vm.spec.uuid).agent_refuses

    async def _ask_guest(self, vm: FakeVm) -> None:
        if not self._answers(vm):
            raise GuestUnavailable(f"the guest agent of VM {vm.spec.name} does not answer; it may still be booting")
        await asyncio.sleep(self._host.faults_of(vm.spec.uuid).agent_delay)
        if not vm.running:
            raise GuestUnavailable(f"VM {vm.spec.name} went off while its guest was asked")

    def _status(self, vm: FakeVm, *, ask_guest: bool) -> VmStatus:
        spec = vm.spec
        return VmStatus(
            uuid=spec.uuid,
            name=spec.name,
            owner=spec.owner,
            image=spec.image,
            state=vm.state,
            exit=vm.exit,
            attempt=spec.attempt,
            agent_ready=self._answers(vm),
            cpu_limit_millicores=vm.cpu_limit_millicores if vm.running else spec.cpu_limit_millicores,
            vcpus_max=spec.vcpus_max,
            vcpus_online=vm.vcpus_online if ask_guest else None,
            memory_base_mib=spec.memory_base_mib,
            memory_max_mib=spec.memory_max_mib,
            memory_requested_mib=vm.requested_mib if vm.running else spec.memory_mib,
            memory_actual_mib=vm.actual_mib if vm.running else 0,
            guest_total_kib=(vm.guest_mib - GUEST_KERNEL_MIB) * 1024 if ask_guest else None,
            boot_id=vm.boot_id if ask_guest else None,
            document=spec.document,
        )


def _run(vm: FakeVm, argv: tuple[str, ...], stdin: bytes) -> ExecResult:
    """The few programs that a pretended guest has."""
    total = (vm.guest_mib - GUEST_KERNEL_MIB) * 1024
    available = max(vm.guest_mib - vm.used_mib, 0) * 1024
    answers = {
        ("true",): (0, ""),
        ("false",): (1, ""),
        ("nproc",): (0, f"{vm.vcpus_online}\n"),
        ("hostname",): (0, f"{vm.spec.owner.pod}\n"),
        ("cat", "/proc/sys/kernel/random/boot_id"): (0, f"{vm.boot_id}\n"),
        ("cat", "/proc/meminfo"): (0, f"MemTotal: {total} kB\nMemAvailable: {available} kB\n"),
    }
    if argv in answers:
        code, out = answers[argv]
        return ExecResult(code, out.encode(), b"")
    if argv[:1] == ("echo",):
        return ExecResult(0, " ".join(argv[1:]).encode() + b"\n", b"")
    if argv == ("cat",):
        return ExecResult(0, stdin, b"")
    return ExecResult(127, b"", f"{' '.join(argv[:1])}: not found\n".encode())
