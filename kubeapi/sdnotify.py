"""Tell systemd what a daemon is doing (sd_notify(3)): READY=1, WATCHDOG=1, STOPPING=1, STATUS=….

A no-op when not started by systemd. Never raises: a daemon must not fail because its supervisor does not listen.
"""

from __future__ import annotations

import os
import socket


def notify(*assignments: str) -> bool:
    """Send assignments such as `READY=1`; False when there is no supervisor or it could not be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # Linux abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall("\n".join(assignments).encode())
    except OSError:
        return False
    return True


def watchdog_interval() -> float | None:
    """Seconds between two WATCHDOG=1 (half of what systemd allows), or None when no watchdog is set for us."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None
