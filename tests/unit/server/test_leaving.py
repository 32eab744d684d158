"""Clients that leave in the middle of an answer."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kubeapi.server.app import _errors


async def test_who_leaves_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The connection is closing already when the handler, which has not been told yet, writes to it."""
    left = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}")
        assert request.transport is not None
        request.transport.close()
        left.set()
        await response.write(b"{}")
        raise AssertionError("written to nobody")

    app = web.Application(middlewares=[_errors])
    app.router.add_get("/", watch)
    with caplog.at_level(logging.INFO):
        async with TestClient(TestServer(app)) as client:
            with pytest.raises(aiohttp.ClientPayloadError):
                await (await client.get("/")).read()
            await left.wait()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_lost_connection_to_something_else_is_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_request: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("the store's, say")

    app = web.Application(middlewares=[_errors])
    app.router.add_get("/", broken)
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/")
        assert answer.status == 500
    assert "GET / failed" in caplog.text
