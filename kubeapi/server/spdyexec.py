"""exec and attach over SPDY/3.1, for clients that cannot, or may not, use WebSockets: a stream for each channel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from aiohttp import web

from kubeapi import errors
from kubeapi.server import streaming, websockets
from kubeapi.server.spdystreams import Connection, Stream, Switched, switched
from kubeapi.server.streaming import Channel, Conversation, Wish
from kubeapi.server.websockets import until_one_ends

VERSION_HEADER = "X-Stream-Protocol-Version"
V4 = "v4.channel.k8s.io"
_OPEN_SECONDS = 30.0
"""For the client to open its streams (the reference's --stream-creation-timeout)."""
_GOODBYE_SECONDS = 5.0
_NAMES = {"stdin": Channel.STDIN, "stdout": Channel.STDOUT, "stderr": Channel.STDERR, "error": Channel.ERROR}


def check(request: web.Request, version: str) -> None:
    """Raises ApiError 403 for a client that does not offer what we speak."""
    if version not in streaming.offered(request, VERSION_HEADER):
        raise errors.ApiError(403, "Forbidden", f"unable to negotiate protocol: this server speaks {version}")


async def serve(
    request: web.Request, conversation: Conversation, wish: Wish, stopping: asyncio.Event
) -> web.StreamResponse:
    with contextlib.suppress(ConnectionError):
        async with switched(request, {VERSION_HEADER: V4}) as wire:
            connection = Connection(wire)
            running = asyncio.create_task(connection.run(), name="spdy connection")
            try:
                await until_one_ends(_talk(connection, conversation, wish), stopping.wait())
                # The client leaves when it has read all; it must not lose the end to a connection that breaks.
                await asyncio.wait({running}, timeout=_GOODBYE_SECONDS)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    response = Switched()
    response.force_close()
    return response


async def _talk(connection: Connection, conversation: Conversation, wish: Wish) -> None:
    streams = await _streams(connection, wish)
    if streams is not None:
        await until_one_ends(_send(streams, conversation, wish), _receive(connection, streams, conversation, wish))


async def _streams(connection: Connection, wish: Wish) -> Mapping[Channel, Stream] | None:
    """All that the client announced; None when it goes, or opens none."""
    wanted = {Channel.ERROR} | {
        channel
        for channel, is_wanted in (
            (Channel.STDIN, wish.stdin),
            (Channel.STDOUT, wish.stdout),
            (Channel.STDERR, wish.stderr and not wish.tty),
            (Channel.RESIZE, wish.tty),
        )
        if is_wanted
    }
    found: dict[Channel, Stream] = {}
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            while found.keys() < wanted:
                stream = await connection.accepted.get()
                if stream is None:
                    return None
                kind = stream.headers.get("streamtype", "")
                found[Channel.RESIZE if kind == "resize" else _NAMES.get(kind, Channel.CLOSE)] = stream
    except TimeoutError:
        return None
    return found


async def _send(streams: Mapping[Channel, Stream], conversation: Conversation, wish: Wish) -> None:
    async for channel, data in websockets.messages(conversation, wish):
        if channel != Channel.ERROR:
            await streams[Channel(channel)].write(data)
            continue
        await streams[Channel.ERROR].end(data)
        for output in (Channel.STDOUT, Channel.STDERR):
            if output in streams:
                await streams[output].end()


async def _receive(
    connection: Connection, streams: Mapping[Channel, Stream], conversation: Conversation, wish: Wish
) -> None:
    """Until the client goes."""
    async with asyncio.TaskGroup() as tasks:
        feeds = []
        if Channel.STDIN in streams:
            feeds.append(tasks.create_task(_feed(streams[Channel.STDIN], conversation, wish)))
        if Channel.RESIZE in streams:
            feeds.append(tasks.create_task(_sizes(streams[Channel.RESIZE], conversation, wish)))
        while await connection.accepted.get() is not None:
            pass
        for feed in feeds:
            feed.cancel()


async def _feed(stream: Stream, conversation: Conversation, wish: Wish) -> None:
    async for piece in stream.read():
        await websockets.take(conversation, wish, Channel.STDIN, piece)
    await websockets.take(conversation, wish, Channel.CLOSE, bytes((Channel.STDIN,)))


async def _sizes(stream: Stream, conversation: Conversation, wish: Wish) -> None:
    """One JSON document in each line."""
    held = b""
    async for piece in stream.read():
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            await websockets.take(conversation, wish, Channel.RESIZE, line)
        if len(held) > 1024:
            return
