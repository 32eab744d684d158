"""CPU and memory of a running VM, each verified before it is called done.

Quotas and devices are set by short blocking steps in threads; the waiting is done here, on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from vmruntime import checks
from vmruntime.api import GuestUnavailable, ResizeIncomplete, VmError
from vmruntime.domain import CPU_PERIOD_US, quota_us
from vmruntime.libvirt_driver import agent, lifecycle
from vmruntime.libvirt_driver.connection import Connection
from vmruntime.libvirt_driver.view import MEMORY_DEVICE, Seen, find, limit_of

_LAG_SECONDS = 1.5
"""libvirt shows a device's size at most once a second (docs/vm-lore.md, number 7)."""
_STALL_SECONDS = 3.0
_POLL_SECONDS = 0.05
_CPU_SECONDS = 5.0
_TOLERANCE_KIB = 512


class Resizer:
    def __init__(self, connection: Connection, installation: str) -> None:
        self._connection, self._installation = connection, installation
        self._verified: dict[str, tuple[float, int]] = {}
        """UUID → (loop time, MiB): sizes proven here, which libvirt may not show yet."""

    # -- CPU ------------------------------------------------------------------------------------------------------

    async def set_cpu(self, uuid: str, limit_millicores: int | None, vcpus_online: int) -> None:
        seen = await self._running(uuid)
        checks.check_quota(seen.name, limit_millicores)
        checks.check_online(seen.name, vcpus_online, seen.record.vcpus_max)
        if seen.record.vcpus_online != vcpus_online:
            await self._on(uuid, _remember_online, vcpus_online)
        if not _lowers(seen.cpu_limit_millicores, limit_millicores):
            await self._on(uuid, _set_quota, limit_millicores)
            await self.bring_online(uuid, vcpus_online)
            return
        # The guest does its part with the CPU it still has; the limit is then set whether it did or not.
        try:
            await self.bring_online(uuid, vcpus_online)
        finally:
            await self._on(uuid, _set_quota, limit_millicores)

    async def bring_online(self, uuid: str, vcpus_online: int) -> None:
        """Until the guest shows that many CPUs. Raises ResizeIncomplete, GuestUnavailable."""
        facts = await self._on(uuid, _facts)
        if facts.vcpus_online == vcpus_online:
            return
        await self._on(uuid, _ask_online, vcpus_online)
        loop = asyncio.get_running_loop()
        patience = agent.patience((await self._running(uuid)).cpu_limit_millicores)
        deadline = loop.time() + max(_CPU_SECONDS, patience)
        while (facts := await self._on(uuid, _facts)).vcpus_online != vcpus_online:
            if loop.time() >= deadline:
                raise ResizeIncomplete(
                    f"VM {uuid}: {vcpus_online} CPUs asked for, its guest shows {facts.vcpus_online}",
                    facts.vcpus_online,
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def restore_online(self, uuid: str) -> None:
        """After a guest's reboot: it begins with what it was first booted with, not with what was set since."""
        seen = await self._running(uuid)
        if seen.agent_connected and seen.boot_vcpus != seen.record.vcpus_online:
            await self.bring_online(uuid, seen.record.vcpus_online)

    # -- memory ---------------------------------------------------------------------------------------------------

    async def set_memory(self, uuid: str, size_mib: int, deadline: float) -> None:
        seen = await self._running(uuid)
        record = seen.record
        checks.check_resize(seen.name, size_mib, record.memory_base_mib, record.memory_max_mib)
        now_mib = await self._settled_size(uuid, seen)
        requested_mib = record.memory_base_mib + seen.plugged_mib("requested")
        before = await self._on(uuid, _facts)
        if size_mib == now_mib == requested_mib and _plausible(before.total_kib, size_mib):
            return
        # What describes the pages that leave (1/64 of them) is freed with them.
        used_mib = now_mib - before.spare_kib // 1024 - (now_mib - size_mib) // 64
        checks.check_shrink(seen.name, size_mib, now_mib, used_mib)
        await self._on(uuid, _request, size_mib - record.memory_base_mib)
        if size_mib >= now_mib:
            await self._await_growth(uuid, seen, before.total_kib + (size_mib - now_mib) * 1024, size_mib, deadline)
        else:
            await self._await_shrink(uuid, seen, size_mib, deadline)
        self._verified[uuid] = (asyncio.get_running_loop().time(), size_mib)

    async def _settled_size(self, uuid: str, seen: Seen) -> int:
        """What the device has now, past libvirt's lag."""
        loop = asyncio.get_running_loop()
        when, size = self._verified.get(uuid, (-1e9, 0))
        base = seen.record.memory_base_mib
        if loop.time() - when < _LAG_SECONDS and size == base + seen.plugged_mib("requested"):
            return size
        end = loop.time() + _LAG_SECONDS
        while seen.plugged_mib("current") != seen.plugged_mib("requested") and loop.time() < end:
            await asyncio.sleep(_POLL_SECONDS)
            seen = await self._running(uuid)
        return base + seen.plugged_mib("current")

    async def _await_growth(self, uuid: str, seen: Seen, total_kib: int, size_mib: int, deadline: float) -> None:
        """Plugged is not onlined: only the guest's own total proves it (S-63)."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        shown = 0
        while loop.time() < end:
            try:
                shown = (await self._on(uuid, _facts)).total_kib
            except GuestUnavailable:
                # A guest that is short of memory answers late. It has until the deadline.
                await asyncio.sleep(_POLL_SECONDS)
                continue
            if shown >= total_kib - _TOLERANCE_KIB:
                return
            await asyncio.sleep(_POLL_SECONDS)
        observed = size_mib - max(total_kib - shown, 0) // 1024
        raise ResizeIncomplete(
            f"VM {seen.name}: grown to {size_mib} MiB, but after {deadline:g} s its guest shows only {observed} MiB",
            observed,
        )

    async def _await_shrink(self, uuid: str, seen: Seen, size_mib: int, deadline: float) -> None:
        """A guest may lie about what it gave back; the device does not."""
        loop = asyncio.get_running_loop()
        end, base = loop.time() + deadline, seen.record.memory_base_mib
        last, stalled_at = -1, loop.time() + _STALL_SECONDS
        while loop.time() < end:
            current = base + (await self._running(uuid)).plugged_mib("current")
            if current <= size_mib:
                return
            if current != last:
                last, stalled_at = current, loop.time() + _STALL_SECONDS
            elif loop.time() >= stalled_at:
                # A stalled guest driver only tries again when it is asked for something else first.
                await self._on(uuid, _request, size_mib - base + 2)
                await self._on(uuid, _request, size_mib - base)
                stalled_at = loop.time() + _STALL_SECONDS
            await asyncio.sleep(_POLL_SECONDS * 2)
        raise ResizeIncomplete(
            f"VM {seen.name}: shrinking to {size_mib} MiB, but after {deadline:g} s its device still holds {last} MiB",
            last,
        )

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _running(self, uuid: str) -> Seen:
        return running(await self._connection.call(find, uuid, self._installation))

    async def _on(self, uuid: str, step: Callable[..., Any], *args: Any) -> Any:
        """One blocking step on a running VM of ours: ownership is looked at each time."""
        return await self._connection.call(lambda conn: step(running(find(conn, uuid, self._installation)), *args))


def running(seen: Seen) -> Seen:
    """Raises GuestUnavailable for a VM that is off."""
    if not seen.running:
        raise GuestUnavailable(f"VM {seen.name} is {seen.state}, not running")
    return seen


def _lowers(now: int | None, limit: int | None) -> bool:
    return limit is not None and (now is None or limit < now)


def _plausible(total_kib: int, size_mib: int) -> bool:
    """Whether a guest of that size may show that total: it keeps less than 64 MiB and a 32nd for itself."""
    return total_kib >= (size_mib - 64 - size_mib // 32) * 1024


def _facts(seen: Seen) -> agent.GuestFacts:
    if not seen.agent_connected:
        raise GuestUnavailable(f"the guest agent of VM {seen.name} is not connected; the guest may still be booting")
    return agent.facts(seen.domain, agent.patience(seen.cpu_limit_millicores))


def _set_quota(seen: Seen, limit_millicores: int | None) -> None:
    wanted = {"global_period": CPU_PERIOD_US, "global_quota": quota_us(limit_millicores)}
    # One after the other: the Python binding first reads with the same flags, and reading both at once is refused.
    for flag in (libvirt.VIR_DOMAIN_AFFECT_CONFIG, libvirt.VIR_DOMAIN_AFFECT_LIVE):
        seen.domain.setSchedulerParametersFlags(wanted, flag)
    shown = seen.domain.schedulerParametersFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    if limit_of(shown["global_quota"]) != limit_millicores or shown["global_period"] != CPU_PERIOD_US:
        raise ResizeIncomplete(
            f"VM {seen.name}: a CPU limit of {limit_millicores}m was set, the host shows {shown['global_quota']} us "
            f"in {shown['global_period']} us",
            limit_of(shown["global_quota"]) or 0,
        )


def _remember_online(seen: Seen, vcpus_online: int) -> None:
    lifecycle.mark(seen, replace(seen.record, vcpus_online=vcpus_online))


def _ask_online(seen: Seen, vcpus_online: int) -> None:
    try:
        seen.domain.setVcpusFlags(vcpus_online, libvirt.VIR_DOMAIN_VCPU_GUEST | libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_INTERNAL_ERROR:
            raise
        shown = _facts(seen).vcpus_online
        raise ResizeIncomplete(
            f"VM {seen.name}: its guest refuses to have {vcpus_online} CPUs online: {error.get_error_message()}", shown
        ) from error


def _request(seen: Seen, plugged_mib: int) -> None:
    """In the definition first (the intent), then in the device. Each has its own element: aliases, addresses differ."""
    defined = ET.fromstring(seen.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).find(MEMORY_DEVICE)
    for device, flag in (
        (defined, libvirt.VIR_DOMAIN_AFFECT_CONFIG),
        (seen.memory_device, libvirt.VIR_DOMAIN_AFFECT_LIVE),
    ):
        if device is not None:
            seen.domain.updateDeviceFlags(requesting(device, plugged_mib), flag)


def requesting(device: ET.Element, plugged_mib: int) -> str:
    """That memory device's XML with another `<requested>`. Pure."""
    device = deepcopy(device)
    target = device.find("target")
    requested = target.find("requested") if target is not None else None
    if target is None or requested is None:
        raise VmError("a virtio-mem device without <requested>: was it changed by hand?")
    requested.set("unit", "MiB")
    requested.text = str(plugged_mib)
    for current in target.findall("current"):
        target.remove(current)
    return ET.tostring(device, encoding="unicode")
