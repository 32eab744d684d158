"""exec and attach over a WebSocket: a byte that names the channel, and its data, in each message."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
from aiohttp import WSMsgType, web

from kubeapi.server import streaming
from kubeapi.server.streaming import Broken, Channel, Conversation, Wish

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_LARGEST = 1 << 20
"""Bytes of one message; kubectl's have 32 KiB."""
_SAID_AT_CLOSE = 5.0
"""Seconds for the client to answer our goodbye."""


async def serve(
    request: web.Request, conversation: Conversation, wish: Wish, stopping: asyncio.Event
) -> web.StreamResponse:
    """Until the program ends, the client goes, or the server stops."""
    socket = web.WebSocketResponse(
        protocols=(V5, V4), compress=False, max_msg_size=_LARGEST, timeout=_SAID_AT_CLOSE, autoclose=True
    )
    await socket.prepare(request)
    with contextlib.suppress(ConnectionError):
        # As the reference: tells a client that waits for it that all is in place.
        await socket.send_bytes(bytes((Channel.STDOUT if wish.stdout else Channel.ERROR,)))
        await until_one_ends(_send(socket, conversation, wish), _receive(socket, conversation, wish), stopping.wait())
        await socket.close()
    return socket


async def until_one_ends(*work: object) -> None:
    tasks = [asyncio.ensure_future(part) for part in work]  # type: ignore[call-overload]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(socket: web.WebSocketResponse, conversation: Conversation, wish: Wish) -> None:
    async for channel, data in messages(conversation, wish):
        await socket.send_bytes(bytes((channel,)) + data)


async def messages(conversation: Conversation, wish: Wish) -> AsyncIterator[tuple[int, bytes]]:
    """What a client is sent: what it asked for of the output, and at the end the Status."""
    wanted: dict[int, bool] = {Channel.STDOUT: wish.stdout, Channel.STDERR: wish.stderr and not wish.tty}
    status = streaming.ended(0)
    try:
        async for channel, data in conversation.read():
            if channel == Channel.ERROR:
                status = streaming.ended(int(data))
                break  # the node tidies up; nobody needs to wait for that
            if wanted.get(channel, False):
                yield channel, data
    except Broken as error:
        status = streaming.broken(str(error))
    yield Channel.ERROR, orjson.dumps(status)


async def _receive(socket: web.WebSocketResponse, conversation: Conversation, wish: Wish) -> None:
    """Until the client goes: then nobody is there for what the program still writes."""
    while True:
        message = await socket.receive()
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            return
        data = message.data if message.type is WSMsgType.BINARY else message.data.encode()
        if data:
            await take(conversation, wish, data[0], data[1:])


async def take(conversation: Conversation, wish: Wish, channel: int, data: bytes) -> None:
    """What a client sent. What it did not announce is dropped."""
    match channel:
        case Channel.STDIN if wish.stdin and data:
            await conversation.write(Channel.STDIN, data)
        case Channel.RESIZE if wish.tty:
            await conversation.write(Channel.RESIZE, data)
        case Channel.CLOSE if data == bytes((Channel.STDIN,)):
            await conversation.write(Channel.CLOSE, data)
