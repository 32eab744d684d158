"""The Kubernetes API over HTTP: routes, authentication, errors, and the server's lifetime. aiohttp stays in here."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from kubeapi import errors
from kubeapi.errors import ApiError
from kubeapi.server import about, auth, authorizing, bounds, caller, framing, streaming
from kubeapi.server.auth import Authenticator, User
from kubeapi.server.authorizing import Authorizer
from kubeapi.server.computed import Sources
from kubeapi.server.crds import CustomKinds
from kubeapi.server.handlers import USER, Server
from kubeapi.server.keeping import StatusKeeper
from kubeapi.server.logs import LogSource, NoLogs
from kubeapi.server.namespaces import NamespaceJanitor
from kubeapi.server.objects import StoreObjects
from kubeapi.server.openapi import Documents
from kubeapi.server.responses import failure, warnings
from kubeapi.server.tokens import Tokens

_log = logging.getLogger(__name__)

_OPEN = frozenset({"healthz", "livez", "readyz", "version"})
"""First parts of paths that are answered to anybody."""
_SHUTDOWN_SECONDS = 5.0
_MAX_HEADER = 64 * 1024
"""Bytes of a URL (selectors may be long), or of one header."""

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]
SERVER: web.AppKey[Server] = web.AppKey("server", Server)


def create_app(
    objects: StoreObjects,
    authenticator: Authenticator,
    *,
    logs: LogSource | None = None,
    streams: streaming.Source | None = None,
    sources: Sources | None = None,
    token_key: bytes | None = None,
    enforce_rbac: bool = False,
) -> web.Application:
    """An application to `serve`. While it runs it also empties namespaces that are being deleted, and keeps the status
    of quotas and disruption budgets.

    `sources` make the objects of kinds that are not stored.
    `token_key` signs service accounts' tokens; without one, they are void when the application ends.
    `enforce_rbac`: without it, every authenticated user may do everything.
    """
    tokens = Tokens(token_key or secrets.token_bytes(32), objects)

    async def identify(token: str) -> User | None:
        return authenticator.authenticate(token) or await tokens.authenticate(token)

    authorizer = Authorizer(objects, enforced=enforce_rbac)
    server = Server(objects, logs or NoLogs(), tokens, identify, authorizer, sources or {})
    app = web.Application(middlewares=_MIDDLEWARES, client_max_size=framing.MAX_BODY)
    app[SERVER] = server
    app[streaming.SOURCE] = streams or streaming.NoSource()
    app[bounds.LOAD] = bounds.Load()
    about.add_routes(app, objects.registry, Documents(objects.registry))
    app.router.add_route("*", "/{path:.*}", server.dispatch)
    app.cleanup_ctx.append(_custom_kinds(CustomKinds(objects)))
    app.cleanup_ctx.append(_while_running("namespace-janitor", NamespaceJanitor(objects).run))
    app.cleanup_ctx.append(_while_running("status-keeper", StatusKeeper(objects).run))

    async def stop(_app: web.Application) -> None:
        server.stopping.set()

    async def end_admission(_app: web.Application) -> None:
        await objects.admission.close()

    app.on_shutdown.append(stop)
    app.on_cleanup.append(end_admission)
    return app


def _while_running(
    name: str, run: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(run(), name=name)
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return context


def _custom_kinds(kinds: CustomKinds) -> Callable[[web.Application], AsyncIterator[None]]:
    """Served before the first request, and kept so."""
    following = _while_running("custom-kinds", kinds.run)

    async def context(app: web.Application) -> AsyncIterator[None]:
        await kinds.load()
        async for _ in following(app):
            yield

    return context


@web.middleware
async def _errors(request: web.Request, handler: Next) -> web.StreamResponse:
    """Whatever fails becomes a Status; what was not foreseen is logged and becomes a 500."""
    try:
        return await handler(request)
    except ApiError as error:
        return failure(request, error)
    except web.HTTPRequestEntityTooLarge:
        return failure(request, errors.too_large(f"limit is {framing.MAX_BODY}"))
    except web.HTTPMethodNotAllowed:
        return failure(request, errors.method_not_allowed())
    except web.HTTPNotFound:
        return failure(request, errors.path_not_found())
    except web.HTTPException as error:
        return failure(request, ApiError(error.status, "BadRequest", error.text or error.reason))
    except Exception as error:  # noqa: BLE001 (the route is where the unforeseen ends)
        if isinstance(error, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            return web.Response(status=499)  # the client has gone: nobody gets this, and there is nothing to log
        _log.exception("%s %s failed", request.method, request.path)
        return failure(request, errors.internal(f"{type(error).__name__}: see the server's log"))


@web.middleware
async def _authenticated(request: web.Request, handler: Next) -> web.StreamResponse:
    if request.path.strip("/").partition("/")[0] in _OPEN:
        return await handler(request)
    token = auth.bearer_token(request.headers.get("Authorization"))
    user = await request.app[SERVER].identify(token) if token else None
    if user is None:
        raise errors.unauthorized()
    authorizer = request.app[SERVER].authorizer
    user = await authorizing.acting_as(
        authorizer, user, request.headers, request.headers.getall("Impersonate-Group", [])
    )
    if authorizer.enforced:
        path = request.rel_url.raw_path
        await authorizer.require(user, authorizing.action_of(request.method, path, request.query))
    request[USER] = user
    acting = caller.begin(user)
    try:
        response = await handler(request)
    except ApiError as error:
        response = failure(request, error)  # here already, for warnings go with refusals, too
    if acting.warnings and not response.prepared:
        for name, value in warnings(acting.warnings):
            response.headers.add(name, value)
    return response


def _quiet_logger() -> logging.Logger:
    """What clients send that is no HTTP is their fault, answered with 400, and no reason to fill the log."""
    logger = logging.getLogger(f"{__name__}.http")
    logger.addFilter(_not_the_clients_fault)
    return logger


def _not_the_clients_fault(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_MIDDLEWARES = (bounds.sent, _errors, _authenticated, bounds.bounded)
"""From the outside in: a body is read only for those who are known."""


@asynccontextmanager
async def serve(
    app: web.Application, host: str = "127.0.0.1", port: int = 0, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve until the block ends; gives the bound port (`port` 0 = any free one)."""
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_quiet_logger(),
        handle_signals=False,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        keepalive_timeout=bounds.IDLE_SECONDS,
        lingering_time=bounds.LINGER_SECONDS,
        max_line_size=_MAX_HEADER,
        max_field_size=_MAX_HEADER,
        auto_decompress=True,
        handler_cancellation=True,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=ssl_context)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
