"""Does this host really accelerate guests? Believed only after a guest has run (S-45).

/dev/kvm may exist, open and even make a VM on hosts where ordinary guests hang or die at once (paravirtual
nested hosts, some clouds). Three instructions in real mode do run on such hosts, so the probe's guest is an
ordinary machine, with the chipset and CPU model that VMs here get: its firmware must come up (PCI, timers,
disk) and start our boot sector, which writes to QEMU's exit device and so ends QEMU with a code that
nothing else gives.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from vmruntime.api import Acceleration

QEMU = "qemu-system-x86_64"
PROBE_SECONDS = 5.0
_WRITTEN = 0x2A
_EXIT_CODE = (_WRITTEN << 1) | 1
"""isa-debug-exit ends QEMU with (value << 1) | 1."""
# mov al, 0x2A; out 0xF4, al; hlt; jmp back to hlt
_CODE = bytes([0xB0, _WRITTEN, 0xE6, 0xF4, 0xF4, 0xEB, 0xFD])


def boot_sector() -> bytes:
    return _CODE.ljust(510, b"\0") + b"\x55\xaa"


def probe(*, device: Path = Path("/dev/kvm"), qemu: str = QEMU, timeout: float = PROBE_SECONDS) -> Acceleration:
    """Blocking, for at most `timeout` seconds. Never raises: what cannot be shown to work does not work."""
    if not device.exists():
        return Acceleration("tcg", False, f"{device} does not exist")
    if not os.access(device, os.R_OK | os.W_OK):
        return Acceleration("tcg", False, f"{device} may not be opened by this user")
    why_not = run_probe("kvm", qemu=qemu, timeout=timeout)
    if why_not:
        return Acceleration("tcg", False, f"{device} is there, but a guest does not run on it ({why_not})")
    return Acceleration("kvm", True, f"a guest ran on {device}")


def run_probe(accelerator: str, *, qemu: str = QEMU, timeout: float = PROBE_SECONDS) -> str:
    """Empty if a guest ran under `accelerator`; else why not."""
    with tempfile.TemporaryDirectory(prefix="copepod-probe-") as scratch:
        disk = Path(scratch) / "disk"
        disk.write_bytes(boot_sector().ljust(1 << 20, b"\0"))
        argv = [qemu, "-machine", "q35", "-accel", accelerator, "-cpu", "max", "-smp", "2", "-m", "32", "-nodefaults"]
        argv += ["-display", "none", "-no-reboot", "-drive", f"file={disk},format=raw,if=ide"]
        argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return f"it had not come up after {timeout:g} s"
        except OSError as error:
            return f"{qemu} cannot be run: {error.strerror}"
    if done.returncode == _EXIT_CODE:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"it ended at once with code {done.returncode}"
