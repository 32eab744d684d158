"""The VM runtime interface (VRI): what the node daemon may ask of a hypervisor.

Two implementations stand behind it, `vmruntime.libvirt_driver` and the in-memory `vmruntime.fake`, and one contract
suite (tests/contract/test_vmruntime.py) runs on both. A VM is named by its domain UUID. Units: memory in MiB (the
guest's own total in KiB), CPU in millicores, durations in seconds.

Every call may be repeated: creating what exists with the same spec, starting what runs, stopping what is stopped and
deleting what is gone all succeed. Only VMs whose ownership metadata names the runtime's installation are ever touched.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from vmruntime.process import GuestProcess, Terminal

MEMORY_STEP_MIB = 2
"""virtio-mem's block size here; every size is a multiple of it."""
CPU_QUOTA_MIN_MILLICORES = 10
"""The smallest enforceable limit: 1 ms in a period of 100 ms (libvirt's and the kernel's minimum)."""


class VmError(Exception):
    """Base of everything a runtime raises. The message names what, which, why and what next."""


class RuntimeUnavailable(VmError):
    """The hypervisor service does not answer (libvirtd is down). Nothing is known about the VMs; retry."""


class ImageNotFound(VmError):
    """The image reference resolves to nothing on this node and nothing can be fetched."""


class InvalidSpec(VmError):
    """The wish can never be met by this runtime (impossible size, malformed name). Retrying does not help."""


class VmNotFound(VmError):
    """No VM of ours has that UUID."""


class StartFailed(VmError):
    """The VM could not be started; everything made for it so far has been undone. Retry with back-off."""


class GuestUnavailable(VmError):
    """The guest's agent does not answer (still booting, hung, or has none)."""


class ResizeInfeasible(VmError):
    """Beyond what was fixed at boot (plug maximum, vCPUs present, base). A restart would allow it."""


class ResizeRefused(VmError):
    """Unsafe now (the guest uses more than the target). Nothing was changed; the message says by how much."""


class ResizeIncomplete(VmError):
    """Asked of the device, but the guest (or device) does not show it by the deadline. `observed` is what it shows."""

    def __init__(self, message: str, observed: int) -> None:
        super().__init__(message)
        self.observed = observed


@dataclass(frozen=True, slots=True)
class Owner:
    """Ownership metadata, stored in the domain."""

    installation: str
    """The node store's installation id: two agents on one host never touch each other's VMs."""
    pod_uid: str
    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class VmSpec:
    uuid: str
    name: str
    """Domain name: letters, digits, `-._`, at most 63 characters, unique on the host."""
    owner: Owner
    image: str
    """Reference as the user wrote it, e.g. `copepod/micro:latest` or `sha256:…`."""
    vcpus_max: int
    """vCPUs present from boot to end."""
    vcpus_online: int
    cpu_limit_millicores: int | None
    """Enforced outside the guest over the whole domain; None = no limit."""
    cpu_weight_millicores: int
    """The request, from which the share under contention follows."""
    memory_base_mib: int
    memory_max_mib: int
    """Base plus everything that can ever be plugged."""
    memory_mib: int
    """Size at boot: base plus what is plugged at once."""
    command: tuple[str, ...] = ()
    """What the guest's init runs; empty = just stay up. Its exit powers the VM off with that exit code."""
    env: tuple[tuple[str, str], ...] = ()
    """Of the command and of programs that are run beside it. Names: printable ASCII without `=`."""
    working_dir: str = ""
    """Where they start; made if it is not there. Empty = wherever the guest's init is."""
    stdin: bool = False
    """The command reads the console."""
    tty: bool = False
    """The console is the command's terminal: lines can be edited, and ^C reaches it."""
    attempt: int = 0
    """How many times the container was started before (kept in metadata, so that adoption keeps restart counts)."""
    document: bytes = b"{}"
    """Opaque to the runtime, kept in the domain's metadata: enough to rebuild a lost metastore (the pod)."""


class VmState(StrEnum):
    DEFINED = "defined"
    """Known, never started."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class ExitReason(StrEnum):
    SHUTDOWN = "shutdown"
    """The guest powered itself off."""
    STOPPED = "stopped"
    """We stopped it: by asking, or by force at the deadline."""
    KILLED = "killed"
    """The VMM process died (OOM killer, kill -9)."""
    PANIC = "panic"
    HOST = "host"
    """The host went down under it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Exit:
    reason: ExitReason
    code: int
    """The guest's own code where it reported one; else 0 for SHUTDOWN, 137 for KILLED/STOPPED by force, 143
    asked, 255."""


@dataclass(frozen=True, slots=True)
class VmStatus:
    """What is seen, never what is hoped. Fields that only a guest can answer are None while it does not."""

    uuid: str
    name: str
    owner: Owner
    image: str
    state: VmState
    exit: Exit | None
    attempt: int
    agent_ready: bool
    """The guest's agent is connected: the guest has booted."""
    cpu_limit_millicores: int | None
    """The quota now in force (None = none)."""
    vcpus_max: int
    vcpus_online: int | None
    """As the guest says."""
    memory_base_mib: int
    memory_max_mib: int
    memory_requested_mib: int
    """Base plus what the device was asked to plug."""
    memory_actual_mib: int
    """Base plus what the device shows as plugged."""
    guest_total_kib: int | None
    """The guest's MemTotal: proof by its change, never the size itself."""
    boot_id: str | None
    """The guest kernel's boot id: unchanged means not rebooted."""
    document: bytes


class EventType(StrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    AGENT = "agent"
    """The guest's agent connected or went."""
    RESIZED = "resized"
    REBOOTED = "rebooted"
    REMOVED = "removed"
    RESYNC = "resync"
    """Events may have been missed (reconnected to libvirtd): re-read everything. `uuid` is empty."""


@dataclass(frozen=True, slots=True)
class VmEvent:
    """A hint to look again; never the truth itself."""

    type: EventType
    uuid: str


@dataclass(frozen=True, slots=True)
class Acceleration:
    """What a probe that really ran a guest found. `kvm_usable` False with a `reason` where /dev/kvm only pretends."""

    kind: str
    """`kvm` or `tcg`."""
    kvm_usable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class HostInfo:
    driver: str
    """`libvirt` or `fake`."""
    version: str
    """Runtime version for node.status.nodeInfo, e.g. `libvirt://9.0.0`."""
    acceleration: Acceleration
    vm_overhead_mib: int
    """Budget for one VM beyond its guest memory (VMM process, translation cache)."""
    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Image:
    reference: str
    digest: str
    """`sha256:…` of the bundle."""
    memory_min_mib: int
    """Smallest base memory this image boots with."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class VmUsage:
    """What a running VM uses, at one moment."""

    cpu_seconds: float
    """Of the whole VMM process since it was started, emulation included. Never falls while it runs."""
    memory_bytes: int
    """Used inside the guest, quickly freed caches left out; where it does not answer, all that it was given."""


class Runtime(Protocol):
    async def host(self) -> HostInfo:
        """Probe once, then answer from memory. Raises RuntimeUnavailable."""

    async def image(self, reference: str) -> Image:
        """Resolve an image reference. Raises ImageNotFound."""

    async def create(self, spec: VmSpec) -> None:
        """Define the VM persistently, without starting it. Raises InvalidSpec, ImageNotFound, RuntimeUnavailable.

        A VM that exists and is not running is redefined by the new spec (a restart with a new attempt or size).
        """

    async def start(self, uuid: str) -> None:
        """Returns when the VMM runs; the guest's readiness comes later (`agent_ready`). Raises StartFailed."""

    async def stop(self, uuid: str, grace: float) -> None:
        """Ask (agent, then ACPI, resent), and destroy at the deadline, not later. Returns when it is off."""

    async def delete(self, uuid: str) -> None:
        """Destroy if running, and remove everything made for it."""

    async def set_cpu(self, uuid: str, limit_millicores: int | None, vcpus_online: int) -> None:
        """Quota outside, CPUs online inside; returns when both are seen.

        The quota is set first: it is what limits, whatever the guest does with its CPUs. Raises ResizeInfeasible,
        ResizeIncomplete, GuestUnavailable.
        """

    async def set_memory(self, uuid: str, size_mib: int, deadline: float = 30.0) -> None:
        """Total size in MiB (base plus plugged). Returns when verified: growing by the change of the guest's own
        total, shrinking by what the device gave back. Raises ResizeInfeasible, ResizeRefused, ResizeIncomplete,
        GuestUnavailable."""

    async def set_document(self, uuid: str, document: bytes) -> None:
        """Replace the opaque document in the domain's metadata."""

    async def inspect(self, uuid: str) -> VmStatus:
        """The whole status, asking the guest (bounded, 5 s) where it answers. Raises VmNotFound, RuntimeUnavailable."""

    async def list(self) -> Sequence[VmStatus]:
        """All VMs of this installation, without asking the guests (their fields are None). Raises
        RuntimeUnavailable."""

    async def usage(self, uuid: str) -> VmUsage:
        """Asks the guest, bounded as in `inspect`. Raises VmNotFound, GuestUnavailable for a VM that is off,
        RuntimeUnavailable."""

    def events(self) -> AsyncIterator[VmEvent]:
        """Hints, from now on. Never raises; bounded (an overflow becomes one RESYNC)."""

    def console(self, uuid: str, *, tail: int | None = None, follow: bool = False) -> AsyncIterator[bytes]:
        """The serial console's log, whole or its last `tail` lines. Raises VmNotFound."""

    async def attach(self, uuid: str) -> GuestProcess:
        """The serial console, as if it were a program: its output from now on, and input for whatever reads it.

        Any number may share it, and see what the others type. A reader that is slow loses output instead of holding
        the guest up. Its code is 0; closing ends nothing in the guest. Raises GuestUnavailable for a VM that is off,
        VmNotFound, RuntimeUnavailable; VmError for a VM that was started with a console that takes no input."""

    async def exec(self, uuid: str, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0) -> ExecResult:
        """Run a program in the guest through its agent. Raises GuestUnavailable, VmNotFound."""

    async def spawn(
        self, uuid: str, argv: Sequence[str], *, stdin: bool = False, terminal: Terminal | None = None
    ) -> GuestProcess:
        """Start a program in the guest and watch it: its output as it comes, input if `stdin`, on a terminal if it is
        given one. With the pod's environment. Raises GuestUnavailable, VmNotFound, RuntimeUnavailable; VmError where
        too many are watched already (MAX_PROCESSES)."""

    async def close(self) -> None:
        """Let go. VMs run on."""
