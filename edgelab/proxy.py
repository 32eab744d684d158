"""A TCP proxy that makes a link bad: silent, one-way, slow, late, broken or half open. Needs no privileges.

Within one connection bytes keep their order, as TCP's always do; what travels on different connections overtakes each
other when the delay is jittered. Bytes that are under way when a link falls silent are delivered after it is whole
again, as TCP would by retransmission.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol, Self

_CHUNK = 65536
_WAITING = 16
"""Chunks in each direction of a connection that may be on their way; then its sender waits."""
_SLICES = 20
"""In how many writes a second a throttled direction sends."""


class Way(StrEnum):
    UP = "up"
    """From who connected to the target: from a node to its broker."""
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Flow:
    """How a link carries bytes, until it is told otherwise."""

    up: bool = True
    """Whether anything arrives in that direction."""
    down: bool = True
    delay: float = 0.0
    """Seconds, each way."""
    jitter: float = 0.0
    """Up to so many seconds more, drawn anew for what is read at once."""
    bytes_per_second: int | None = None
    """Of each connection, each way. None: as fast as it goes."""

    def passes(self, way: Way) -> bool:
        return self.up if way is Way.UP else self.down


WHOLE = Flow()
SILENT = Flow(up=False, down=False)


class Chance(Protocol):
    def random(self) -> float:
        """Uniform in [0, 1)."""


class ProxyLink:
    """Listens on `address`:`port` (0: a free one) while it is entered. See `edgelab.faults.Link`."""

    def __init__(
        self,
        target_port: int,
        *,
        target_host: str = "127.0.0.1",
        address: str = "127.0.0.1",
        port: int = 0,
        chance: Chance | None = None,
    ) -> None:
        self._target, self._listen = (target_host, target_port), (address, port)
        self._chance = chance or random.Random()
        self._flow = WHOLE
        self._turned = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._ends: set[_Ends] = set()
        self._stranded: list[asyncio.StreamWriter] = []
        self._ending = asyncio.Event()
        self.bytes_up = 0
        """What has arrived at the target through it."""
        self.bytes_down = 0

    @property
    def port(self) -> int:
        assert self._server is not None, "the proxy is not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    # -- faults -----------------------------------------------------------------------------------------------------

    async def shape(self, flow: Flow) -> None:
        """From now on bytes are carried like that, on old connections and new ones."""
        self._flow = flow
        self._turned.set()
        self._turned = asyncio.Event()

    async def cut(self) -> None:
        """Connections stay open, new ones are accepted, and nothing arrives."""
        await self.shape(SILENT)

    async def restore(self) -> None:
        await self.shape(WHOLE)
        stranded, self._stranded = self._stranded, []
        for writer in stranded:
            _abort(writer)

    async def reset(self) -> None:
        """Break every connection, and tell both ends at once (RST)."""
        for ends in list(self._ends):
            _abort(ends.near)
            _abort(ends.far)

    async def half_open(self) -> None:
        """Break every connection for who made it; the target is told nothing, and believes in it, until `restore`."""
        for ends in list(self._ends):
            ends.stranded = True
            _abort(ends.near)

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, *self._listen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self._ending.set()
        while self._connections:
            await asyncio.gather(*self._connections, return_exceptions=True)
        for writer in self._stranded:
            _abort(writer)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: a connection is known from the moment it is accepted, so that none outlives the proxy."""
        task = asyncio.create_task(self._forward(reader, writer), name="proxied connection")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Never cancelled: a connection that is cancelled while it is made leaves its socket to the collector."""
        far_writer: asyncio.StreamWriter | None = None
        try:
            # To be made, a connection needs both directions, one after the other.
            await self._unless_ending(self._passable(Way.UP, Way.DOWN))
            if not self._ending.is_set():
                far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            pass  # the target may be down
        if far_writer is None:
            writer.close()
            return
        ends = _Ends(writer, far_writer)
        self._ends.add(ends)
        try:
            await self._unless_ending(
                self._carry(Way.UP, reader, far_writer), self._carry(Way.DOWN, far_reader, writer)
            )
        finally:
            self._ends.discard(ends)
            writer.close()
            if ends.stranded and not self._ending.is_set():
                self._stranded.append(far_writer)
            else:
                far_writer.close()

    async def _unless_ending(self, *steps: Coroutine[Any, Any, object]) -> None:
        """Until one of them has ended, or the proxy ends; the others then end too."""
        tasks = [asyncio.create_task(step) for step in (*steps, self._ending.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _passable(self, *ways: Way) -> None:
        while not all(self._flow.passes(way) for way in ways):
            await self._turned.wait()

    async def _carry(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING)
        reading = asyncio.create_task(self._read(source, line))
        try:
            with contextlib.suppress(OSError):  # either end may go at any time
                await self._write(way, line, sink)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, source: asyncio.StreamReader, line: asyncio.Queue[tuple[float, bytes]]) -> None:
        """Stamps what it reads with the moment it is due at the other end; the end of the stream is an empty chunk."""
        loop, due = asyncio.get_running_loop(), 0.0
        data = b"-"
        while data:
            try:
                data = await source.read(_CHUNK)
            except OSError:
                data = b""
            flow = self._flow
            due = max(due, loop.time() + flow.delay + self._chance.random() * flow.jitter)
            await line.put((due, data))

    async def _write(self, way: Way, line: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._passable(way)  # the end of a connection does not cross a cut link either
            if not data:
                return
            while data:
                rate = self._flow.bytes_per_second
                piece = data[: max(1, rate // _SLICES)] if rate else data
                data = data[len(piece) :]
                self._count(way, len(piece))
                sink.write(piece)
                await sink.drain()
                if rate:
                    await asyncio.sleep(len(piece) / rate)
                    await self._passable(way)

    def _count(self, way: Way, size: int) -> None:
        if way is Way.UP:
            self.bytes_up += size
        else:
            self.bytes_down += size


@dataclass(eq=False, slots=True)
class _Ends:
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    stranded: bool = False
    """The near end is gone, and the far one is not to hear of it."""


def _abort(writer: asyncio.StreamWriter) -> None:
    """RST instead of FIN, whatever still waits to be sent."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
