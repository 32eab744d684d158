"""Removes the VMs of one installation: those, and only those, whose domains carry its id."""

from __future__ import annotations

from edgelab import hostservices
from edgelab.process import Say
from edgelab.realhost import require_root
from vmruntime.api import VmError
from vmruntime.connect import open_runtime


class VmsLeft(Exception):
    """VMs of the lab could not be removed; its state is kept, so that cleaning can be tried again."""


async def remove(installation: str, say: Say) -> list[str]:
    """Names of the VMs removed. Raises VmsLeft, HostServiceFailed, NotPrepared."""
    require_root()
    await hostservices.ensure_libvirt(say)
    runtime = open_runtime("libvirt", installation=installation)
    try:
        vms = await runtime.list()
        for vm in vms:
            await runtime.delete(vm.uuid)
    except VmError as error:
        raise VmsLeft(f"cannot remove the VMs of installation {installation}: {error}") from error
    finally:
        await runtime.close()
    return [vm.name for vm in vms]
