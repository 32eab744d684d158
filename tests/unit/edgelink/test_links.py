"""The real shells over the transport in memory, on a virtual clock: whole stories, each a scenario."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from itertools import count, pairwise
from typing import Any

import pytest

from edgelink import messages as m
from edgelink.api import NodeOffline, StreamRefused, StreamRequest
from edgelink.memory import Faults, MemoryBroker, MemoryTransport
from edgelink.runner import HubLink, NodeLink
from edgelink.transport import Publication
from edgelink.wire import decode
from tests.support.edgelinks import MemoryHub, MemoryNode, StoreDown
from tests.support.virtualtime import run_virtual, until

LOGS = StreamRequest("logs", "u1", "main")


class Rig:
    """A hub and nodes; `wire` has every published message that is one payload."""

    def __init__(self) -> None:
        self.chance = random.Random(1)
        self.broker = MemoryBroker(self.chance)
        self.broker.observe = self._observe
        self.wire: list[tuple[float, m.Message]] = []
        self.sizes: list[int] = []
        self.names = count(1)
        self.hub = MemoryHub()
        self.nodes: dict[str, MemoryNode] = {}
        self.links: dict[str, NodeLink] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def _observe(self, message: Publication) -> None:
        self.sizes.append(len(message.payload))
        self.wire.append((asyncio.get_running_loop().time(), decode(message.payload)))

    def start_hub(self) -> None:
        transport = MemoryTransport(self.broker, "hub", self.chance)
        self.link = HubLink(
            transport,
            self.hub,
            "c",
            chance=self.chance,
            new_token=lambda: f"h{next(self.names)}",
            setbacks=(StoreDown,),
        )
        self.tasks["hub"] = asyncio.create_task(self.link.run())

    def start_node(self, name: str, store: MemoryNode | None = None) -> MemoryNode:
        node = self.nodes[name] = store or self.nodes.get(name) or MemoryNode(store_id=f"store-{name}")
        transport = MemoryTransport(self.broker, name, self.chance)
        link = self.links[name] = NodeLink(
            transport,
            node,
            cluster="c",
            node=name,
            chance=self.chance,
            new_token=lambda: f"n{next(self.names)}",
            setbacks=(StoreDown,),
        )
        self.tasks[name] = asyncio.create_task(link.run())
        return node

    async def stop(self, *names: str) -> None:
        for name in names or tuple(self.tasks):
            task = self.tasks.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def in_step(self, name: str = "a") -> bool:
        node = self.nodes[name]
        return node.items == self.hub.views.get(name, {}) and not node.queue and node.cursor is not None

    def wish(self, name: str, pod: str, value: bytes = b"{}") -> None:
        self.hub.put(name, pod, value)
        self.link.view_changed(name)


def story(main: Coroutine[Any, Any, None]) -> None:
    run_virtual(main)


def test_s05_five_resizes_while_offline_arrive_as_one() -> None:
    """S-05: the superseded ones are never put on the wire after the cut, let alone applied."""

    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        node = rig.start_node("a")
        rig.wish("a", "web")
        await until(rig.in_step)
        rig.broker.cut("a")
        await asyncio.sleep(300)
        for size in range(5):
            rig.wish("a", "web", b'{"cpu":%d}' % size)
        await asyncio.sleep(300)
        healed = asyncio.get_running_loop().time()
        rig.broker.heal("a")
        await until(rig.in_step)
        [item] = node.items.values()
        assert item.value == b'{"cpu":4}'
        assert len(node.order[item.uid]) == 2, "the first wish and the newest"
        puts = {i.value for at, d in rig.wire if at >= healed and isinstance(d, m.Delta) for i in d.put}
        assert puts == {b'{"cpu":4}'}
        await rig.stop()

    story(main())


def test_s25_large_objects_and_snapshots_stay_under_the_limit() -> None:
    """S-25: a view of megabytes, with single objects above the limit, arrives whole in small payloads."""

    async def main() -> None:
        rig = Rig()
        for i in range(5):
            rig.hub.put("a", f"big-{i}", b'"%s"' % rig.chance.randbytes(400_000).hex().encode())
        rig.start_hub()
        rig.start_node("a")
        await until(rig.in_step)
        assert max(rig.sizes) <= 32 * 1024
        await rig.stop()

    story(main())


def test_s25_a_view_that_nothing_could_carry_is_said_and_one_that_fits_again_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S-25: never a silent drop; leases go on meanwhile."""

    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        rig.start_node("a")
        await until(lambda: rig.in_step())
        for n in range(9):
            rig.wish("a", f"pod-{n}", b'"' + b"x" * 2_000_000 + b'"')
        await until(lambda: "node a cannot be told what is wished of it: oversized" in caplog.text)
        session = rig.links["a"]._session.token
        await asyncio.sleep(120)
        assert rig.links["a"]._session.token == session
        for n in range(9):
            rig.hub.delete("a", f"pod-{n}")
        rig.wish("a", "small")
        await until(lambda: rig.in_step(), 200)
        await rig.stop()

    story(main())


@pytest.mark.parametrize("other", ["restored", "empty", "another"])
def test_s86_no_hub_without_our_history_deletes_anything(other: str) -> None:
    """S-86: restored from an old backup, come up empty, or another hub: what it does not name runs on, Unclaimed."""

    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        node = rig.start_node("a")
        rig.wish("a", "old")
        await until(rig.in_step)
        backup = rig.hub.backup()
        rig.wish("a", "new")
        node.enqueue("level", "pods/u1", b'"Running"')
        rig.links["a"].wake()
        await until(rig.in_step)
        new = node.items[next(k for k in node.items if k.name == "new")]
        await rig.stop("hub")
        rig.hub = backup if other == "restored" else MemoryHub("hub-1" if other == "empty" else "hub-2")
        rig.start_hub()
        await until(lambda: new.key in node.unclaimed)
        assert not node.torn
        await until(lambda: rig.hub.levels == {"a:pods/u1": b'"Running"'})  # it is told again
        rig.hub.revision = 100
        rig.hub.views["a"] = {**rig.hub.views.get("a", {}), new.key: new}
        rig.hub._commit()
        rig.link.view_changed("a")
        await until(lambda: new.key in node.items)
        assert node.started[new.uid] == 1, "claimed again by UID, not started anew"
        await rig.stop()

    story(main())


def test_s88_a_restored_node_store_loses_nothing() -> None:
    """S-88: its new entries bear numbers that the hub already holds."""

    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        node = rig.start_node("a")
        rig.hub.put("a", "web")
        await until(rig.in_step)
        copy = MemoryNode(node.store_id, "boot-2", node.cursor, dict(node.items), high=node.high)
        for i in range(8):
            node.enqueue("log", "events", b'"old %d"' % i)
        rig.links["a"].wake()
        await until(rig.in_step)
        await rig.stop("a")
        copy.enqueue("level", "pods/u1", b'"Running"')
        rig.broker.cut("a")
        rig.start_node("a", copy)
        await asyncio.sleep(60)
        for i in range(20):
            copy.enqueue("log", "events", b'"new %d"' % i)
        rig.broker.heal("a")
        await until(rig.in_step)
        assert copy.identities == 1
        values = [v for _, v in rig.hub.log]
        assert values == [b'"old %d"' % i for i in range(8)] + [b'"new %d"' % i for i in range(20)]
        assert rig.hub.levels == {"a:pods/u1": b'"Running"'}
        await rig.stop()

    story(main())


def test_s23_a_burst_of_statuses_does_not_delay_leases() -> None:
    """S-23: 200 pods changed while offline; the hub's store is slow; no lease is late."""

    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        node = rig.start_node("a")
        await until(rig.in_step)
        store, pause = rig.hub.apply, 15.0

        async def slow(*args: Any) -> int:
            await asyncio.sleep(pause)
            return await store(*args)

        rig.hub.apply = slow  # type: ignore[method-assign]
        for i in range(200):
            node.enqueue("level", f"pods/{i}", b"1")
        rig.links["a"].wake()
        rig.hub.leases.clear()
        seen = [asyncio.get_running_loop().time()]
        rig.hub.lease = lambda lease: seen.append(asyncio.get_running_loop().time())  # type: ignore[method-assign]
        await until(rig.in_step)
        assert max(b - a for a, b in pairwise(seen)) < 11
        assert max(rig.hub.applied.values()) == 1
        assert rig.hub.links == [("a", True, "")], "no session was lost"
        await rig.stop()

    story(main())


def test_one_nodes_slow_store_does_not_hold_up_another() -> None:
    async def main() -> None:
        rig = Rig()
        view = rig.hub.view

        async def stuck(node: str) -> Any:
            if node == "a":
                await asyncio.Event().wait()
            return await view(node)

        rig.hub.view = stuck  # type: ignore[method-assign]
        rig.start_hub()
        rig.start_node("a")
        rig.start_node("b")
        rig.wish("b", "web")
        await until(lambda: rig.in_step("b"), 20)
        await rig.stop()

    story(main())


@pytest.mark.parametrize("side", ["hub", "node"])
def test_an_unavailable_store_is_retried_and_the_session_survives(side: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        node = rig.start_node("a")
        rig.wish("a", "web")
        await until(rig.in_step)
        backend = rig.hub if side == "hub" else node
        backend.failing = True
        rig.wish("a", "web", b"[1]")
        node.enqueue("log", "events", b"1")
        rig.links["a"].wake()
        await asyncio.sleep(200)
        assert node.links == [(True, "")]
        assert not rig.hub.log
        backend.failing = False
        await until(rig.in_step)
        assert node.links == [(True, "")], "never left"
        assert max(node.changed.values()) == 1
        await rig.stop()

    story(main())
    assert "failed; it will be tried again: the d" in caplog.text
    assert "Traceback" not in caplog.text, "what is foreseen is told in a line"


def test_a_refused_node_says_why_and_goes_on_asking() -> None:
    async def main() -> None:
        rig = Rig()
        rig.hub.refused["a"] = "node a was removed"
        rig.start_hub()
        node = rig.start_node("a")
        await until(lambda: bool(node.links))
        assert node.links[0] == (False, "the hub refused this node: node a was removed")
        rig.hub.refused.clear()
        await until(rig.in_step)
        await rig.stop()

    story(main())


def test_s26_hostile_payloads_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """S-26: counted, logged once per kind; the sessions go on."""

    async def main() -> None:
        rig = Rig()
        rig.broker.observe = lambda _: None
        rig.start_hub()
        node = rig.start_node("a")
        await until(rig.in_step)
        for topic in ("copepod/c/a/up", "copepod/c/a/down", "copepod/c/a/lease", "copepod/c/a/stream/x/up"):
            for payload in (b"\xff", b"{}", b"[" * 9999, b"x" * 300_000):
                rig.broker.publish(Publication(topic, payload))
        rig.wish("a", "web")
        await until(rig.in_step)
        assert rig.link.intake.rejected == {"malformed": 9, "oversized": 3}
        assert rig.links["a"].intake.rejected == {"malformed": 3, "oversized": 1}
        assert node.links == [(True, "")]
        await rig.stop()

    story(main())
    assert len(caplog.records) == 4


# --- streams ---


def test_a_stream_is_whole_and_never_ahead_of_its_reader() -> None:
    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        made = 0

        async def chunks(_: StreamRequest) -> AsyncIterator[bytes]:
            nonlocal made
            for i in range(100):
                made += 1
                yield b"%05d" % i * 2000

        node.streams = chunks
        stream = await rig.link.open_stream("a", LOGS)
        await asyncio.sleep(60)
        assert made * 10_000 <= 64 * 1024 + 2 * 10_000, "credit holds the sender"
        got = b"".join([chunk async for chunk in stream])
        assert got == b"".join(b"%05d" % i * 2000 for i in range(100))
        await rig.stop()

    story(main())


def test_streams_are_refused_clearly() -> None:
    async def main() -> None:
        rig = Rig()
        rig.start_hub()
        with pytest.raises(NodeOffline, match="node b"):
            await rig.link.open_stream("b", LOGS)
        await _linked(rig)
        with pytest.raises(StreamRefused, match="no such pod"):
            await rig.link.open_stream("a", LOGS)
        rig.broker.cut("a")
        with pytest.raises(NodeOffline):
            await rig.link.open_stream("a", LOGS)
        await rig.stop()

    story(main())


def test_closing_a_stream_cancels_it_at_the_node_and_a_lost_session_ends_it() -> None:
    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        closed = asyncio.Event()

        async def follow(_: StreamRequest) -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"line\n"
                    await asyncio.sleep(1)
            finally:
                closed.set()

        node.streams = follow
        stream: Any = await rig.link.open_stream("a", LOGS)
        assert await anext(stream) == b"line\n"
        await stream.aclose()
        await until(closed.is_set, 5)
        closed.clear()
        stream = await rig.link.open_stream("a", LOGS)
        rig.broker.cut("a")
        with pytest.raises(NodeOffline):
            async for _ in stream:
                pass
        await until(closed.is_set)
        await rig.stop()

    story(main())


async def _linked(rig: Rig) -> MemoryNode:
    if "hub" not in rig.tasks:
        rig.start_hub()
    node = rig.start_node("a")
    await until(rig.in_step)
    return node


# --- conversations ---

EXEC = StreamRequest("exec", "u1", "main")


async def _echo(_: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in given:
        yield piece
    yield b"over"


def test_a_conversation_is_whole_in_both_directions_and_ends_where_the_hub_says() -> None:
    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        node.conversations = _echo
        stream = await rig.link.converse("a", EXEC)
        pieces = [b"%05d" % i * 3000 for i in range(100)]

        async def talk() -> None:
            for piece in pieces:
                await stream.write(piece)
            stream.end()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(talk())
            assert [piece async for piece in stream.read()] == [*pieces, b"over"]
        stream.close()
        await stream.write(b"to nobody")
        await rig.stop()

    story(main())


def test_a_node_that_does_not_listen_is_sent_no_more_than_it_granted_and_no_other_waits() -> None:
    """A slow reader at either end never hurts another."""

    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        heard = 0

        async def deaf(request: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            nonlocal heard
            if request.container == "deaf":
                async for piece in given:
                    heard += len(piece)
                    await asyncio.Event().wait()
            if request.container == "silent":  # as a node of before: it never wants anything
                await asyncio.Event().wait()
            async for piece in _echo(request, given):
                yield piece

        node.conversations = deaf
        written = 0

        async def talk(stream: Any) -> None:
            nonlocal written
            while True:
                await stream.write(b"x" * 8192)
                written += 8192

        stuck = [await rig.link.converse("a", StreamRequest("exec", "u1", name)) for name in ("deaf", "silent")]
        talking = [asyncio.create_task(talk(stream)) for stream in stuck]
        await asyncio.sleep(30)
        assert (heard, written) == (8192, 64 * 1024)
        other = await rig.link.converse("a", EXEC)
        await other.write(b"hello")
        other.end()
        assert [piece async for piece in other.read()] == [b"hello", b"over"]
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
        for stream in (*stuck, other):
            stream.close()
        await rig.stop()

    story(main())


@pytest.mark.parametrize("loss", ["cut", "node", "hub's broker"])
def test_a_conversation_whose_link_is_lost_ends_at_both_ends(loss: str) -> None:
    """Whoever waits to write or to read is told; what the node ran for it is ended."""

    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        ended = asyncio.Event()

        async def follow(_: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            try:
                yield b"begun"
                await asyncio.Event().wait()
            finally:
                ended.set()

        node.conversations = follow
        stream = await rig.link.converse("a", EXEC)
        output = aiter(stream.read())
        assert await anext(output) == b"begun"
        writing = asyncio.create_task(stream.write(b"waits for credit"))
        await asyncio.sleep(1)
        if loss == "cut":
            rig.broker.cut("a")
        elif loss == "node":
            await rig.stop("a")
        else:
            rig.broker.abort("hub")
        with pytest.raises(NodeOffline):
            await anext(output)
        await writing
        stream.close()
        await until(ended.is_set)
        await rig.stop()

    story(main())


def test_a_lost_piece_of_the_input_ends_the_conversation() -> None:
    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        node.conversations = _echo
        stream = await rig.link.converse("a", EXEC)
        await stream.write(b"first")
        output = aiter(stream.read())
        assert await anext(output) == b"first"
        rig.broker.faults = Faults(drop=1.0)
        await stream.write(b"second")
        await asyncio.sleep(0.1)
        rig.broker.faults = Faults()
        await stream.write(b"third")
        with pytest.raises(StreamRefused, match="a piece of the stream was lost"):
            await anext(output)
        stream.close()
        await rig.stop()

    story(main())


def test_a_node_that_did_not_hear_that_nobody_reads_is_told_again() -> None:
    async def main() -> None:
        rig = Rig()
        node = await _linked(rig)
        ended = asyncio.Event()

        async def talks(_: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(1)
            finally:
                ended.set()

        node.conversations = talks
        stream = await rig.link.converse("a", EXEC)
        rig.broker.faults = Faults(drop=1.0)
        stream.close()
        await asyncio.sleep(0.1)
        rig.broker.faults = Faults()
        assert not ended.is_set()
        await until(ended.is_set, 3)
        await rig.stop()

    story(main())


def test_a_node_of_before_refuses_a_conversation() -> None:
    async def main() -> None:
        rig = Rig()
        await _linked(rig)
        with pytest.raises(StreamRefused, match="no such pod"):
            await rig.link.converse("a", EXEC)
        await rig.stop()

    story(main())
