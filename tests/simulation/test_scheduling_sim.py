"""The scheduler on a virtual clock, over a store that refuses now and then and mirrors that lag behind it.

Made-up nodes end what is to end, fall silent and come back; seeded chance makes pods of all priorities and deletes
them. What must hold all the time: no node is given more than it has, pods that shun each other stay apart, nobody is
made to go on a node that has been silent for a while. What must hold at rest: who waits has no place and nobody to make
go, is told why, and nothing is written any more. `make sim SEEDS=n SEED=first` runs more.
"""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from contextlib import suppress
from typing import Any

import pytest

from cloudhub.mirror import Mirror
from cloudhub.placement import Unschedulable, choose
from cloudhub.placement_room import Stage, Wish, counts_against_node
from cloudhub.preemption import Preemption, preempt, preempted
from cloudhub.scheduler import Scheduler, waits
from kubeapi import quantity
from kubeapi.core import Namespace, Node, NodeCondition, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.policies import PriorityClass
from kubeapi.resources import REGISTRY
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store
from tests.simulation.test_workloads_sim import LoopClock, Shaky
from tests.support.virtualtime import run_virtual

FIRST, SEEDS = int(os.environ.get("SEED", "1")), int(os.environ.get("SEEDS", "2"))
CLASSES = {"low": 1, "mid": 5, "high": 9}
_LAG = 5.0
"""Seconds after which the scheduler must have noticed that a node is silent."""


class ShakyBinding(Shaky):
    async def bind(self, namespace: str, name: str, node: str, *, uid: str | None = None) -> None:
        self._maybe_fail()
        await super().bind(namespace, name, node, uid=uid)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.objects: Any = None
        self.made = 0
        self.silent: dict[str, float] = {}
        self.ending: set[str] = set()

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    # Nodes

    async def live(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for pod in (await self.objects.list(Pod)).items:
                gone = pod.metadata.deletion_timestamp and pod.spec.node_name not in self.silent
                if gone and self.chance.random() < 0.5:
                    with suppress(ApiError):
                        await StoreObjects.delete(
                            self.objects, Pod, "default", pod.metadata.name, uid=pod.metadata.uid, grace_seconds=0
                        )

    async def turn(self, name: str, ready: str) -> None:
        now = asyncio.get_running_loop().time()
        node = await self.objects.get(Node, None, name)
        node.status.conditions = [NodeCondition(type="Ready", status=ready)]
        await StoreObjects.update_status(self.objects, node)
        if ready == "True":
            self.silent.pop(name, None)
        else:
            self.silent.setdefault(name, now)

    # People

    async def act(self) -> None:
        act = self.chance.choice((self.create, self.create, self.create, self.remove, self.flip))
        with suppress(ApiError):
            await act()
        await asyncio.sleep(self.chance.choice((0.0, 0.1, 1.0, 5.0)))

    async def create(self) -> None:
        self.made += 1
        requests = {"cpu": f"{self.chance.randrange(1, 16) * 100}m"}
        spec: dict[str, Any] = {"containers": [{"name": "vm", "image": "v0", "resources": {"requests": requests}}]}
        spec["priorityClassName"] = self.chance.choice(list(CLASSES))
        labels = {"app": "any"}
        if self.chance.random() < 0.3:
            labels = {"app": "lone"}
            term = {"topologyKey": "host", "labelSelector": {"matchLabels": labels}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if self.chance.random() < 0.3:
            spec["tolerations"] = [{"operator": "Exists"}]
        meta = {"name": f"p{self.made}", "namespace": "default", "labels": labels}
        await StoreObjects.create(self.objects, Pod.from_dict({"metadata": meta, "spec": spec}))

    async def remove(self) -> None:
        pods = (await self.objects.list(Pod)).items
        if pods:
            pod = self.chance.choice(pods)
            await self.objects.delete(Pod, "default", pod.metadata.name, uid=pod.metadata.uid)

    async def flip(self) -> None:
        name = f"n{self.chance.randrange(3)}"
        await self.turn(name, "True" if name in self.silent else "Unknown")

    # What must hold

    async def watch_over(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            by_node = held(await self._pods())
            for name, pods in by_node.items():
                taken = sum(quantity.cpu_millis(pod.spec.containers[0].requests["cpu"]) for pod in pods)
                assert taken <= 2000, f"{name} is given {taken}m"
                lone = [pod for pod in pods if pod.metadata.labels["app"] == "lone"]
                assert len(lone) <= 1, f"{name} holds {len(lone)} that shun each other"
                ending = {pod.metadata.uid or "" for pod in pods if pod.metadata.deletion_timestamp and preempted(pod)}
                silent_for = asyncio.get_running_loop().time() - self.silent.get(name, float("inf"))
                assert silent_for < _LAG or ending <= self.ending, f"one has to go on {name}, which is silent"
                self.ending |= ending

    async def _pods(self) -> list[Pod]:
        return list((await self.objects.list(Pod)).items)

    async def complaint(self) -> str | None:
        pods = await self._pods()
        if any(pod.metadata.deletion_timestamp for pod in pods):
            return "some are still going"
        stage = Stage.of((await self.objects.list(Node)).items, held(pods))
        for pod in filter(waits, pods):
            wish = Wish.of(pod)
            found = choose(wish, stage)
            if not isinstance(found, Unschedulable):
                return f"{pod.metadata.name} has a place on {found.node}"
            if isinstance(preempt(wish, stage, found, ()), Preemption):
                return f"{pod.metadata.name} could make others go"
            told = pod.status.condition("PodScheduled")
            if told is None or not (told.message or "").startswith(found.message):
                return f"{pod.metadata.name} is told {told and told.message}, not {found.message}"
        return None


def held(pods: list[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if counts_against_node(pod):
            found.setdefault(pod.spec.node_name or "", []).append(pod)
    return found


async def simulate(seed: int) -> None:
    world = World(seed)
    store = await open_store(":memory:", inline=True, new_id=world.new_uid)
    objects = ShakyBinding(store, REGISTRY, LoopClock(), world.new_uid)
    objects.chance = random.Random(seed + 1)
    world.objects = objects
    await objects.create(Namespace(metadata=ObjectMeta(name="default")))
    for name, value in CLASSES.items():
        await objects.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
    for name in ("n0", "n1", "n2"):
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "64Gi"}}
        meta = {"name": name, "labels": {"host": name}}
        await objects.create(Node.from_dict({"metadata": meta, "status": status}))
    pods, nodes, namespaces = Mirror(objects, Pod), Mirror(objects, Node), Mirror(objects, Namespace)
    scheduler = Scheduler(objects, LoopClock(), pods, nodes, namespaces)
    parts = (mirror.run() for mirror in (pods, nodes, namespaces))
    tasks = [asyncio.create_task(part) for part in (*parts, scheduler.run(), world.live(), world.watch_over())]
    objects.calm = False
    for _ in range(50):
        await world.act()
    objects.calm = True
    for name in list(world.silent):
        await world.turn(name, "True")
    complaint: str | None = ""
    for _ in range(100):
        await asyncio.sleep(5.0)
        assert not (failed := [task for task in tasks if task.done()]), failed[0].result()
        complaint = await world.complaint()
        if complaint is None:
            break
    assert complaint is None, complaint
    await asyncio.sleep(20.0)
    at_rest = store.revision
    await asyncio.sleep(60.0)
    assert store.revision == at_rest, "something is written again and again"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_s84_scheduling_converges(seed: int) -> None:
    run_virtual(simulate(seed))
