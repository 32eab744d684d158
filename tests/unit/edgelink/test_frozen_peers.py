"""A peer of wire version 1, its every byte frozen (tests/data/wire/v1/*.jsonl), speaks with this hub and this agent.

`say` is what the frozen peer publishes, `hear` what it must be told next, field by field: more fields may be there, it
would ignore them. Whatever comes later, also in newer versions, must keep these two conversations as they are.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from edgelink.api import StreamRequest
from edgelink.memory import MemoryBroker, MemoryTransport
from edgelink.runner import HubLink, NodeLink
from edgelink.transport import Incoming, Up
from edgelink.wire import VERSIONS
from tests.support.edgelinks import MemoryHub, MemoryNode
from tests.support.virtualtime import run_virtual, until

SCRIPTS = Path(__file__).parents[2] / "data" / "wire" / "v1"
NEWER = (*VERSIONS, max(VERSIONS) + 1)
BASE = "copepod/c/a/"
REPEATED = {"hello", "lease", "alive"}
"""What is said again by the clock, so that it may come between any two others."""


class FrozenPeer:
    """Plays one script over the broker."""

    def __init__(self, broker: MemoryBroker, script: str, subscriptions: list[str]) -> None:
        self._transport = MemoryTransport(broker, "frozen", random.Random(2))
        self._subscriptions = [BASE + name for name in subscriptions]
        self._lines = [json.loads(line) for line in (SCRIPTS / script).read_text().splitlines()]

    async def play(self, do: Callable[[str], Awaitable[None]] | None = None) -> None:
        running = asyncio.create_task(self._transport.run(self._subscriptions, lambda: None))
        try:
            assert isinstance(await self._transport.receive(), Up)
            for number, line in enumerate(self._lines, 1):
                if "do" in line:
                    assert do is not None
                    await do(line["do"])
                elif "say" in line:
                    await self._transport.publish(BASE + line["say"], json.dumps(line["message"]).encode(), 1)
                else:
                    await self._hear(number, line["hear"], line["message"])
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _hear(self, number: int, where: str, wanted: dict[str, Any]) -> None:
        while True:
            async with asyncio.timeout(120):
                signal = await self._transport.receive()
            assert isinstance(signal, Incoming)
            message = json.loads(signal.payload)
            here = signal.topic == BASE + where and missing(wanted, message) is None
            if here:
                return
            assert message["t"] in REPEATED, f"line {number} waits for {wanted}, and heard on {signal.topic}: {message}"


def missing(wanted: Any, given: Any) -> str | None:
    """What of `wanted` is not in `given`, where dicts may have more fields."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        return next((key for key in wanted if key not in given or missing(wanted[key], given[key])), None)
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        return next((f"[{i}]" for i, (w, g) in enumerate(zip(wanted, given, strict=True)) if missing(w, g)), None)
    return None if wanted == given else str(wanted)


@pytest.mark.parametrize("versions", [VERSIONS, NEWER], ids=["this hub", "a newer hub"])
def test_a_frozen_agent_of_version_1_is_served(versions: tuple[int, ...]) -> None:
    async def main() -> None:
        chance, names = random.Random(1), count(1)
        broker, store = MemoryBroker(chance), MemoryHub()
        store.put("a", "key", b'{"data":{}}', kind="secrets")
        store.put("a", "web", b'{"cpu":"250m"}')
        transport = MemoryTransport(broker, "hub", chance)
        link = HubLink(transport, store, "c", chance=chance, new_token=lambda: f"h{next(names)}", versions=versions)
        running = asyncio.create_task(link.run())
        await until(lambda: link.connected)
        logs: list[bytes] = []
        readers: list[asyncio.Task[None]] = []

        async def read() -> None:
            logs.extend(
                [
                    piece
                    async for piece in await link.open_stream(
                        "a", StreamRequest("logs", "u2", "vm", {"follow": "true"})
                    )
                ]
            )

        async def do(what: str) -> None:
            verb, _, rest = what.partition(" ")
            name, _, value = rest.partition(" ")
            match verb:
                case "put":
                    store.put("a", name, value.encode())
                case "delete":
                    store.delete("a", name)
                case "logs":
                    readers.append(asyncio.create_task(read()))
            link.view_changed("a")

        await FrozenPeer(broker, "agent.jsonl", ["down", "stream/+/down"]).play(do)
        await asyncio.gather(*readers)
        assert logs == [b"line\n"]
        assert store.levels == {"a:pods/u2": b'{"phase":"Running"}'}
        assert store.log == [("a:events", b'{"reason":"Started"}')]
        assert max(store.applied.values()) == 1
        assert [connected for _, connected, _ in store.links] == [True, False]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())


@pytest.mark.parametrize("versions", [VERSIONS, NEWER], ids=["this agent", "a newer agent"])
def test_a_frozen_hub_of_version_1_is_followed(versions: tuple[int, ...]) -> None:
    async def logs(_: StreamRequest) -> AsyncIterator[bytes]:
        yield b"line\n"

    async def main() -> None:
        chance, names = random.Random(1), count(1)
        broker, store = MemoryBroker(chance), MemoryNode(store_id="store-1", streams=logs)
        store.enqueue("level", "pods/u2", b'{"phase":"Running"}')
        store.enqueue("log", "events", b'{"reason":"Started"}')
        transport = MemoryTransport(broker, "a", chance)
        link = NodeLink(
            transport,
            store,
            cluster="c",
            node="a",
            chance=chance,
            new_token=lambda: f"n{next(names)}",
            versions=versions,
        )
        peer = asyncio.create_task(FrozenPeer(broker, "hub.jsonl", ["up", "lease", "stream/+/up"]).play())
        running = asyncio.create_task(link.run())
        await peer
        assert store.changed == {("u1", 1): 1, ("u2", 2): 1, ("u2", 4): 1}
        assert store.torn == {"u2": 1, "u1": 1}, (
            "web was deleted, and the complete view vouched for the Secret's absence"
        )
        assert not store.queue
        assert (False, "the hub refused this node: node was removed") in store.links
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())
