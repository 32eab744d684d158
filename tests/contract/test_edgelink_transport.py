"""One contract, each transport: in memory, and paho with a real mosquitto over MQTT 3.1.1 and 5."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from edgelab.proxy import Flow, ProxyLink
from edgelink.memory import MemoryBroker, MemoryTransport
from edgelink.mqtt import MqttOptions, MqttTransport, TlsOptions
from edgelink.pacing import Timing
from edgelink.runner import HubLink, NodeLink
from edgelink.topics import hub_subscriptions, node_subscriptions
from edgelink.transport import Down, Incoming, Publication, Signal, Transport, Up, WillFactory
from tests.support.edgelinks import MemoryHub, MemoryNode
from tests.support.mosquitto import BINARY, Mosquitto, running_mosquitto

QUICK = Timing(first=0.05, most=0.2)
WILL = Publication("copepod/c/node-a/lease", b"will")


class Harness(Protocol):
    def transport(self, client: str, password: str = "secret") -> Transport: ...

    def restart(self) -> None: ...

    def abort(self, client: str) -> None:
        """Break the client's connection without a goodbye."""


class MemoryHarness:
    def __init__(self) -> None:
        self.broker = MemoryBroker(random.Random(1))

    def transport(self, client: str, password: str = "secret") -> Transport:
        if password != "secret":
            self.broker.refused.add(client)
        return MemoryTransport(self.broker, client, random.Random(1), QUICK)

    def restart(self) -> None:
        self.broker.stop()
        self.broker.start()

    def abort(self, client: str) -> None:
        self.broker.abort(client)


class MqttHarness:
    def __init__(self, broker: Mosquitto, version: int) -> None:
        self.broker, self.version = broker, version
        self.made: dict[str, MqttTransport] = {}

    def transport(self, client: str, password: str = "secret") -> Transport:
        options = MqttOptions(
            "127.0.0.1", self.broker.port, client_id=client, username=client, password=password,
            version=self.version, timing=QUICK, bind_address="127.0.0.2",
        )  # fmt: skip
        self.made[client] = MqttTransport(options, random.Random(1))
        return self.made[client]

    def restart(self) -> None:
        self.broker.kill()
        self.broker.start()

    def abort(self, client: str) -> None:
        connection = self.made[client]._connection
        assert connection is not None
        sock = connection._client.socket()
        assert sock is not None
        sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    if BINARY is None:
        pytest.skip("mosquitto is not installed")
    directory: Path = tmp_path_factory.mktemp("mosquitto")
    with running_mosquitto(directory, ("hub", "node-a", "node-b")) as broker:
        yield broker


@pytest.fixture(params=["memory", "mqtt4", "mqtt5"])
def harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "memory":
        return MemoryHarness()
    broker: Mosquitto = request.getfixturevalue("mosquitto")
    return MqttHarness(broker, int(request.param[-1]))


@dataclass
class Client:
    transport: Transport
    seen: list[Signal] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[list[Signal]], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition(self.seen):
                self.changed.clear()
                await self.changed.wait()

    async def collect(self) -> None:
        while True:
            self.seen.append(await self.transport.receive())
            self.changed.set()

    @property
    def messages(self) -> list[tuple[str, bytes]]:
        return [(s.topic, s.payload) for s in self.seen if isinstance(s, Incoming)]


@contextlib.asynccontextmanager
async def running(
    transport: Transport, subscriptions: tuple[str, ...], will: WillFactory = lambda: None
) -> AsyncIterator[Client]:
    client = Client(transport)
    tasks = [asyncio.create_task(transport.run(subscriptions, will)), asyncio.create_task(client.collect())]
    try:
        yield client
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def ups(seen: list[Signal]) -> int:
    return sum(isinstance(s, Up) for s in seen)


@contextlib.asynccontextmanager
async def pair(harness: Harness, will: WillFactory = lambda: None) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        running(harness.transport("hub"), hub_subscriptions("c")) as hub,
        running(harness.transport("node-a"), node_subscriptions("c", "node-a"), will) as node,
    ):
        await hub.until(ups)
        await node.until(ups)
        yield hub, node


async def test_messages_pass_in_order_and_only_where_subscribed(harness: Harness) -> None:
    async with pair(harness) as (hub, node):
        for i in range(50):
            await node.transport.publish("copepod/c/node-a/up", b"%d" % i, 1)
        await hub.transport.publish("copepod/c/node-b/down", b"not yours", 1)
        await hub.transport.publish("copepod/c/node-a/stream/s1/down", b"yours", 1)
        await hub.until(lambda _: len(hub.messages) >= 50)
        await node.until(lambda _: len(node.messages) >= 1)
        assert sorted(hub.messages) == sorted(("copepod/c/node-a/up", b"%d" % i) for i in range(50))
        assert node.messages == [("copepod/c/node-a/stream/s1/down", b"yours")]


async def test_s25_a_full_payload_passes(harness: Harness) -> None:
    """S-25"""
    payload = random.Random(1).randbytes(256 * 1024)
    async with pair(harness) as (hub, node):
        for _ in range(4):  # more than may be in flight at once
            await hub.transport.publish("copepod/c/node-a/down", payload, 1)
        await node.until(lambda _: len(node.messages) == 4)
        assert {p for _, p in node.messages} == {payload}


async def test_s21_the_broker_restarts_and_forgets(harness: Harness) -> None:
    """S-21: both sides notice, reconnect and are subscribed again."""
    async with pair(harness) as (hub, node):
        harness.restart()
        await hub.until(lambda seen: ups(seen) == 2)
        await node.until(lambda seen: ups(seen) == 2)
        assert any(isinstance(s, Down) and s.reason for s in node.seen)
        await node.transport.publish("copepod/c/node-a/up", b"again", 1)
        await hub.until(lambda _: ("copepod/c/node-a/up", b"again") in hub.messages)


async def test_last_will_is_sent_on_a_break_and_not_on_a_goodbye(harness: Harness) -> None:
    async with pair(harness, lambda: WILL) as (hub, node):
        harness.abort("node-a")
        await hub.until(lambda _: (WILL.topic, WILL.payload) in hub.messages)
        await node.until(lambda seen: ups(seen) == 2)
    async with running(harness.transport("hub"), hub_subscriptions("c")) as hub:
        await hub.until(ups)
        async with running(harness.transport("node-a"), (), lambda: WILL) as node:
            await node.until(ups)
        async with running(harness.transport("node-a"), ()) as node:
            await node.until(ups)
            await node.transport.publish("copepod/c/node-a/up", b"after", 1)
            await hub.until(lambda _: hub.messages != [])
        assert hub.messages == [("copepod/c/node-a/up", b"after")]


async def test_a_refused_connection_says_why_and_is_tried_again(harness: Harness) -> None:
    async with running(harness.transport("node-a", "wrong"), ()) as node:
        await node.until(lambda seen: len(seen) >= 3)
        assert all(isinstance(s, Down) and "not authori" in s.reason.lower() for s in node.seen)


async def test_publishing_without_a_connection_neither_waits_nor_fails(harness: Harness) -> None:
    transport = harness.transport("node-b")
    await transport.publish("copepod/c/node-b/up", b"lost", 1)


async def test_s24_reconnects_leave_nothing_behind(harness: Harness) -> None:
    """S-24 (short): threads and tasks after many connections are those before."""
    async with pair(harness):
        pass
    await asyncio.to_thread(lambda: None)
    tasks, threads = len(asyncio.all_tasks()), _network_threads()
    for _ in range(5):
        async with pair(harness):
            harness.abort("node-a")
    assert len(asyncio.all_tasks()) == tasks
    assert _network_threads() == threads


def _network_threads() -> int:
    return sum("paho" in t.name for t in threading.enumerate())


async def test_an_unreachable_broker_is_named(harness: Harness) -> None:
    if isinstance(harness, MemoryHarness):
        harness.broker.stop()
        transport = harness.transport("node-a")
    else:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        transport = MqttTransport(MqttOptions("127.0.0.1", port, timing=QUICK), random.Random(1))
    async with running(transport, ()) as node:
        await node.until(lambda seen: len(seen) >= 2)
        assert all(isinstance(s, Down) and "cannot connect" in s.reason for s in node.seen)


async def test_s83_a_node_cannot_speak_as_another(mosquitto: Mosquitto) -> None:
    """S-83: the broker's ACL, as shipped."""
    harness = MqttHarness(mosquitto, 5)
    async with pair(harness) as (hub, node):
        await node.transport.publish("copepod/c/node-b/up", b"forged", 1)
        await node.transport.publish("copepod/c/node-a/up", b"honest", 1)
        await hub.until(lambda _: hub.messages != [])
        assert hub.messages == [("copepod/c/node-a/up", b"honest")]


async def test_cancelling_at_any_moment_ends_a_transport(harness: Harness) -> None:
    """While connecting, connected, closing a broken connection, backing off."""
    for steps in range(0, 24, 2):
        transport = harness.transport("node-a")
        task = asyncio.create_task(transport.run((), lambda: None))
        for _ in range(steps):
            await asyncio.sleep(0.001)
        if steps > 12 and isinstance(await asyncio.wait_for(transport.receive(), 60), Up):
            harness.abort("node-a")
            await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


async def test_s24_what_has_ended_holds_no_file(harness: Harness) -> None:
    """S-24: without waiting for the collector; also where nobody listens."""

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    async with running(harness.transport("node-a"), ()) as client:  # what is opened once for all
        await client.until(lambda seen: ups(seen) == 1)
    gc.disable()
    try:
        before = files()
        for _ in range(3):
            async with running(harness.transport("node-a"), ()) as client:
                await client.until(lambda seen: ups(seen) == 1)
            options = MqttOptions("127.0.0.1", 1, timing=QUICK)
            async with running(MqttTransport(options, random.Random(1)), ()) as client:
                await client.until(lambda seen: any(isinstance(signal, Down) for signal in seen))
        assert files() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("version", [4, 5])
async def test_hub_and_node_agree_over_a_real_broker(mosquitto: Mosquitto, version: int) -> None:
    """Both shells over mosquitto, with a broker kill in between; the rest of their stories is told in memory."""
    harness = MqttHarness(mosquitto, version)
    hub, node, chance = MemoryHub(), MemoryNode(), random.Random(1)
    hub_link = HubLink(harness.transport("hub"), hub, "c", chance=chance, timing=QUICK)
    node_link = NodeLink(harness.transport("node-a"), node, cluster="c", node="node-a", chance=chance, timing=QUICK)
    tasks = [asyncio.create_task(hub_link.run()), asyncio.create_task(node_link.run())]

    async def agreed() -> None:
        async with asyncio.timeout(60):
            while hub.views.get("node-a") != node.items or node.queue:  # noqa: ASYNC110 (two plain stores)
                await asyncio.sleep(0.01)

    try:
        hub.put("node-a", "big", b'"%s"' % random.Random(2).randbytes(200_000).hex().encode())
        hub_link.view_changed("node-a")
        await agreed()
        harness.restart()
        hub.put("node-a", "web")
        hub_link.view_changed("node-a")
        node.enqueue("level", "pods/u1", b"1")
        node_link.wake()
        await agreed()
        assert hub.levels == {"node-a:pods/u1": b"1"}
        assert max(node.changed.values()) == 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("version", [4, 5])
async def test_s23_no_more_than_the_cap_is_in_flight_so_a_lease_overtakes_bulk(
    mosquitto: Mosquitto, version: int
) -> None:
    """S-23, on a real broker behind a link that is silent for a while, then thin: whoever publishes bulk waits."""
    payload, count, cap = b"x" * 16_000, 30, 64_000
    async with ProxyLink(mosquitto.port) as link:
        options = MqttOptions(
            "127.0.0.1", link.port, client_id="node-a", username="node-a", password="secret",
            version=version, timing=QUICK, in_flight=cap,
        )  # fmt: skip
        node_side = MqttTransport(options, random.Random(1))
        async with (
            running(MqttHarness(mosquitto, version).transport("hub"), hub_subscriptions("c")) as hub,
            running(node_side, node_subscriptions("c", "node-a")) as node,
        ):
            await hub.until(ups)
            await node.until(ups)
            await link.cut()
            handed = 0

            async def bulk() -> None:
                nonlocal handed
                for _ in range(count):
                    await node_side.publish("copepod/c/node-a/up", payload, 1)
                    handed += 1

            publishing = asyncio.create_task(bulk())
            async with asyncio.timeout(60):
                while handed < cap // len(payload):  # noqa: ASYNC110 (a plain counter)
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert handed == cap // len(payload), "the cap holds: the fifth waits"
            await node_side.publish("copepod/c/node-a/lease", b"alive", 0)
            await link.shape(Flow(bytes_per_second=400_000))
            await publishing
            await hub.until(lambda seen: len([s for s in seen if isinstance(s, Incoming)]) == count + 1)
            order = [topic.rpartition("/")[2] for topic, _ in hub.messages]
            assert order.index("lease") <= cap // len(payload)


async def test_settings_that_do_not_work_are_a_lost_connection_not_the_end(tmp_path: Path) -> None:
    """A host that is no name, certificates that are not there just now: said, and tried again."""
    for options in (
        MqttOptions("a..b", timing=QUICK),
        MqttOptions("127.0.0.1", 1, tls=TlsOptions(str(tmp_path / "none")), timing=QUICK),
    ):
        transport = MqttTransport(options, random.Random(1))
        running = asyncio.create_task(transport.run((), lambda: None))
        for _ in range(2):
            signal = await asyncio.wait_for(transport.receive(), 60)
            assert isinstance(signal, Down)
            assert signal.reason.startswith(f"cannot connect to {options.host}:{options.port}: ")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
