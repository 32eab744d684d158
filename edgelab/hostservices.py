"""libvirt's daemons on the host: started if they are not running, restarted when a test asks for it.

Where systemd runs, it is asked. Elsewhere (containers, minimal hosts) the daemons are started directly and left
running when the lab ends: the VMs they watch over outlive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import struct
from pathlib import Path

from edgelab.process import Say
from edgelab.waiting import NotReached, until

RUN = Path("/run/libvirt")
SOCKETS = {"virtlogd": RUN / "virtlogd-sock", "libvirtd": RUN / "libvirt-sock"}
"""In the order they are started: libvirtd opens each guest's log through virtlogd."""


class HostServiceFailed(Exception):
    """A daemon is missing or does not come up; the message says what to install or where to look."""


async def ensure_libvirt(say: Say) -> None:
    """Both daemons answer when this returns. Needs root. Raises HostServiceFailed."""
    for name in SOCKETS:
        if not _answers(SOCKETS[name]):
            say(f"starting {name}")
            await start(name)


async def start(name: str) -> None:
    if _systemd():
        await _run("systemctl", "start", name)
    else:
        await _run(_find(name), "--daemon")
    await _await_socket(name)


async def restart_libvirtd(*, kill: bool = False) -> None:
    """With `kill`, by SIGKILL rather than by asking. VMs run on. Raises HostServiceFailed."""
    if _systemd():
        if kill:
            await _run("systemctl", "kill", "--signal=KILL", "libvirtd")
            await _run("systemctl", "reset-failed", "libvirtd")
        await _run("systemctl", "restart", "libvirtd")
        await _await_socket("libvirtd")
        return
    pid = _listener_pid(SOCKETS["libvirtd"])
    if pid is not None:
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL if kill else signal.SIGTERM)
            await _await_end(descriptor, "libvirtd", 30)
        finally:
            os.close(descriptor)
    await start("libvirtd")


def restart_command() -> str:
    """What to type to restart libvirtd by hand on this machine."""
    return "systemctl restart libvirtd" if _systemd() else "kill $(pidof libvirtd) && sleep 1 && libvirtd --daemon"


def _systemd() -> bool:
    """sd_booted(3)."""
    return Path("/run/systemd/system").is_dir()


def _find(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
    if found is None:
        raise HostServiceFailed(
            f"{name} is not installed: apt-get install libvirt-daemon-system (or `make setup`);"
            " to try Copepod without virtual machines, use --fake-vms"
        )
    return found


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _listener_pid(path: Path) -> int | None:
    """Who listens on a Unix socket, by the kernel's word (SO_PEERCRED): a pid file may be old."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return None
        pid: int = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return pid


async def _await_socket(name: str, timeout: float = 30) -> None:
    path = SOCKETS[name]
    try:
        await until(lambda: _answers(path), f"{name} answers on {path}", timeout)
    except NotReached as error:
        raise HostServiceFailed(
            f"{error}: see its log (journalctl -u {name}, or run `{name}` in a terminal)"
        ) from error


async def _await_end(descriptor: int, name: str, timeout: float) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(timeout):
            await ended.wait()
    except TimeoutError as error:
        raise HostServiceFailed(f"{name} did not end within {timeout:.0f} s") from error
    finally:
        loop.remove_reader(descriptor)


async def _run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, err = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    if process.returncode != 0:
        raise HostServiceFailed(f"`{' '.join(argv)}` failed: {err.decode(errors='replace').strip()}")
