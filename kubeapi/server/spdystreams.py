"""A SPDY/3.1 connection, the server's end: streams that a client opens, over HTTP's own socket or in a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from aiohttp import WSMsgType, web

from kubeapi.server import spdy
from kubeapi.server.spdy import Data, GoAway, Ping, Reset, SpdyError, SynReply, SynStream

_CHUNK = 32 * 1024
_WAITING = 8
"""Pieces of a stream that may wait for its reader. Then the whole connection waits: it has no other way to say so."""
_MAX_STREAMS = 256


class Wire(Protocol):
    """What carries the bytes."""

    async def read(self) -> bytes:
        """Empty at the end. Raises ConnectionError."""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError."""


class Stream:
    def __init__(self, connection: Connection, id: int, headers: Mapping[str, str]) -> None:
        self._connection, self.id, self.headers = connection, id, headers
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self.over = asyncio.Event()
        """The client gave the stream up, or went."""

    async def push(self, piece: bytes) -> None:
        """From the client; empty at its end."""
        if not self.over.is_set():
            await self._pieces.put(piece)

    async def read(self) -> AsyncIterator[bytes]:
        """What the client sends, until it ends that."""
        while piece := await self._pieces.get():
            yield piece

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _CHUNK):
            await self._connection.send(Data(self.id, data[at : at + _CHUNK]))

    async def end(self, data: bytes = b"") -> None:
        """Nothing more will be written after `data`."""
        await self._connection.send(Data(self.id, data, fin=True))


class Connection:
    """`run` serves it; `accepted` has the streams as they are opened."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._reader, self._writer = spdy.Reader(), spdy.Writer()
        self._streams: dict[int, Stream] = {}
        self._sending = asyncio.Lock()
        self.accepted: asyncio.Queue[Stream | None] = asyncio.Queue()
        """None: the client has gone."""

    async def run(self) -> None:
        """Until the client goes, or says what is no SPDY."""
        try:
            while data := await self._wire.read():
                for frame in self._reader.feed(data):
                    await self._received(frame)
        except (ConnectionError, SpdyError):
            pass
        finally:
            for stream in self._streams.values():
                stream.over.set()
            self.accepted.put_nowait(None)

    async def _received(self, frame: spdy.Frame) -> None:
        match frame:
            case SynStream(id, headers, fin):
                await self._opened(id, headers, fin)
            case Data(id, data, fin) if stream := self._streams.get(id):
                if data:
                    await stream.push(data)
                if fin:
                    await stream.push(b"")
            case Reset(id) if stream := self._streams.pop(id, None):
                stream.over.set()
            case Ping(id) if id % 2:  # a client's own; even ones are answers
                await self.send(frame)
            case GoAway():
                raise SpdyError("the client says goodbye")

    async def _opened(self, id: int, headers: Mapping[str, str], fin: bool) -> None:
        if len(self._streams) >= _MAX_STREAMS or id in self._streams:
            await self.send(Reset(id, spdy.PROTOCOL_ERROR))
            return
        stream = self._streams[id] = Stream(self, id, headers)
        await self.send(SynReply(id, {}))
        if fin:
            await stream.push(b"")
        self.accepted.put_nowait(stream)

    def forget(self, stream: Stream) -> None:
        """What still comes of it is dropped."""
        self._streams.pop(stream.id, None)
        stream.over.set()
        while not stream._pieces.empty():
            stream._pieces.get_nowait()

    async def send(self, frame: spdy.Frame) -> None:
        async with self._sending:
            await self._wire.write(self._writer.bytes_of(frame))


class SocketWire:
    """A WebSocket as a plain stream of bytes (`SPDY/3.1+portforward.k8s.io`)."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while (message := await self._socket.receive()).type is WSMsgType.BINARY:
            if message.data:  # clients send empty ones too
                data: bytes = message.data
                return data
        return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


class _StreamWire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class _Taken(asyncio.StreamReaderProtocol):
    """In the place of the HTTP server's protocol, which still must learn that the connection is lost."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before: Any = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


class Switched(web.StreamResponse):
    """What a handler returns whose connection is not HTTP any more."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


@asynccontextmanager
async def switched(request: web.Request, headers: Mapping[str, str]) -> AsyncIterator[Wire]:
    """The request's connection, as the client wanted it: answered with 101, and closed when the block ends."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    reader = asyncio.StreamReader(_CHUNK)
    protocol = _Taken(reader, transport.get_protocol())
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    wire = _StreamWire(reader, writer)
    try:
        await wire.write("\r\n".join([*lines, "", ""]).encode())
        yield wire
    finally:
        writer.close()
