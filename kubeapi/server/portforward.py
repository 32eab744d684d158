"""port-forward: SPDY/3.1, directly or in a WebSocket. For each connection to the client's port it opens two streams,
for data and for what goes wrong, which belong together by a number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from kubeapi.errors import ApiError
from kubeapi.server import spdyexec, streaming
from kubeapi.server.spdystreams import Connection, SocketWire, Stream, Switched, Wire, switched
from kubeapi.server.streaming import Broken, Channel, Conversation
from kubeapi.server.websockets import until_one_ends

_log = logging.getLogger(__name__)

VERSION = "portforward.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
_LARGEST = 1 << 20
_MAX_PAIRS = 64
_LONGEST_COMPLAINT = 4096

Open = Callable[[int], Coroutine[Any, Any, Conversation]]
"""A conversation with that port. Raises ApiError, Broken."""


async def serve(request: web.Request, open: Open, stopping: asyncio.Event) -> web.StreamResponse:
    """Until the client goes, or the server stops. Raises ApiError 403."""
    if streaming.is_asked(request, "websocket"):
        socket = web.WebSocketResponse(protocols=(TUNNEL,), compress=False, max_msg_size=_LARGEST)
        await socket.prepare(request)
        await _serve(SocketWire(socket), open, stopping)
        await socket.close()
        return socket
    spdyexec.check(request, VERSION)
    with contextlib.suppress(ConnectionError):
        async with switched(request, {spdyexec.VERSION_HEADER: VERSION}) as wire:
            await _serve(wire, open, stopping)
    response = Switched()
    response.force_close()
    return response


async def _serve(wire: Wire, open: Open, stopping: asyncio.Event) -> None:
    connection = Connection(wire)
    with contextlib.suppress(ConnectionError):
        await until_one_ends(_pairs(connection, open), connection.run(), stopping.wait())


async def _pairs(connection: Connection, open: Open) -> None:
    """Until the client goes."""
    waiting: dict[str, Stream] = {}
    async with asyncio.TaskGroup() as tasks:
        forwards: set[asyncio.Task[None]] = set()
        while stream := await connection.accepted.get():
            request = stream.headers.get("requestid", "")
            other = waiting.pop(request, None)
            if other is None:
                waiting[request] = stream
                if len(waiting) > _MAX_PAIRS:
                    break
                continue
            data, error = (other, stream) if stream.headers.get("streamtype") == "error" else (stream, other)
            task = tasks.create_task(_forward(connection, data, error, open), name=f"forward {request}")
            forwards.add(task)
            task.add_done_callback(forwards.discard)
        for task in list(forwards):
            task.cancel()


async def _forward(connection: Connection, data: Stream, error: Stream, open: Open) -> None:
    """One connection. What goes wrong is told on its error stream, and ends no other."""
    complaint = ""
    try:
        port = int(data.headers.get("port", ""))
        conversation = await open(port)
        try:
            await until_one_ends(_exchange(data, conversation), data.over.wait())
        finally:
            conversation.close()
    except ValueError:
        complaint = "the stream names no port"
    except (ApiError, Broken, _Failed) as problem:
        complaint = str(problem)
    except ConnectionError:
        return  # the client has gone
    with contextlib.suppress(ConnectionError):
        await error.end(complaint.encode())
        await data.end()
    connection.forget(data)
    connection.forget(error)


class _Failed(Exception):
    pass


async def _exchange(data: Stream, conversation: Conversation) -> None:
    """Until the guest's side ends. Raises Broken, and _Failed with what the guest complained of."""
    feeding = asyncio.create_task(_feed(data, conversation), name="forward input")
    complaint, code = b"", 0
    try:
        async for channel, piece in conversation.read():
            if channel == Channel.STDOUT:
                await data.write(piece)
            elif channel == Channel.STDERR:
                complaint = (complaint + piece)[:_LONGEST_COMPLAINT]
            elif channel == Channel.ERROR:
                code = int(piece)
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    if code:
        raise _Failed(complaint.decode(errors="replace").strip() or f"the connection ended with code {code}")


async def _feed(data: Stream, conversation: Conversation) -> None:
    async for piece in data.read():
        await conversation.write(Channel.STDIN, piece)
    await conversation.write(Channel.CLOSE, bytes((Channel.STDIN,)))
