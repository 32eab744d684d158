"""What a client may hold of the server's: bodies in memory, requests at once, and time to send and to take bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import hdrs, web

from kubeapi import errors
from kubeapi.server import framing
from kubeapi.server.responses import cut

REQUEST_SECONDS = 60.0
"""To send a body, and to take an answer; watches and logs have their own rules. The reference's --request-timeout."""
IDLE_SECONDS = 90.0
"""Of a connection without a whole request: neither idle ones nor headers that trickle in hold one longer."""
LINGER_SECONDS = 5.0
"""For what a client still sends of a body that was refused, so that it gets to read the answer."""
MAX_REQUESTS = 600
"""With a body, at once: the reference's --max-requests-inflight and --max-mutating-requests-inflight together."""
MAX_BODIES = 64 * 1024 * 1024
"""Bytes of all bodies at once."""

_SMALL = 16 * 1024
"""Bytes; less than a connection's buffer holds before its writers wait."""

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Load:
    """What is being worked on."""

    def __init__(self) -> None:
        self.requests = 0
        self.bodies = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Raises ApiError 429."""
        if self.requests >= MAX_REQUESTS or self.bodies + size > MAX_BODIES:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        self.requests += 1
        self.bodies += size
        try:
            yield
        finally:
            self.requests -= 1
            self.bodies -= size


LOAD: web.AppKey[Load] = web.AppKey("load", Load)


def at_once(request: web.Request, size: int) -> bool:
    """Whether so many bytes fit into the connection's buffer, so that there is nothing to wait for, and no need of a
    timer."""
    transport = request.transport
    return size <= _SMALL and transport is not None and not transport.get_write_buffer_size()


@web.middleware
async def sent(request: web.Request, handler: Next) -> web.StreamResponse:
    """The answer is taken in time, or the connection ends: its bytes are not kept for whoever does not read them."""
    response = await handler(request)
    body = response.body if isinstance(response, web.Response) else None
    try:
        if isinstance(body, bytes) and at_once(request, len(body)):
            await response.prepare(request)
            await response.write_eof()
        else:
            async with asyncio.timeout(REQUEST_SECONDS):
                await response.prepare(request)
                await response.write_eof()
    except TimeoutError:
        cut(request)
    except ConnectionError:
        pass  # the client has gone
    return response


@web.middleware
async def bounded(request: web.Request, handler: Next) -> web.StreamResponse:
    """Raises ApiError 400, 413, 429, 504."""
    if not request.body_exists:
        return await handler(request)
    size = _size(request)
    if size > framing.MAX_BODY:
        raise errors.too_large(f"limit is {framing.MAX_BODY}")
    with request.app[LOAD].taken(size):
        try:
            async with asyncio.timeout(None if request.content.is_eof() else REQUEST_SECONDS):
                await request.read()  # which keeps it for whoever reads it next
        except TimeoutError as error:
            raise errors.timeout(f"request did not complete within requested timeout {REQUEST_SECONDS:g}s") from error
        except web.RequestPayloadError as error:
            raise errors.bad_request(f"the body cannot be read: {error}") from error
        return await handler(request)


def _size(request: web.Request) -> int:
    """What the body may take at the most, unpacked."""
    if request.content_length is None or hdrs.CONTENT_ENCODING in request.headers:
        return framing.MAX_BODY
    return request.content_length
