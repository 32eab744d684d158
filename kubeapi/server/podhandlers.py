"""The subresources that are acts, not views of an object: a pod's binding, eviction and log, an account's token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from aiohttp import web

from kubeapi import errors
from kubeapi.core import Pod
from kubeapi.server import bodies, evicting, logs, podstreams, queries
from kubeapi.server.paths import Target
from kubeapi.server.responses import NO_CACHE, answer, cut

if TYPE_CHECKING:
    from kubeapi.server.handlers import Server

_log = logging.getLogger(__name__)

Handler = Callable[["Server", web.Request, Target], Awaitable[web.StreamResponse]]


async def bind(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    wish = bodies.parse_binding(await request.read(), request.headers.get("Content-Type"))
    dry_run = queries.write_options(request.query).dry_run
    await server.objects.bind_pod(target.namespace or "", target.name, wish, dry_run=dry_run)
    return answer(request, errors.success(201), 201)


async def evict(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    data = bodies.parse_mapping(await request.read(), request.headers.get("Content-Type"), "Eviction")
    wish = data.get("deleteOptions")
    options = bodies.options_from(wish if isinstance(wish, dict) else {}, request.query)
    await evicting.evict(server.objects, target.namespace or "", target.name, options)
    return answer(request, errors.success(201), 201)


async def token(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    return await server.tokens.issue(request, target)


async def log(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    pod = (await server.objects.read(server.objects.registry.of(Pod), target.namespace, target.name)).copied()
    options = logs.parse(request.query, target.name)
    container = logs.container_of(pod, request.query.get("container", ""))
    response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": NO_CACHE})
    if not pod.spec.node_name:
        # Not placed yet: the reference answers with nothing.
        await response.prepare(request)
        return response
    source = until_stopped(server.logs.logs(pod, container, options), server.stopping)
    async with aclosing(source):
        # The first bytes before the headers, so that a refusal still becomes a Status.
        chunk = await anext(source, None)
        await response.prepare(request)
        try:
            await _send(response, chunk, source, options.limit_bytes)
        except errors.ApiError as error:
            _log.warning("the log of %s/%s breaks off: %s", target.namespace, target.name, error)
            cut(request)
    return response


async def _send(
    response: web.StreamResponse, chunk: bytes | None, source: AsyncIterator[bytes], limit: int | None
) -> None:
    while chunk is not None:
        await response.write(chunk[:limit])
        if limit is not None:
            limit = max(0, limit - len(chunk))
            if limit == 0:  # nor wait for more: a log that is followed may stay silent
                return
        chunk = await anext(source, None)


async def until_stopped(source: AsyncIterator[bytes], stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """`source`, until the server stops."""
    stop = asyncio.create_task(stopping.wait(), name="log-stop")
    waiting: asyncio.Task[bytes | None] | None = None
    try:
        while not stopping.is_set():
            waiting = asyncio.create_task(_chunk(source), name="log-next")
            await asyncio.wait({waiting, stop}, return_when=asyncio.FIRST_COMPLETED)
            chunk = waiting.result() if waiting.done() else None
            if chunk is None:
                return
            yield chunk
    finally:
        stop.cancel()
        if waiting:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        close = getattr(source, "aclose", None)
        if close:
            await close()


async def _chunk(source: AsyncIterator[bytes]) -> bytes | None:
    return await anext(source, None)


_HANDLERS: dict[tuple[str, str], Handler] = {
    ("pods", "binding"): bind,
    ("pods", "eviction"): evict,
    ("pods", "attach"): podstreams.attach,
    ("pods", "exec"): podstreams.exec_,
    ("pods", "portforward"): podstreams.port_forward,
    ("pods", "log"): log,
    ("serviceaccounts", "token"): token,
}


def find(resource_key: str, subresource: str) -> Handler | None:
    return _HANDLERS.get((resource_key, subresource))
