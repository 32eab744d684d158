"""A pretended host: the VMs behind `vmruntime.fake`, and the handles by which a test makes things go wrong.

It stands for what outlives an agent: hold one `FakeHost` and give it to one `FakeRuntime` after another
(agent restarts), or give it a `path`, and its VMs outlive the process. Everything runs on the event loop's
own time: no threads, no chance.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from vmruntime.api import (
    EventType,
    Exit,
    ExitReason,
    Image,
    Owner,
    VmEvent,
    VmSpec,
    VmState,
)
from vmruntime.sizing import SMALLEST_MIB
from vmruntime.subscriptions import RESYNC, Publisher

GUEST_KERNEL_MIB = 30
"""What a guest's kernel keeps for itself: MemTotal is that much below the size."""
GUEST_IDLE_MIB = 50
"""What an idle guest uses, its kernel included."""

CONSOLE_BYTES = 65536


@dataclass
class Faults:
    """What goes wrong. Change the fields while it runs; they hold until changed back."""

    start: str = ""
    """Every start fails with this message (empty: none does)."""
    start_times: int | None = None
    """With `start`: only so many times."""
    boot_hangs: bool = False
    """The VMM runs, the guest never becomes ready."""
    agent_refuses: bool = False
    """The guest's agent does not answer."""
    agent_delay: float = 0.0
    """Seconds that each answer of the agent takes."""
    hung: bool = False
    """The guest ignores requests to stop."""
    plug_short_mib: int = 0
    """The device stops this many MiB before the target, growing or shrinking."""
    guest_ignores: bool = False
    """Memory is plugged and CPUs are offered, but the guest never brings them online (S-63)."""


@dataclass
class FakeVm:
    spec: VmSpec
    state: VmState = VmState.DEFINED
    exit: Exit | None = None
    boots: int = 0
    ready_at: float = 0.0
    """Loop time from which the guest answers."""
    started_at: float = 0.0
    """Loop time."""
    cpu_limit_millicores: int | None = None
    vcpus_online: int = 1
    requested_mib: int = 0
    actual_mib: int = 0
    guest_mib: int = 0
    """What the guest has brought online."""
    used_mib: int = GUEST_IDLE_MIB
    """What the guest uses (S-61). Set it with `FakeHost.use_memory`."""
    console: bytearray = field(default_factory=bytearray)
    typed: bytes = b""
    """The line on its console that has not ended yet."""

    @property
    def boot_id(self) -> str:
        return str(uuid5(NAMESPACE_OID, f"{self.spec.uuid} boot {self.boots}"))

    @property
    def running(self) -> bool:
        return self.state in (VmState.RUNNING, VmState.PAUSED)


class FakeHost:
    """The machine with its VMs. `images`: None accepts every reference, else exactly those named."""

    def __init__(
        self,
        *,
        cpus: int = 8,
        memory_mib: int = 16384,
        boot_delay: float = 2.0,
        images: Mapping[str, Image] | None = None,
        path: Path | None = None,
    ) -> None:
        self.cpus, self.memory_mib, self.boot_delay, self.images = cpus, memory_mib, boot_delay, images
        self.faults = Faults()
        """For every VM that has none of its own."""
        self.vm_faults: dict[str, Faults] = {}
        """By VM UUID, in place of `faults`."""
        self.vms: dict[str, FakeVm] = {}
        self.down = False
        self.publisher = Publisher()
        self.console_changed = asyncio.Event()
        self._path = path
        if path is not None and path.exists():
            self._load(json.loads(path.read_text()))

    # -- what a test does to it -----------------------------------------------------------------------------------

    def faults_of(self, uuid: str) -> Faults:
        return self.vm_faults.get(uuid, self.faults)

    def set_down(self, down: bool) -> None:
        """libvirtd stops answering, or answers again (and then nobody knows what was missed). VMs run on."""
        was, self.down = self.down, down
        if was and not down:
            self.publisher.publish(RESYNC)

    def crash(self, uuid: str) -> None:
        """The VMM process dies, as under the OOM killer."""
        self.end(uuid, Exit(ExitReason.KILLED, 137))

    def panic(self, uuid: str) -> None:
        self.end(uuid, Exit(ExitReason.PANIC, 255))

    def power_off(self, uuid: str, code: int = 0) -> None:
        """The guest's command ends with `code`, and the guest powers itself off."""
        self.end(uuid, Exit(ExitReason.SHUTDOWN, code))

    def reboot_guest(self, uuid: str) -> None:
        vm = self.vms[uuid]
        vm.boots += 1
        self.begin_boot(vm)
        self.publish(EventType.REBOOTED, uuid)
        self.save()

    def reboot_host(self) -> None:
        """Power cut: every VM is off, and no event tells of it."""
        for vm in self.vms.values():
            if vm.running:
                vm.state, vm.exit = VmState.STOPPED, Exit(ExitReason.HOST, 255)
        self.save()

    def use_memory(self, uuid: str, used_mib: int) -> None:
        """From now on the guest uses so much, its kernel included."""
        self.vms[uuid].used_mib = used_mib
        self.save()

    def print(self, uuid: str, line: str) -> None:
        """A line on the guest's console."""
        self.show(uuid, line.encode() + b"\n")

    def show(self, uuid: str, data: bytes) -> None:
        """On the guest's console."""
        console = self.vms[uuid].console
        console += data
        del console[:-CONSOLE_BYTES]
        self._wake_consoles()

    # -- what the runtime does with it ----------------------------------------------------------------------------

    def image(self, reference: str) -> Image | None:
        if self.images is None:
            digest = f"sha256:{uuid5(NAMESPACE_OID, reference).hex * 2}"
            return Image(reference, digest, SMALLEST_MIB)
        return self.images.get(reference)

    def begin_boot(self, vm: FakeVm) -> None:
        loop = asyncio.get_running_loop()
        vm.ready_at = loop.time() + self.boot_delay
        vm.guest_mib = vm.actual_mib
        loop.call_later(self.boot_delay, self._booted, vm.spec.uuid, vm.boots)

    def _booted(self, uuid: str, boots: int) -> None:
        vm = self.vms.get(uuid)
        if vm is None or vm.boots != boots or not self.ready(vm):
            return
        self.print(uuid, f"copepod: ready {vm.spec.name}")
        self.publish(EventType.AGENT, uuid)
        lasts = command_lasts(vm.spec.command)
        if lasts is not None:
            seconds, code = lasts
            asyncio.get_running_loop().call_later(seconds, self._command_ends, uuid, boots, code)

    def _command_ends(self, uuid: str, boots: int, code: int) -> None:
        vm = self.vms.get(uuid)
        if vm is not None and vm.boots == boots and vm.running:
            self.print(uuid, f"copepod: exit {code}")
            self.power_off(uuid, code)

    def ready(self, vm: FakeVm) -> bool:
        """Whether the guest has booted and its agent is connected."""
        now = asyncio.get_running_loop().time()
        return vm.state is VmState.RUNNING and now >= vm.ready_at and not self.faults_of(vm.spec.uuid).boot_hangs

    def end(self, uuid: str, exit: Exit) -> None:
        vm = self.vms[uuid]
        if not vm.running:
            return
        vm.state, vm.exit = VmState.STOPPED, exit
        self.publish(EventType.STOPPED, uuid)
        self._wake_consoles()
        self.save()

    def publish(self, type: EventType, uuid: str) -> None:
        if not self.down:
            self.publisher.publish(VmEvent(type, uuid))

    def _wake_consoles(self) -> None:
        self.console_changed.set()
        self.console_changed = asyncio.Event()

    # -- outliving the process ------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the VMs to `path`, if there is one, atomically."""
        if self._path is None:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_text(json.dumps([_to_json(vm) for vm in self.vms.values()]))
        fresh.replace(self._path)

    def _load(self, entries: list[dict[str, object]]) -> None:
        for entry in entries:
            vm = _from_json(entry)
            self.vms[vm.spec.uuid] = vm


def command_lasts(command: tuple[str, ...]) -> tuple[float, int] | None:
    """How long the pretended guest runs a command, and its exit code; None = until stopped.

    Understood: `true`, `false`, `sleep N`, `exit N`, alone or in `sh -c "…; …"`. Everything else runs for ever.
    """
    if command[:1] in (("sh",), ("/bin/sh",)) and len(command) == 3 and command[1] == "-c":
        steps = [step.strip() for step in command[2].split(";")]
    else:
        steps = [" ".join(command)]
    seconds, code = 0.0, 0
    for step in steps:
        if match := re.fullmatch(r"sleep (\d+(?:\.\d+)?)", step):
            seconds, code = seconds + float(match[1]), 0
        elif match := re.fullmatch(r"exit (\d+)", step):
            return seconds, int(match[1])
        elif step in ("true", "false"):
            code = int(step == "false")
        elif not step.startswith("echo "):
            return None
    return seconds, code


def _to_json(vm: FakeVm) -> dict[str, object]:
    entry = asdict(vm)
    # Loop time means nothing in another process: whoever loads this finds its guests booted, their commands running.
    del entry["ready_at"], entry["started_at"], entry["typed"]
    entry["spec"]["document"] = b64encode(vm.spec.document).decode()
    entry["console"] = b64encode(vm.console).decode()
    return entry


def _from_json(entry: dict[str, object]) -> FakeVm:
    raw = dict(entry)
    spec = raw.pop("spec")
    console = raw.pop("console")
    ended = raw.pop("exit")
    state = raw.pop("state")
    assert isinstance(spec, dict)
    assert isinstance(console, str)
    spec["owner"] = Owner(**spec["owner"])
    spec["command"] = tuple(spec["command"])
    spec["env"] = tuple((name, value) for name, value in spec["env"])
    spec["document"] = b64decode(spec["document"])
    vm = FakeVm(VmSpec(**spec), **raw)  # type: ignore[arg-type]
    vm.state = VmState(str(state))
    vm.console = bytearray(b64decode(console))
    if isinstance(ended, dict):
        vm.exit = Exit(ExitReason(ended["reason"]), ended["code"])
    return vm
