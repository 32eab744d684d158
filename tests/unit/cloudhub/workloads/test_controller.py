"""The shell: what the queue does with keys, and what becomes of a creation that is refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from cloudhub.mirror import Identity, Mirror
from cloudhub.workloads.composition import workloads
from cloudhub.workloads.queue import WorkQueue
from kubeapi import errors
from kubeapi.clock import new_uid
from kubeapi.core import Event, Namespace, Node, Pod
from kubeapi.meta import ObjectMeta
from kubeapi.resources import REGISTRY
from kubeapi.server.objects import StoreObjects
from kubeapi.workloads import ReplicaSet
from metastore.sql import open_store
from tests.support.hub import until
from tests.support.virtualtime import run_virtual
from tests.support.workloads import TEMPLATE

A, B = ("default", "a"), ("default", "b")


def test_a_key_waits_once_and_the_earliest_time_counts() -> None:
    async def main() -> None:
        queue: WorkQueue[Identity] = WorkQueue()
        loop = asyncio.get_running_loop()
        for key in (A, B, A):
            queue.add(key)
        assert [await queue.get(), await queue.get()] == [A, B]
        queue.add_after(A, 30.0)
        queue.add_after(A, 5.0)
        queue.add_after(A, 60.0)
        assert (await queue.get(), loop.time()) == (A, 5.0)
        queue.add_after(B, 1.0)
        queue.close()

    run_virtual(main())


def test_failures_come_back_ever_more_slowly_until_success() -> None:
    async def main() -> None:
        queue: WorkQueue[Identity] = WorkQueue()
        loop = asyncio.get_running_loop()
        waits = []
        for _ in range(12):
            before = loop.time()
            queue.failed(A)
            await queue.get()
            waits.append(loop.time() - before)
        assert waits[:4] == [0.25, 0.5, 1.0, 2.0]
        assert waits[-1] == 60.0
        queue.succeeded(A)
        before = loop.time()
        queue.failed(A)
        await queue.get()
        assert loop.time() - before == 0.25

    run_virtual(main())


class Stingy(StoreObjects):
    """Refuses pods, as a quota does."""

    full = True
    asked = 0

    async def create(self, obj: Any) -> Any:
        if isinstance(obj, Pod):
            self.asked += 1
            if self.full:
                raise errors.forbidden("pods", "web-x", "exceeded quota: small")
        return await super().create(obj)


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)


async def test_a_refusal_is_told_backed_off_from_and_forgotten_when_it_is_over() -> None:
    store = await open_store(":memory:", inline=True)
    objects = Stingy(store, REGISTRY, FixedClock(), new_uid)
    await objects.create(Namespace(metadata=ObjectMeta(name="default")))
    pods, nodes = Mirror(objects, Pod), Mirror(objects, Node)
    work = workloads(objects, FixedClock(), pods, nodes)
    tasks = [asyncio.create_task(part) for part in (*work.values(), pods.run(), nodes.run())]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    await objects.create(ReplicaSet.from_dict({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))

    async def conditions() -> list[str | None]:
        found = await objects.get(ReplicaSet, "default", "web")
        return [item.message for item in found.status.conditions]

    async def told() -> bool:
        return await conditions() == ['pods "web-x" is forbidden: exceeded quota: small']

    await until(told, "the condition tells why")
    events = [item.reason for item in (await objects.list(Event)).items]
    assert set(events) == {"FailedCreate"}
    assert objects.asked < 6, "it is not asked in a hot loop"
    objects.full = False

    async def over() -> bool:
        return len((await objects.list(Pod)).items) == 2 and await conditions() == []

    await until(over, "both pods are made, and the condition is gone")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()
