"""The server that bench.api loads, as a process of its own: `python -m bench.apiserver STORE` or `… bare FILE`.

`bare` answers everything with the file's bytes: aiohttp alone. Prints the port when it serves.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import web

from kubeapi.clock import SystemClock, new_uid
from kubeapi.core import Namespace
from kubeapi.meta import ObjectMeta
from kubeapi.resources import REGISTRY
from kubeapi.server import process
from kubeapi.server.app import create_app, serve
from kubeapi.server.auth import StaticTokens, User
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store

TOKEN = "bench"


async def run(store: str, *file: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    async with AsyncExitStack() as stack:
        app = _bare(file[0]) if store == "bare" else await _hub(stack, store)
        print(await stack.enter_async_context(serve(app)), flush=True)
        await asyncio.Event().wait()


async def _hub(stack: AsyncExitStack, where: str) -> web.Application:
    store = await open_store(where)
    stack.push_async_callback(store.close)
    objects = StoreObjects(store, REGISTRY, SystemClock(), new_uid)
    await objects.create(Namespace(metadata=ObjectMeta(name="default")))
    user = User("bench", ("system:masters", "system:authenticated"))
    return create_app(objects, StaticTokens({TOKEN: user}))


def _bare(file: str) -> web.Application:
    body = Path(file).read_bytes()

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return app


if __name__ == "__main__":
    process.tune()
    asyncio.run(run(*sys.argv[1:]))
