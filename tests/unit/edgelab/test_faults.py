"""Link faults: scripts for nft, and the proxy that falls silent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from edgelab import faults
from edgelab.faults import FaultError, NftLink, ProxyLink, severed


def test_each_node_has_a_loopback_address_of_its_own() -> None:
    addresses = [faults.node_address(index) for index in range(10_000)]
    assert addresses[0] == "127.0.1.1"
    assert len(set(addresses)) == len(addresses)
    assert not any(address.endswith((".0", ".255")) for address in addresses)
    with pytest.raises(ValueError):
        faults.node_address(-1)


def test_both_directions_are_dropped_and_only_for_that_address_and_port() -> None:
    script = faults.cut_script("copepod_lab_7", "127.0.1.3", 1884)
    assert "ip saddr . tcp dport @cut counter drop" in script
    assert "ip daddr . tcp sport @cut counter drop" in script
    assert script.endswith("add element inet copepod_lab_7 cut { 127.0.1.3 . 1884 }\n")


def test_only_tables_of_dead_labs_are_left_over() -> None:
    ruleset = "table inet copepod_lab_7\ntable inet copepod_lab_8\ntable inet firewall\ntable ip copepod_lab_9\n"
    assert faults.leftovers(ruleset, frozenset({8})) == ["copepod_lab_7"]


async def test_without_root_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(FaultError, match="needs root"):
        await NftLink("copepod_lab_0", "127.0.1.1", 1883).cut()


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
