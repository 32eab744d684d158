"""Finds, explains and (where it may) mends host settings that make libvirt slow or useless.

The trap with /dev/kvm: libvirtd runs as root and sees the device, its QEMU user does not. libvirt then
believes its cached capabilities wrong and probes QEMU again at each turn; one `create` takes over a minute
(docs/vm-lore.md, number 2).
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KVM = Path("/dev/kvm")
GROUP = "kvm"
"""Debian's QEMU user, libvirt-qemu, is a member of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    ok: bool
    message: str
    """One sentence; where it is not ok, what to do."""


def inspect_kvm(device: Path = KVM, group: str = GROUP) -> Finding:
    """Whether libvirt's QEMU user can open the device that root sees. No device is fine: guests are emulated."""
    try:
        seen = device.stat()
    except FileNotFoundError:
        return Finding(True, f"{device} does not exist: guests are emulated")
    if seen.st_mode & (stat.S_IROTH | stat.S_IWOTH) == stat.S_IROTH | stat.S_IWOTH:
        return Finding(True, f"{device} is open to every user")
    gid = _group_id(group)
    if gid is not None and seen.st_gid == gid and seen.st_mode & 0o060 == 0o060:
        return Finding(True, f"{device} is open to group {group}")
    return Finding(
        False,
        f"{device} is closed to libvirt's QEMU user (mode {stat.S_IMODE(seen.st_mode):04o}), which makes every VM "
        f"take over a minute to create; as root: chgrp {group} {device} && chmod 0660 {device}",
    )


def prepare_host(say: Callable[[str], None] = lambda line: None, *, device: Path = KVM, group: str = GROUP) -> Finding:
    """Open the device to group `kvm` (0660) if it is closed and we are root; says what it did.

    libvirtd keeps what it probed before: where this changed something, it sees so at its next probe, without a restart.
    """
    finding = inspect_kvm(device, group)
    gid = _group_id(group)
    if finding.ok or gid is None or os.geteuid() != 0:
        say(finding.message)
        return finding
    try:
        os.chown(device, -1, gid)
        device.chmod(0o660)
    except OSError as error:
        finding = Finding(False, f"{finding.message} (could not be done here: {error.strerror})")
    else:
        finding = Finding(True, f"{device} was closed to libvirt's QEMU user; opened it to group {group} (0660)")
    say(finding.message)
    return finding


def _group_id(name: str) -> int | None:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None
