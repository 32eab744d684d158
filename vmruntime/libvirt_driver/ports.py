"""virtio-serial ports, plugged for one program in a guest and unplugged after it. All but `EndFinder` blocks.

Why not the guest agent: it moves 1-2 MB/s into an emulated guest and 6 out of it, a few milliseconds of the one agent
channel for each piece, and a request of 256 KiB hangs it for good. A plugged port costs 16 ms once and moves tens of
MB/s, with the kernel's own flow control and no polling (docs/adr/0008).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from vmruntime.api import VmError
from vmruntime.libvirt_driver.view import Seen

PREFIX = "org.copepod."
_LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE


def plug(seen: Seen, tag: str, ways: Sequence[str]) -> dict[str, str]:
    """A port for each way (`in`, `out`, `err`): where their sockets are. All or none."""
    for way in ways:
        channel = ET.Element("channel", type="unix")
        ET.SubElement(channel, "source", mode="bind")
        ET.SubElement(channel, "target", type="virtio", name=_name(tag, way))
        seen.domain.attachDeviceFlags(ET.tostring(channel, encoding="unicode"), _LIVE)
    found = {_port(channel): channel.find("source") for channel in _channels(seen.domain)}
    places = {}
    for way in ways:
        source = found.get(_name(tag, way))
        path = source.get("path") if source is not None else None
        if not path:
            raise VmError(f"VM {seen.name}: libvirt plugged a port, but does not say where its socket is")
        places[way] = path
    return places


def unplug(domain: Any, tags: Iterable[str]) -> None:
    """What is gone already is well. libvirt waits for the guest to let go, 5 s at most."""
    wanted = tuple(f"{PREFIX}{tag}." for tag in tags)
    for channel in _channels(domain):
        if wanted and _port(channel).startswith(wanted):
            try:
                domain.detachDeviceFlags(ET.tostring(channel, encoding="unicode"), _LIVE)
            except libvirt.libvirtError as error:
                if error.get_error_code() not in (libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_INVALID):
                    raise


def plugged(seen: Seen) -> set[str]:
    """The tags of all ports of ours in the running domain."""
    names = (target.get("name") or "" for target in seen.xml.iterfind("devices/channel/target"))
    return {name.removeprefix(PREFIX).rpartition(".")[0] for name in names if name.startswith(PREFIX)}


def _name(tag: str, way: str) -> str:
    return f"{PREFIX}{tag}.{way}"


def _channels(domain: Any) -> list[ET.Element]:
    return list(ET.fromstring(domain.XMLDesc(0)).iterfind("devices/channel"))


def _port(channel: ET.Element) -> str:
    target = channel.find("target")
    return (target.get("name") or "") if target is not None else ""


class EndFinder:
    """Finds the line that ends a port's bytes: a mark that nobody else can know, a space, the exit code."""

    def __init__(self, mark: bytes) -> None:
        self._mark, self._held = mark, b""
        self.code: int | None = None

    def feed(self, data: bytes) -> bytes:
        """What of all that came so far is the program's, and was not given before."""
        held = self._held + data
        at = held.find(self._mark)
        if at < 0:
            at = len(held) - _overlap(held, self._mark)
        elif held.endswith(b"\n"):
            self.code = int(held[at + len(self._mark) :] or b"255")
        self._held = held[at:]
        return held[:at]


def _overlap(text: bytes, mark: bytes) -> int:
    """The longest end of `text` that may be the beginning of `mark`."""
    return next((size for size in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-size:])), 0)
