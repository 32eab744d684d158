"""The lab's own instruments, on the real things: packets that vanish, a broker that dies and keeps nodes apart."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edgelab import faults
from edgelab.broker import BrokerConfig, broker_spec, free_port, listening
from edgelab.faults import NftLink, severed
from edgelab.process import Child

ADDRESS = "127.0.1.9"
NOT_AUTHORISED = 0x87
"""MQTT 5, section 3.4.2.1."""

needs_nft = pytest.mark.skipif(not faults.can_cut(), reason="dropping packets needs root and nftables")


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def heard(reader: asyncio.StreamReader, seconds: float) -> bytes | None:
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(100)
    except TimeoutError:
        return None


@needs_nft
async def test_dropped_packets_silence_one_node_only_and_nobody_is_told() -> None:
    table = faults.table_name(os.getpid())
    async with echo() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
        link = NftLink(table, ADDRESS, port)
        try:
            async with severed(link):
                await link.cut()  # twice is once
                writer.write(b"lost?")
                other_writer.write(b"other")
                assert await heard(other_reader, 5) == b"other"
                assert await heard(reader, 0.3) is None
                with socket.socket() as fresh:
                    fresh.settimeout(0.3)
                    fresh.bind((ADDRESS, 0))
                    with pytest.raises(TimeoutError):
                        fresh.connect(("127.0.0.1", port))
            assert await heard(reader, 10) == b"lost?", "TCP sends again what was dropped"
            await link.restore()  # twice is once
        finally:
            await faults.remove_table(table)
            writer.close()
            other_writer.close()
            await asyncio.gather(writer.wait_closed(), other_writer.wait_closed())


@needs_nft
async def test_what_a_dead_lab_left_cut_is_removed_and_a_living_labs_is_not() -> None:
    dead = await asyncio.create_subprocess_exec("true")
    await dead.wait()
    dead_table, own_table = faults.table_name(dead.pid), faults.table_name(os.getpid())
    try:
        await NftLink(dead_table, ADDRESS, 1).cut()
        await NftLink(own_table, ADDRESS, 1).cut()
        removed = await faults.clean_leftovers()
        assert dead_table in removed
        assert own_table not in removed
    finally:
        await faults.remove_table(own_table)
        await faults.remove_table(dead_table)


@asynccontextmanager
async def broker(tmp_path: Path) -> AsyncIterator[tuple[Child, int]]:
    config = BrokerConfig(tmp_path / "broker", free_port(), "lab", {"hub": "h", "node-1": "1", "node-2": "2"})
    spec = broker_spec(config, tmp_path / "broker.log", tmp_path / "broker.pid")
    async with Child(spec, lambda _: None, supervise=False) as child:
        yield child, config.port


def publish(port: int, user: str, password: str, topic: str) -> int:
    """The reason code of the broker's acknowledgement, or of its refusal to let the user in at all."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.username_pw_set(user, password)
    codes: list[int] = []
    client.on_connect = lambda _c, _u, _f, code, _p: codes.append(code.value) if code.is_failure else None
    client.on_publish = lambda _c, _u, _m, code, _p: codes.append(code.value)
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        message = client.publish(topic, b"{}", qos=1)
        while not codes:
            message.wait_for_publish(0.1)
    finally:
        client.disconnect()
        client.loop_stop()
    return codes[0]


async def test_s83_a_node_may_publish_on_its_own_topics_only(tmp_path: Path) -> None:
    """S-83: another node's topics, the hub's direction and another name are refused by the broker."""
    async with broker(tmp_path) as (_, port):

        async def code(user: str, password: str, topic: str) -> int:
            return await asyncio.to_thread(publish, port, user, password, topic)

        assert await code("node-1", "1", "copepod/lab/node-1/up") < 0x80
        assert await code("node-1", "1", "copepod/lab/node-2/up") == NOT_AUTHORISED
        assert await code("node-1", "1", "copepod/lab/node-1/down") == NOT_AUTHORISED
        assert await code("hub", "h", "copepod/lab/node-2/down") < 0x80


async def test_a_killed_broker_comes_back_on_its_port(tmp_path: Path) -> None:
    async with broker(tmp_path) as (child, port):
        await child.kill()
        assert not listening(port)
        await child.start()
        assert listening(port)
