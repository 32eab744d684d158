"""Reading a domain: what is ours, how it stands, how it ended. Parsing is pure; `find` and `look` block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from vmruntime.api import Exit, ExitReason, VmNotFound, VmState, VmStatus
from vmruntime.domain import AGENT_CHANNEL, CPU_PERIOD_US
from vmruntime.metadata import Record, read_record

MEMORY_DEVICE = "devices/memory[@model='virtio-mem']"
_TAIL_BYTES = 8192
_RUNNING = (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED, libvirt.VIR_DOMAIN_SHUTDOWN)
_PAUSED = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PMSUSPENDED)
_UNITS_KIB = {"b": 1 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class Seen:
    """One domain of ours at one moment."""

    domain: Any
    xml: ET.Element
    record: Record
    state: VmState
    reason: int
    """libvirt's reason for the state."""

    @property
    def name(self) -> str:
        return self.xml.findtext("name") or ""

    @property
    def running(self) -> bool:
        return self.state in (VmState.RUNNING, VmState.PAUSED)

    @property
    def agent_connected(self) -> bool:
        target = self.xml.find(f"devices/channel/target[@name='{AGENT_CHANNEL}']")
        return target is not None and target.get("state") == "connected"

    @property
    def cpu_limit_millicores(self) -> int | None:
        return limit_of(int(self.xml.findtext("cputune/global_quota") or "-1"))

    @property
    def memory_device(self) -> ET.Element | None:
        return self.xml.find(MEMORY_DEVICE)

    def plugged_mib(self, what: str) -> int:
        """`requested` or `current` of the memory device; 0 without one."""
        device = self.memory_device
        element = device.find(f"target/{what}") if device is not None else None
        if element is None:
            return 0
        return int(int(element.text or "0") * _UNITS_KIB[element.get("unit", "KiB")] / 1024)

    @property
    def boot_vcpus(self) -> int:
        """With how many CPUs online the guest's kernel starts."""
        found = re.search(r"\bmaxcpus=(\d+)", self.xml.findtext("os/cmdline") or "")
        return int(found[1]) if found else self.record.vcpus_max


def look(domain: Any, installation: str) -> Seen | None:
    """None for a domain that is not ours."""
    xml = ET.fromstring(domain.XMLDesc(0))
    record = read_record(xml)
    if record is None or record.owner.installation != installation:
        return None
    number, reason = domain.state()
    return Seen(domain, xml, record, _state(number, record), reason)


def find(conn: Any, uuid: str, installation: str) -> Seen:
    """Raises VmNotFound, also for a domain that is not ours."""
    try:
        seen = look(conn.lookupByUUIDString(uuid), installation)
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_INVALID_ARG):
            raise VmNotFound(f"no VM {uuid} on this host") from error
        raise
    if seen is None:
        raise VmNotFound(f"domain {uuid} exists, but is not of installation {installation}")
    return seen


def _state(number: int, record: Record) -> VmState:
    if number in _RUNNING:
        return VmState.RUNNING
    if number in _PAUSED:
        return VmState.PAUSED
    return VmState.STOPPED if record.started else VmState.DEFINED


def status(seen: Seen, console_log: Path) -> VmStatus:
    """Everything but what only the guest can answer."""
    record = seen.record
    requested, current = (seen.plugged_mib(what) for what in ("requested", "current"))
    return VmStatus(
        uuid=seen.xml.findtext("uuid") or "",
        name=seen.name,
        owner=record.owner,
        image=record.image,
        state=seen.state,
        exit=exit_of(seen, console_tail(console_log)) if seen.state is VmState.STOPPED else None,
        attempt=record.attempt,
        agent_ready=seen.running and seen.agent_connected,
        cpu_limit_millicores=seen.cpu_limit_millicores,
        vcpus_max=record.vcpus_max,
        vcpus_online=None,
        memory_base_mib=record.memory_base_mib,
        memory_max_mib=record.memory_max_mib,
        memory_requested_mib=record.memory_base_mib + requested,
        memory_actual_mib=record.memory_base_mib + current if seen.running else 0,
        guest_total_kib=None,
        boot_id=None,
        document=record.document,
    )


def limit_of(quota_us: int) -> int | None:
    """Millicores for a quota in a period of CPU_PERIOD_US. libvirt says "none" by -1 or by its largest number."""
    return quota_us * 1000 // CPU_PERIOD_US if 0 < quota_us < 1 << 40 else None


def console_tail(log: Path) -> str:
    """The console's last lines; empty where there is no log."""
    try:
        with log.open("rb") as source:
            source.seek(0, 2)
            source.seek(max(source.tell() - _TAIL_BYTES, 0))
            return source.read().decode(errors="replace")
    except OSError:
        return ""


def exit_of(seen: Seen, tail: str) -> Exit:
    """Why a stopped VM is off. libvirt forgets the reason when it restarts; then the console still tells."""
    said = re.findall(r"^copepod: exit (\d+)\s*$", tail, re.MULTILINE)
    reported = int(said[-1]) if said else None
    reason = seen.reason
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN and (said or "reboot: Power down" in tail):
        reason = libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN:
        if seen.record.stopping:
            return Exit(ExitReason.STOPPED, 143 if reported is None else reported)
        return Exit(ExitReason.SHUTDOWN, reported or 0)
    if seen.record.stopping:
        return Exit(ExitReason.STOPPED, 137)
    if "Kernel panic" in tail:
        return Exit(ExitReason.PANIC, 255)
    if reason in (libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED):
        return Exit(ExitReason.KILLED, 137)
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN:
        return Exit(ExitReason.HOST, 255)
    return Exit(ExitReason.UNKNOWN, 255)
