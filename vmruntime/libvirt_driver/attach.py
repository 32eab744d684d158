"""`Runtime.attach` on libvirt: the serial console's socket, of which there is one for any number who are attached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from vmruntime.api import VmError
from vmruntime.libvirt_driver.connection import Connection
from vmruntime.libvirt_driver.resize import running
from vmruntime.libvirt_driver.view import find
from vmruntime.process import GuestProcess, Source, Terminal

log = logging.getLogger(__name__)

_CHUNK = 16 * 1024
_WAITING = 64
"""Pieces that wait for one who reads slowly; beyond that the oldest are lost to it. Waiting would stop the guest."""
_END_OF_INPUT = b"\x04"
_RESIZE = 'read -r all </sys/class/tty/console/active; stty -F "/dev/${all##* }" rows "$1" cols "$2"'

InGuest = Callable[..., Awaitable[None]]
"""`Spawner.in_guest`."""


class Consoles:
    """The consoles that somebody is attached to."""

    def __init__(self, connection: Connection, installation: str, in_guest: InGuest) -> None:
        self._connection, self._installation, self._in_guest = connection, installation, in_guest
        self._lines: dict[str, _Line] = {}
        self._opening = asyncio.Lock()

    async def attach(self, uuid: str) -> GuestProcess:
        path = await self._connection.call(self._socket, uuid)
        async with self._opening:
            line = self._lines.get(uuid)
            if line is None or line.ended:
                line = self._lines[uuid] = await _open(path)
            attached = _Attached(self, uuid, line)
            line.attached.add(attached)
            return attached

    def _socket(self, conn: Any, uuid: str) -> str:
        seen = running(find(conn, uuid, self._installation))
        source = seen.xml.find("devices/serial[@type='unix']/source")
        if source is None or not source.get("path"):
            raise VmError(f"VM {seen.name} was started with a console that takes no input; a restart gives it one")
        return source.attrib["path"]

    async def resize(self, uuid: str, size: Terminal) -> None:
        await self._in_guest(uuid, _RESIZE, str(size.rows), str(size.columns))

    def leave(self, uuid: str, attached: _Attached) -> None:
        line = attached.line
        line.attached.discard(attached)
        if not line.attached:
            line.close()
            if self._lines.get(uuid) is line:
                del self._lines[uuid]

    async def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()


async def _open(path: str) -> _Line:
    try:
        return _Line(*await asyncio.open_unix_connection(path, limit=_CHUNK))
    except OSError as error:
        raise VmError(f"the console's socket {path} cannot be opened: {error.strerror or error}") from error


class _Line:
    """The one connection that QEMU takes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.attached: set[_Attached] = set()
        self._reading = asyncio.create_task(self._read(), name="console")

    @property
    def ended(self) -> bool:
        return self._reading.done()

    async def _read(self) -> None:
        """Always, and at once: QEMU holds the guest up while its console's output is not taken."""
        try:
            while data := await self._reader.read(_CHUNK):
                for attached in self.attached:
                    attached.offer(data)
        except OSError as error:
            log.info("a console broke: %s", error)
        finally:
            self.writer.transport.abort()  # whoever writes waits no longer
            for attached in self.attached:
                attached.offer(None)

    def close(self) -> None:
        self._reading.cancel()


class _Attached:
    """See `vmruntime.process.GuestProcess`."""

    def __init__(self, consoles: Consoles, uuid: str, line: _Line) -> None:
        self._consoles, self._uuid, self.line = consoles, uuid, line
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._at_line_start = True
        self.code: int | None = None

    def offer(self, piece: bytes | None) -> None:
        if self._pieces.full():
            self._pieces.get_nowait()
        self._pieces.put_nowait(piece)

    async def output(self) -> AsyncIterator[tuple[Source, bytes]]:
        while (piece := await self._pieces.get()) is not None:
            yield Source.STDOUT, piece
        self.code = 0

    async def write(self, data: bytes) -> None:
        if not data or self.line.ended:
            return
        self._at_line_start = data.endswith((b"\n", b"\r"))
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.line.writer.write(data)
            await self.line.writer.drain()

    async def end_input(self) -> None:
        # In the middle of a line the first one only hands over what was typed so far.
        await self.write(_END_OF_INPUT if self._at_line_start else _END_OF_INPUT * 2)

    async def resize(self, size: Terminal) -> None:
        await self._consoles.resize(self._uuid, size)

    async def close(self) -> None:
        self._consoles.leave(self._uuid, self)
