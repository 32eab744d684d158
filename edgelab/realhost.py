"""Makes this machine able to run real VMs, before the first agent starts: libvirt, host settings, the guest image."""

from __future__ import annotations

import asyncio
import os

from edgelab import hostservices, images
from edgelab.process import Say
from vmruntime.hostprep import prepare_host


class NotPrepared(Exception):
    """Real VMs cannot run here as things are; the message says what to do."""


def require_root() -> None:
    """Raises NotPrepared."""
    if os.geteuid() != 0:
        raise NotPrepared(
            "real virtual machines need root (libvirt, taps, cgroups): run this with sudo,"
            " or add --fake-vms to simulate the nodes without root and libvirt"
        )


def host_memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


async def prepare(say: Say) -> None:
    """Raises NotPrepared, HostServiceFailed."""
    require_root()
    await hostservices.ensure_libvirt(say)
    prepare_host(say)
    await asyncio.to_thread(images.ensure_default, say)
