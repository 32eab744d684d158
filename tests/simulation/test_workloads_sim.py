"""Workload controllers on a virtual clock, over a store that refuses now and then and mirrors that lag behind it.

A made-up node runs what is bound; seeded chance scales, updates, deletes and orphans. What must hold all the time:
nothing is made twice. What must hold at rest: the wish, honest numbers, no object without its owner, no more writes.
`make sim SEEDS=n SEED=first` runs more.
"""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from cloudhub.mirror import Mirror
from cloudhub.workloads import composition
from kubeapi import errors
from kubeapi.core import Namespace, Node, Pod, PodCondition
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.objects import WatchEvent
from kubeapi.resources import REGISTRY
from kubeapi.server.deletion import DeleteOptions, Propagation
from kubeapi.server.objects import StoreObjects
from kubeapi.workloads import ControllerRevision, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from metastore.sql import open_store
from tests.support.virtualtime import run_virtual

FIRST, SEEDS = int(os.environ.get("SEED", "1")), int(os.environ.get("SEEDS", "2"))
T = TypeVar("T", bound=KubeObject)
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


class Shaky(StoreObjects):
    """For controllers: writes fail now and then, and what they watch comes late."""

    chance: random.Random
    calm = True

    async def watch(
        self, model: type[T], resource_version: str, namespace: str | None = None
    ) -> AsyncIterator[WatchEvent[T]]:
        async for event in super().watch(model, resource_version, namespace):
            await asyncio.sleep(self.chance.choice((0.0, 0.01, 0.3)))
            yield event

    def _maybe_fail(self) -> None:
        if not self.calm and self.chance.random() < 0.05:
            raise errors.unavailable("the store is made to fail")

    async def create(self, obj: T) -> T:
        self._maybe_fail()
        return await super().create(obj)

    async def update(self, obj: T) -> T:
        self._maybe_fail()
        return await super().update(obj)

    async def update_status(self, obj: T) -> T:
        self._maybe_fail()
        return await super().update_status(obj)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.objects: Any = None
        self.names = 0

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    # The made-up node

    async def live(self) -> None:
        """Starts what is there, ends what is to end, in a moment."""
        while True:
            await asyncio.sleep(0.5)
            for pod in (await self.objects.list(Pod)).items:
                with suppress(ApiError):
                    await self._live_one(pod)

    async def _live_one(self, pod: Pod) -> None:
        meta = pod.metadata
        if not pod.spec.node_name:
            await self.objects.bind("default", meta.name, "n1", uid=meta.uid)
        elif meta.deletion_timestamp:
            if pod.status.phase not in ("Succeeded", "Failed") and self.chance.random() < 0.5:
                await self.objects.delete(Pod, "default", meta.name, uid=meta.uid, grace_seconds=0)
        elif pod.status.phase == "Pending" and self.chance.random() < 0.7:
            await self._say(pod, "Running", "True")
        elif pod.status.phase == "Running" and pod.metadata.labels.get("app") == "job" and self.chance.random() < 0.3:
            await self._say(pod, "Succeeded" if self.chance.random() < 0.8 else "Failed", "False")

    async def _say(self, pod: Pod, phase: str, ready: str) -> None:
        pod.status.phase = phase
        moment = LoopClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
        pod.status.conditions = [PodCondition(type="Ready", status=ready, last_transition_time=moment)]
        await self.objects.update_status(pod)

    # What people do

    async def act(self) -> None:
        act = self.chance.choice((self.scale, self.image, self.kill_pod, self.scale, self.remake))
        with suppress(ApiError):
            await act()
        await asyncio.sleep(self.chance.choice((0.0, 0.1, 1.0, 5.0)))

    async def _some(self, *models: type[Any]) -> Any:
        model = self.chance.choice(models)
        items = (await self.objects.list(model, "default")).items
        return self.chance.choice(items) if items else None

    async def scale(self) -> None:
        item = await self._some(Deployment, StatefulSet)
        if item is not None:
            item.spec.replicas = self.chance.randrange(6)
            await StoreObjects.update(self.objects, item)

    async def image(self) -> None:
        item = await self._some(Deployment, StatefulSet, DaemonSet)
        if item is not None:
            item.spec.template.spec.containers[0].image = f"v{self.chance.randrange(4)}"
            await StoreObjects.update(self.objects, item)

    async def kill_pod(self) -> None:
        pod = await self._some(Pod)
        if pod is not None:
            await self.objects.delete(Pod, "default", pod.metadata.name, uid=pod.metadata.uid)

    async def remake(self) -> None:
        """Delete a Deployment this way or that; orphans are taken in by its successor."""
        how = self.chance.choice(list(Propagation))
        options = DeleteOptions(propagation=how)
        await self.objects.delete_object(REGISTRY.of(Deployment), "default", "web", options)
        for _ in range(200):
            with suppress(ApiError):
                await StoreObjects.create(self.objects, deployment())
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"deployment web is never gone ({how})")

    # What must hold

    async def watch_over(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            pods = (await self.objects.list(Pod)).items
            sets = {item.metadata.uid: item for item in (await self.objects.list(ReplicaSet)).items}
            owned: dict[str, int] = {}
            for pod in pods:
                owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
                if owner is not None and not pod.metadata.deletion_timestamp:
                    owned[owner.uid] = owned.get(owner.uid, 0) + 1
            # The greatest wish, and its surge of 25 %.
            assert all(owned.get(uid or "", 0) <= 7 for uid in sets), "pods were made twice"
            daemons = [pod for pod in pods if pod.metadata.labels["app"] == "agent"]
            assert sum(not pod.metadata.deletion_timestamp for pod in daemons) <= 1, "two daemons on one node"

    async def complaint(self) -> str | None:
        pods = [pod for pod in (await self.objects.list(Pod)).items if not pod.metadata.deletion_timestamp]
        for model, app in ((Deployment, "web"), (StatefulSet, "db")):
            item = await self.objects.get(model, "default", app)
            mine = [pod for pod in pods if pod.metadata.labels["app"] == app]
            image = item.spec.template.spec.containers[0].image
            if len(mine) != item.spec.replicas or {pod.spec.containers[0].image for pod in mine} - {image}:
                return f"{app}: {len(mine)} pods for {item.spec.replicas}"
            if (item.status.ready_replicas or 0, item.status.replicas or 0) != (len(mine), len(mine)):
                return f"{app}: status {item.status}"
        daemonset = await self.objects.get(DaemonSet, "default", "agent")
        if (daemonset.status.number_ready, daemonset.status.updated_number_scheduled) != (1, 1):
            return f"agent: {daemonset.status}"
        job = await self.objects.get(Job, "default", "job")
        if not any(item.type == "Complete" for item in job.status.conditions) or job.status.succeeded != 6:
            return f"job: {job.status}"
        uids = {item.metadata.uid for model in OWNERS for item in (await self.objects.list(model)).items}
        for model in (Pod, ReplicaSet, ControllerRevision):
            for item in (await self.objects.list(model)).items:
                if any(ref.uid not in uids for ref in item.metadata.owner_references):
                    return f"{item.kind} {item.metadata.name} has lost its owner"
        return None


OWNERS = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job)


def template(app: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "vm", "image": "v0"}], "terminationGracePeriodSeconds": 3, **spec},
    }


def body(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name)} | spec
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def deployment() -> Deployment:
    return Deployment.from_dict(body("web", replicas=3))


async def simulate(seed: int) -> None:
    world = World(seed)
    store = await open_store(":memory:", inline=True, new_id=world.new_uid)
    objects = Shaky(store, REGISTRY, LoopClock(), world.new_uid)
    objects.chance = random.Random(seed + 1)
    world.objects = objects
    await objects.create(Namespace(metadata=ObjectMeta(name="default")))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "64", "memory": "64Gi"}}
    await objects.create(Node.from_dict({"metadata": {"name": "n1"}, "status": ready}))
    pods, nodes = Mirror(objects, Pod), Mirror(objects, Node)
    work = composition.workloads(objects, LoopClock(), pods, nodes)
    tasks = [asyncio.create_task(part, name=name) for name, part in work.items()]
    tasks += [asyncio.create_task(part) for part in (pods.run(), nodes.run(), world.live(), world.watch_over())]
    await objects.create(deployment())
    await objects.create(StatefulSet.from_dict(body("db", replicas=2, serviceName="db")))
    await objects.create(DaemonSet.from_dict(body("agent")))
    job = {"template": template("job", restartPolicy="Never"), "completions": 6, "parallelism": 3, "backoffLimit": 99}
    await objects.create(Job.from_dict({"metadata": {"name": "job", "namespace": "default"}, "spec": job}))
    objects.calm = False
    for _ in range(25):
        await world.act()
    objects.calm = True
    complaint: str | None = ""
    for _ in range(3600):
        await asyncio.sleep(1.0)
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
def test_workloads_converge(seed: int) -> None:
    run_virtual(simulate(seed))
