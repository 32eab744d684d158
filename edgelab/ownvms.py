"""Removes the VMs of one lab node: those, and only those, whose domains carry that node's installation id."""

from __future__ import annotations

from pathlib import Path

from edgelab import hostservices, nodestore
from edgelab.process import Say
from edgelab.realhost import require_root
from vmruntime.api import VmError
from vmruntime.connect import open_runtime


class VmsLeft(Exception):
    """VMs of the lab could not be removed; its state is kept, so that cleaning can be tried again."""


async def remove(node: Path, say: Say) -> list[str]:
    """`node`: the node's state directory. Names of the VMs removed. Raises VmsLeft, HostServiceFailed, NotPrepared."""
    try:
        installation = nodestore.installation(node)
    except nodestore.NoStore as error:
        say(f"{error}: it had no VMs yet, or `virsh list --all` shows them")
        return []
    require_root()
    await hostservices.ensure_libvirt(say)
    runtime = open_runtime("libvirt", installation=installation)
    try:
        vms = await runtime.list()
        for vm in vms:
            await runtime.delete(vm.uuid)
    except VmError as error:
        raise VmsLeft(f"cannot remove the VMs of {node.name}: {error}") from error
    finally:
        await runtime.close()
    return [vm.name for vm in vms]
