"""The proxy that makes a link bad: silent, one-way, slow, late, broken, half open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from edgelab.faults import severed
from edgelab.proxy import Flow, ProxyLink


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def said_back(reader: asyncio.StreamReader, seconds: float) -> bytes | None:
    """None when nothing came: neither data nor the end of the connection."""
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(100)
    except TimeoutError:
        return None


async def test_a_cut_proxy_is_silent_without_closing_and_delivers_afterwards() -> None:
    async with echo() as target, ProxyLink(target) as link, connected(link.port) as (reader, writer):
        writer.write(b"one")
        assert await said_back(reader, 5) == b"one"
        async with severed(link):
            writer.write(b"two")
            assert await said_back(reader, 0.2) is None
        assert await said_back(reader, 5) == b"two"


async def test_a_connection_made_while_the_link_is_cut_is_accepted_and_silent() -> None:
    async with echo() as target, ProxyLink(target) as link:
        await link.cut()
        async with connected(link.port) as (reader, writer):
            writer.write(b"hello")
            assert await said_back(reader, 0.2) is None
            await link.restore()
            assert await said_back(reader, 5) == b"hello"


async def test_a_target_that_is_down_ends_the_connection() -> None:
    async with echo() as target:
        pass
    async with ProxyLink(target) as link, connected(link.port) as (reader, _):
        assert await said_back(reader, 5) == b""


async def test_one_direction_may_be_silent_alone() -> None:
    """What goes up arrives, and its answer does not."""
    async with echo() as target, ProxyLink(target) as link, connected(link.port) as (reader, writer):
        writer.write(b"one")
        assert await said_back(reader, 5) == b"one"
        await link.shape(Flow(down=False))
        up = link.bytes_up
        writer.write(b"two")
        assert await said_back(reader, 0.2) is None
        assert link.bytes_up == up + 3
        await link.restore()
        assert await said_back(reader, 5) == b"two"


async def test_a_late_link_keeps_each_connections_order() -> None:
    loop = asyncio.get_running_loop()
    async with echo() as target, ProxyLink(target) as link, connected(link.port) as (reader, writer):
        await link.shape(Flow(delay=0.05, jitter=0.05))
        began, text = loop.time(), b"".join(bytes((c,)) for c in range(65, 91))
        for at in range(0, 26, 2):
            writer.write(text[at : at + 2])
            await asyncio.sleep(0.002)
        seen = b""
        while len(seen) < 26:
            seen += await said_back(reader, 5) or b"timed out"
        assert seen == text
        assert loop.time() - began >= 0.1, "both ways are late"


async def test_a_thin_link_carries_no_more_than_it_may() -> None:
    loop = asyncio.get_running_loop()
    async with echo() as target, ProxyLink(target) as link, connected(link.port) as (reader, writer):
        await link.shape(Flow(bytes_per_second=20_000))
        began = loop.time()
        writer.write(b"x" * 6000)
        seen = 0
        while seen < 6000:
            seen += len(await said_back(reader, 5) or b"timed out")
        assert loop.time() - began >= 0.25


async def test_a_reset_breaks_connections_at_once_and_new_ones_are_made() -> None:
    async with echo() as target, ProxyLink(target) as link, connected(link.port) as (reader, writer):
        writer.write(b"one")
        assert await said_back(reader, 5) == b"one"
        await link.reset()
        with pytest.raises(ConnectionResetError):
            await said_back(reader, 5)
        async with connected(link.port) as (again, other):
            other.write(b"two")
            assert await said_back(again, 5) == b"two"


async def test_half_open_the_near_end_is_broken_and_the_target_does_not_know() -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(100):
                writer.write(data)
        ended.set()
        writer.close()

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
        ProxyLink(server.sockets[0].getsockname()[1]) as link,
        connected(link.port) as (reader, writer),
    ):
        writer.write(b"one")
        assert await said_back(reader, 5) == b"one"
        await link.half_open()
        with pytest.raises(ConnectionResetError):
            await said_back(reader, 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ended.wait()
        await link.restore()
        async with asyncio.timeout(5):
            await ended.wait()
