"""Hub and nodes, the real shells, under random faults on a virtual clock. `make sim SEEDS=n SEED=first` runs more."""

from __future__ import annotations

import asyncio
import os
import random
from itertools import count

import pytest

from edgelink.memory import Faults, MemoryBroker, MemoryTransport
from edgelink.runner import HubLink, NodeLink
from tests.support.edgelinks import MemoryHub, MemoryNode
from tests.support.virtualtime import run_virtual, until

FIRST, SEEDS = int(os.environ.get("SEED", "1")), int(os.environ.get("SEEDS", "25"))
NODES = ("node-a", "node-b", "node-c")
ROUNDS = 60
PATIENCE = 600.0
"""Simulated seconds within which both sides must agree once the faults are over."""


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = MemoryBroker(self.chance)
        self.hub = MemoryHub()
        self.nodes = {name: MemoryNode(store_id=f"store-{name}") for name in NODES}
        self.names = count(1)
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.node_links: dict[str, NodeLink] = {}
        self.hub_link: HubLink | None = None
        self.wrote: dict[str, list[bytes]] = {name: [] for name in NODES}
        self.compacted = False

    def token(self) -> str:
        return f"t{next(self.names)}"

    def start_hub(self) -> None:
        transport = MemoryTransport(self.broker, "hub", self.chance)
        self.hub_link = HubLink(transport, self.hub, "sim", chance=self.chance, new_token=self.token, part_size=1024)
        self.tasks["hub"] = asyncio.create_task(self.hub_link.run())

    def start_node(self, name: str) -> None:
        transport = MemoryTransport(self.broker, name, self.chance)
        link = self.node_links[name] = NodeLink(
            transport, self.nodes[name], cluster="sim", node=name, chance=self.chance, new_token=self.token,
            part_size=1024,
        )  # fmt: skip
        self.tasks[name] = asyncio.create_task(link.run())

    async def kill(self, who: str) -> None:
        """No goodbye: the broker notices by itself."""
        task = self.tasks.pop(who, None)
        if task is None:
            return
        self.broker.abort(who)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # --- what may happen ---

    def wish(self) -> None:
        node = self.chance.choice(NODES)
        name = f"pod-{self.chance.randrange(6)}"
        if self.chance.random() < 0.3:
            self.hub.delete(node, name)
        else:
            size = self.chance.choice((10, 10, 200, 3000))
            self.hub.put(node, name, b'{"x":"%s"}' % self.chance.randbytes(size).hex().encode())
        if self.hub_link is not None:
            self.hub_link.view_changed(node)

    def status(self) -> None:
        node = self.chance.choice(NODES)
        value = b"%d" % next(self.names)
        if self.chance.random() < 0.5:
            self.nodes[node].enqueue("level", f"pods/{self.chance.randrange(4)}", value)
        else:
            self.nodes[node].enqueue("log", "events", value)
            self.wrote[node].append(value)
        if node in self.node_links:
            self.node_links[node].wake()

    async def fault(self) -> None:
        who = self.chance.choice(("hub", *NODES))
        match self.chance.randrange(7):
            case 0:
                self.broker.cut(who)
            case 1:
                self.broker.heal(who)
            case 2:
                await self.kill(who)
            case 3:
                self.revive()
            case 4:
                self.broker.stop()
                self.broker.start()
            case 5:
                backend = self.hub if who == "hub" else self.nodes[who]
                backend.failing = not backend.failing
            case 6:
                self.hub.compacted = self.chance.randrange(self.hub.revision + 1)

    def revive(self) -> None:
        if "hub" not in self.tasks:
            self.start_hub()
        for name in NODES:
            if name not in self.tasks:
                self.start_node(name)

    def calm(self) -> None:
        """The faults are over."""
        self.broker.faults = Faults()
        self.broker.start()
        self.hub.failing = False
        for who in ("hub", *NODES):
            self.broker.heal(who)
        for node in self.nodes.values():
            node.failing = False
        self.revive()

    # --- what must hold ---

    def agreed(self) -> bool:
        return all(self.hub.views.get(name, {}) == node.items and not node.queue for name, node in self.nodes.items())

    def check(self) -> None:
        for name, node in self.nodes.items():
            assert self.hub.views.get(name, {}) == node.items
            assert not node.unclaimed
            assert not node.queue, "the outbox is drained"
            assert all(times == 1 for times in node.started.values()), "nothing is started twice"
            assert all(times == 1 for times in node.torn.values()), "nothing is torn down twice"
            assert all(times == 1 for times in node.changed.values()), "no wish is put in force twice"
            assert all(order == sorted(order) for order in node.order.values()), "order is kept per object"
            logged = [v for subject, v in self.hub.log if subject.startswith(f"{name}:")]
            assert logged == self.wrote[name], "every event arrived once, in order"
            for subject, value in node.levels.items():
                assert self.hub.levels[f"{name}:{subject}"] == value, "the newest status is the hub's"
            assert node.identities == 0
        assert all(times == 1 for times in self.hub.applied.values()), "nothing is stored twice"

    async def settle(self) -> None:
        self.calm()
        await until(self.agreed, PATIENCE)

    async def close(self) -> None:
        for who in list(self.tasks):
            await self.kill(who)


async def story(seed: int) -> None:
    world = World(seed)
    world.broker.faults = Faults(drop=0.1, double=0.1, delay=world.chance.choice((0.05, 0.5, 2.0)))
    world.revive()
    try:
        for _ in range(ROUNDS):
            for _ in range(world.chance.randrange(4)):
                world.wish()
                world.status()
            if world.chance.random() < 0.4:
                await world.fault()
            await asyncio.sleep(world.chance.random() * world.chance.choice((0.1, 5.0, 30.0)))
        await world.settle()
        world.check()
    finally:
        await world.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_s20_s21_both_sides_agree_after_any_faults(seed: int) -> None:
    """S-20, S-21, S-09: drops, doubles, delays, cuts, kills of either side, broker restarts, failing stores,
    compaction: both sides converge, nothing is done twice, order is kept."""
    try:
        run_virtual(story(seed))
    except BaseException:
        print(f"\nreplay: make sim SEEDS=1 SEED={seed}")
        raise
