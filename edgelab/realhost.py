"""Makes this machine able to run real VMs, before the first agent starts: libvirt, host settings, the guest image."""

from __future__ import annotations

import asyncio
import os

from edgelab import hostservices, images
from edgelab.process import Say


class NotPrepared(Exception):
    """Real VMs cannot run here as things are; the message says what to do."""


def require_root() -> None:
    """Raises NotPrepared."""
    if os.geteuid() != 0:
        raise NotPrepared(
            "real virtual machines need root (libvirt, taps, cgroups): run this with sudo,"
            " or add --fake-vms to simulate the nodes without root and libvirt"
        )


async def prepare(say: Say) -> None:
    """Raises NotPrepared, HostServiceFailed."""
    require_root()
    await hostservices.ensure_libvirt(say)
    await asyncio.to_thread(images.ensure_default, say)
