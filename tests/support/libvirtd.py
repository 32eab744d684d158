"""A libvirtd to test on: makes sure that it and virtlogd run, that the host is fit, and that the micro image is built.

On a machine with systemd the daemons are its units; elsewhere (containers) they are started here and left running.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from vmruntime.bundle import build_micro_bundle
from vmruntime.hostprep import prepare_host

_SYSTEMD = Path("/run/systemd/system")
_PID_FILES = {"virtlogd": Path("/run/virtlogd.pid"), "libvirtd": Path("/run/libvirtd.pid")}
_SOCKET = Path("/run/libvirt/libvirt-sock")


def unavailable() -> str:
    """Why real guests cannot be tested here; empty when they can."""
    missing = [tool for tool in ("libvirtd", "virtlogd", "qemu-system-x86_64") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed: apt-get install libvirt-daemon-system qemu-system-x86"
    if os.geteuid() != 0:
        return "real guests are tested as root only (libvirtd, console logs, /dev/kvm)"
    return ""


def ensure() -> None:
    """Idempotent. Raises what went wrong: with the tools there, a daemon that does not start is a failure."""
    prepare_host()
    for name in ("virtlogd", "libvirtd"):
        start(name)
    build_micro_bundle()


def pid_of(name: str) -> int | None:
    try:
        pid = int(_PID_FILES[name].read_text())
        # The field after the command's name: a zombie, where nobody collects the daemon, has ended.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else pid


def start(name: str) -> None:
    if _SYSTEMD.is_dir():
        subprocess.run(["systemctl", "start", name], check=True, timeout=60)
    elif pid_of(name) is None:
        subprocess.run([name, "-d"], check=True, timeout=60)
    if name == "libvirtd":
        wait_for(_SOCKET.exists, "libvirtd's socket")


def stop_libvirtd(how: signal.Signals = signal.SIGKILL) -> None:
    pid = pid_of("libvirtd")
    if _SYSTEMD.is_dir():
        subprocess.run(
            ["systemctl", "stop", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket"], check=True
        )
        subprocess.run(["systemctl", "kill", "--signal", how.name, "libvirtd"], check=True)
    elif pid is not None:
        os.kill(pid, how)
    wait_for(lambda: pid is None or pid_of("libvirtd") != pid, "the end of libvirtd")


async def restart_libvirtd(*, down_seconds: float = 0.0) -> None:
    await asyncio.to_thread(stop_libvirtd)
    await asyncio.sleep(down_seconds)
    await asyncio.to_thread(start, "libvirtd")


def qemu_pid(name: str) -> int:
    return int(Path(f"/run/libvirt/qemu/{name}.pid").read_text())


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)
