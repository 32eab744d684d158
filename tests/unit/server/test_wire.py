"""What arrives over a socket that no HTTP client would send: answered with 4xx or closed; no 500, nothing kept."""

from __future__ import annotations

import asyncio
import gzip
import logging
import resource
import zlib
from collections.abc import AsyncIterator

import pytest

from kubeapi.server import bounds
from kubeapi.server.app import create_app, serve
from kubeapi.server.auth import StaticTokens
from tests.unit.server.conftest import ADMIN, Api

HEAD = b"Host: x\r\nAuthorization: Bearer secret\r\n"
PODS = b"/api/v1/namespaces/demo/pods"
MIB = 1024 * 1024
PATIENCE = 10.0


@pytest.fixture
async def port(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """As the hub serves it, which the test client does not."""
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 0.1)
    async with serve(create_app(api.objects, StaticTokens({"secret": ADMIN}))) as number:
        yield number


def get(path: bytes, *headers: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nConnection: close\r\n" + HEAD + _lines(headers) + b"\r\n"


def post(body: bytes, *headers: bytes, path: bytes = PODS) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\nConnection: close\r\n" + HEAD + _lines((*headers, length)) + b"\r\n" + body


def chunked(body: bytes, *headers: bytes) -> bytes:
    lines = _lines((*headers, b"Transfer-Encoding: chunked"))
    return b"POST " + PODS + b" HTTP/1.1\r\nConnection: close\r\n" + HEAD + lines + b"\r\n" + body


def _lines(headers: tuple[bytes, ...]) -> bytes:
    return b"".join(header + b"\r\n" for header in headers)


async def answer(port: int, sent: bytes, *, half_closed: bool = False) -> bytes:
    """All that comes until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if half_closed:
            writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            try:
                return await reader.read()
            except ConnectionError:
                return b""
    finally:
        writer.close()


REQUESTS = [
    get(b"//["),
    get(b"http://[::1"),
    get(b"/%zz"),
    get(b"/api/v1/%ff"),
    get(b"api/v1/pods"),
    get(b"?a"),
    get(b"/" + b"a" * 70_000),
    get(PODS + b"/\xff\xfe"),
    get(PODS + b"/a%00b"),
    get(PODS + b"/%ed%a0%80"),
    get(PODS + b"?labelSelector=%ed%a0%80"),
    get(PODS + b"?labelSelector=\xff"),
    get(PODS, b"Accept: \xff\xfe"),
    get(PODS, b"Accept: ,;,;="),
    get(PODS, b"X: " + b"a" * 70_000),
    get(PODS, *(b"X%d: a" % number for number in range(5000))),
    get(PODS, b": a"),
    get(PODS, b"X\x00: a"),
    get(PODS, b"X: a\x00b"),
    get(PODS, b" folded"),
    get(b"/").replace(b"1.1", b"9.9"),
    b"GET /api HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET /api HTTP/1.1\r\nConnection: close\r\nHost: [\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n",
    b"TRACE /api HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n",
    b"NONSENSE /api HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 100,
    post(b"{}", b"Content-Length: 5"),
    post(b"{}", b"Transfer-Encoding: chunked"),
    post(b"{}").replace(b"Length: 2", b"Length: -1"),
    post(b"{}").replace(b"Length: 2", b"Length: 99999999999999999999"),
    post(b"{}").replace(b"Length: 2", b"Length: 99999999"),
    post(b"{}", b"Expect: nonsense"),
    post(b"{}", b"Upgrade: websocket", b"Connection: Upgrade"),
    post(b"{}", b"Content-Type: \xff"),
    post(b"{}", b"Content-Type: multipart/form-data"),
    post(b"{}", b"User-Agent: \xff\xfe/1"),
    post(b"{}", path=PODS + b"?fieldManager=%ff%00%0a"),
    post(b"{}", path=PODS + b"?dryRun=%ed%a0%80"),
    chunked(b"fffffffffffffffff\r\n"),
    chunked(b"zz\r\n"),
    chunked(b"2;" + b"x" * 70_000 + b"\r\n{}\r\n0\r\n\r\n"),
    post(b"{}", b"Content-Encoding: gzip"),
    post(b"", b"Content-Encoding: gzip"),
    post(gzip.compress(b"{}")[:-5], b"Content-Encoding: gzip"),
    post(gzip.compress(b"{}") + b"rubbish", b"Content-Encoding: gzip"),
    post(b"{}", b"Content-Encoding: deflate"),
    post(b"{}", b"Content-Encoding: br"),
    post(b"{}", b"Content-Encoding: zstd"),
    post(b"{}", b"Content-Encoding: nonsense"),
]


async def test_nothing_of_it_is_the_servers_fault(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 1.0)  # for bodies that say more than they are
    answers = await asyncio.gather(*(answer(port, request) for request in REQUESTS))
    codes = {request: found.split(b" ", 2)[1] for request, found in zip(REQUESTS, answers, strict=True) if found}
    assert {request: code for request, code in codes.items() if not code.startswith(b"4")} == {}
    assert len(codes) > len(REQUESTS) - 5, "closed without a word"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], "the log is filled"


async def test_bombs_are_not_unpacked_beyond_the_limit(port: int) -> None:
    """100 MB of zeros in 100 kB, ten times at once."""
    bombs = [
        post(gzip.compress(bytes(100 * MIB)), b"Content-Encoding: gzip"),
        post(zlib.compress(bytes(100 * MIB)), b"Content-Encoding: deflate"),
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for found in await asyncio.gather(*(answer(port, bomb) for bomb in bombs * 5)):
        assert found.startswith(b"HTTP/1.1 413 "), found[:200]
        assert b"Request entity too large: limit is 3145728" in found
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - before < 200


async def test_bodies_at_once_are_bounded(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever announces more than there is room for is told to come again; the others are served."""
    monkeypatch.setattr(bounds, "MAX_BODIES", 3 * MIB)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post(b"").replace(b"Length: 0", b"Length: 3000000") + b"{")
    await writer.drain()
    async with asyncio.timeout(PATIENCE):
        while not (found := await answer(port, post(b"{}" + b" " * MIB))).startswith(b"HTTP/1.1 429 "):
            assert found.startswith(b"HTTP/1.1 422 "), found
    assert b"Retry-After: 1" in found
    assert b"Too many requests, please try again later." in found
    assert (await answer(port, get(PODS))).startswith(b"HTTP/1.1 200 ")
    writer.close()
    async with asyncio.timeout(PATIENCE):
        while (await answer(port, post(b"{}" + b" " * MIB))).startswith(b"HTTP/1.1 429 "):
            pass
    reader.feed_eof()


async def test_a_body_that_trickles_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.2)
    found = await answer(port, post(b"").replace(b"Length: 0", b"Length: 3000") + b"{")
    assert found.startswith(b"HTTP/1.1 504 ")
    assert b"Timeout: request did not complete within requested timeout" in found


async def test_headers_that_trickle_are_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IDLE_SECONDS", 0.2)
    async with serve(create_app(api.objects, StaticTokens({"secret": ADMIN}))) as port:
        assert await answer(port, b"GET /api HTTP/1.1\r\nHost: x\r\nX: ") == b""
        assert await answer(port, b"") == b""
        assert await answer(port, b"\r\n\r\n\r\n") == b""


async def test_an_answer_that_nobody_takes_is_not_kept(api: Api, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.3)
    body = b'{"metadata":{"name":"cm%d"},"data":{"a":"' + b"x" * 1_000_000 + b'"}}'
    for number in range(10):
        await api.call("POST", "/api/v1/namespaces/demo/configmaps", body % number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    writer.write(get(b"/api/v1/namespaces/demo/configmaps"))
    cut = False
    async with asyncio.timeout(PATIENCE):
        while not cut:
            await asyncio.sleep(0.05)
            writer.write(b"\r\n")
            try:
                await writer.drain()
            except ConnectionError:
                cut = True
    writer.close()
    reader.feed_eof()


async def test_pipelined_and_half_closed_requests_end(port: int) -> None:
    last = get(PODS)
    found = await answer(port, last.replace(b"Connection: close\r\n", b"") * 50 + last)
    assert found.count(b"HTTP/1.1 200 OK") == 51
    await answer(port, get(PODS + b"?watch=1"), half_closed=True)
    await answer(port, post(b"").replace(b"Length: 0", b"Length: 3000") + b"{", half_closed=True)
    assert (await answer(port, last)).startswith(b"HTTP/1.1 200 ")


async def test_a_flood_of_pipelined_requests_behind_a_watch_is_not_kept(port: int) -> None:
    """The connection stops reading: the sender waits, not the server's memory."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(get(PODS + b"?watch=1").replace(b"Connection: close\r\n", b""))
    sent, version = 0, get(b"/version").replace(b"Connection: close\r\n", b"")
    try:
        async with asyncio.timeout(2):
            while sent < 64 * MIB:
                writer.write(version * 1000)
                await writer.drain()
                sent += 80_000
    except TimeoutError:
        pass
    assert sent < 32 * MIB
    writer.close()
    assert (await answer(port, get(PODS))).startswith(b"HTTP/1.1 200 ")


async def test_many_connections_and_watches_at_once(port: int) -> None:
    watches = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _, writer in watches:
        writer.write(get(PODS + b"?watch=1&resourceVersion=0"))
    for reader, _ in watches:
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    assert (await answer(port, get(PODS))).startswith(b"HTTP/1.1 200 ")
    for _, writer in watches:
        writer.close()
