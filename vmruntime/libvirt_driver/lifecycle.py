"""Define, start, stop, remove. Each function is one short blocking step, called in the connection's threads."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import libvirt

from vmruntime.api import InvalidSpec, StartFailed, VmError, VmNotFound, VmSpec
from vmruntime.domain import HostFacts, domain_xml
from vmruntime.images import ImageStore
from vmruntime.libvirt_driver.connection import to_ours
from vmruntime.libvirt_driver.view import Seen, find, look
from vmruntime.metadata import NAMESPACE, PREFIX, Record, fingerprint

_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)
_QEMU_LOGS = Path("/var/log/libvirt/qemu")
"""Where libvirt keeps what QEMU says, one file for each name there ever was. It removes none, and each VM has a name of
its own: without our doing so they would pile up."""
_XML_REFUSED = (
    libvirt.VIR_ERR_XML_ERROR,
    libvirt.VIR_ERR_XML_DETAIL,
    libvirt.VIR_ERR_XML_INVALID_SCHEMA,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_OPERATION_FAILED,
    libvirt.VIR_ERR_INVALID_ARG,
)


def define(conn: Any, spec: VmSpec, facts: HostFacts) -> None:
    existing = _lookup(conn.lookupByUUIDString, spec.uuid)
    if existing is None and _lookup(conn.lookupByName, spec.name) is not None:
        raise InvalidSpec(f"VM name {spec.name} is taken by another VM on this host")
    if existing is not None:
        seen = look(existing, spec.owner.installation)
        if seen is None:
            raise InvalidSpec(f"domain {spec.uuid} ({existing.name()}) exists and is not ours")
        if seen.running:
            if seen.record.fingerprint != fingerprint(spec):
                raise InvalidSpec(f"VM {spec.name} runs with another spec; stop it before creating it anew")
            return
    try:
        conn.defineXMLFlags(domain_xml(spec, facts), 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() in _XML_REFUSED:
            raise InvalidSpec(f"libvirt refuses VM {spec.name}: {error.get_error_message()}") from error
        raise


def _lookup(by: Any, key: str) -> Any:
    try:
        return by(key)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def mark(seen: Seen, record: Record) -> None:
    """Replace the record in the domain: in the definition, and where it runs in the running domain too."""
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG | (libvirt.VIR_DOMAIN_AFFECT_LIVE if seen.running else 0)
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    seen.domain.setMetadata(kind, record.to_plain_xml(), PREFIX, NAMESPACE, flags)


def start(conn: Any, uuid: str, installation: str, store: ImageStore) -> None:
    seen = find(conn, uuid, installation)
    if seen.running:
        return
    _verify_image(seen, store)
    mark(seen, replace(seen.record, started=True, stopping=False))
    try:
        seen.domain.create()
    except libvirt.libvirtError as error:
        ours = to_ours(error)
        mark(seen, replace(seen.record, started=False, stopping=False))
        raise StartFailed(f"cannot start VM {seen.name}: {ours}{_hint(seen)}") from error


def _verify_image(seen: Seen, store: ImageStore) -> None:
    """What was resolved when it was defined, whatever the tag names now, must still be whole (S-47)."""
    kernel = Path(seen.xml.findtext("os/kernel") or "")
    store.resolve(kernel.parent.name.replace("-", ":", 1))


def _hint(seen: Seen) -> str:
    kernel = Path(seen.xml.findtext("os/kernel") or "/")
    closed = [parent for parent in kernel.parents if parent.exists() and not parent.stat().st_mode & 0o001]
    if not closed:
        return ""
    return f"; QEMU's user cannot enter {closed[-1]}: keep the image store where every user may pass (mode 0755)"


def ask_agent_to_stop(conn: Any, uuid: str, installation: str) -> None:
    seen = find(conn, uuid, installation)
    if seen.running and seen.agent_connected:
        seen.domain.agentSetResponseTimeout(2, 0)
        seen.domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT)


def press_power_button(conn: Any, uuid: str, installation: str) -> None:
    seen = find(conn, uuid, installation)
    if seen.running:
        seen.domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)


def begin_stop(conn: Any, uuid: str, installation: str) -> bool:
    """Mark it as ours to end, and say whether there is anything to stop."""
    seen = find(conn, uuid, installation)
    if seen.running and not seen.record.stopping:
        mark(seen, replace(seen.record, stopping=True))
    return seen.running


def is_off(conn: Any, uuid: str, installation: str) -> bool:
    try:
        return not find(conn, uuid, installation).running
    except VmNotFound:
        return True


def destroy(conn: Any, uuid: str, installation: str) -> None:
    seen = find(conn, uuid, installation)
    if not seen.running:
        return
    try:
        seen.domain.destroy()
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
            raise


def remove(conn: Any, uuid: str, installation: str, console_log: Path, console_socket: Path) -> None:
    try:
        destroy(conn, uuid, installation)
        seen = find(conn, uuid, installation)
        # Before the definition, which alone tells the name: a removal that is cut off here is done again.
        _unlink_logs(seen.name, _QEMU_LOGS / f"{seen.name}.log")
        seen.domain.undefineFlags(_UNDEFINE)
    except VmNotFound as error:
        if "is not of installation" in str(error):
            return
    _unlink_logs(uuid, console_log)
    with contextlib.suppress(OSError):  # of no use to anybody, and below /run
        console_socket.unlink()


def _unlink_logs(vm: str, log: Path) -> None:
    """The log and what it was rotated to."""
    for file in (log, *log.parent.glob(f"{log.name}.*")):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise VmError(f"VM {vm} is off, but its log {file} cannot be removed: {error.strerror}") from error
