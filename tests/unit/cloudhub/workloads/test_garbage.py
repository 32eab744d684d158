"""The garbage collector over a real store: who goes with whom, who is let go, and who must stay."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cloudhub.workloads.garbage import GarbageCollector
from kubeapi.core import ConfigMap, Namespace
from kubeapi.meta import ObjectMeta, OwnerReference
from kubeapi.resources import REGISTRY
from kubeapi.server.deletion import DeleteOptions, Propagation
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store
from tests.support.hub import until


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)


class Garden:
    """ConfigMaps that own each other: the collector cares about references, not about kinds."""

    def __init__(self, objects: StoreObjects) -> None:
        self.objects = objects

    async def plant(self, name: str, *owners: ConfigMap | OwnerReference, block: bool = True, **meta: Any) -> ConfigMap:
        references = [item if isinstance(item, OwnerReference) else owned(item, block=block) for item in owners]
        metadata = ObjectMeta(name=name, namespace="default", owner_references=references, **meta)
        return await self.objects.create(ConfigMap(metadata=metadata))

    async def names(self) -> list[str]:
        return [item.metadata.name for item in (await self.objects.list(ConfigMap)).items]

    async def left(self, *names: str) -> None:
        async def so() -> bool:
            return await self.names() == list(names)

        await until(so, f"only {names} are left")

    async def owners(self, name: str) -> list[str]:
        found = await self.objects.get(ConfigMap, "default", name)
        return [item.name for item in found.metadata.owner_references]

    async def delete(self, name: str, how: Propagation | None = None) -> None:
        options = DeleteOptions(propagation=how)
        await self.objects.delete_object(REGISTRY.of(ConfigMap), "default", name, options)

    async def free(self, name: str) -> None:
        """Take off the finalizers that are not the collector's."""
        obj = await self.objects.get(ConfigMap, "default", name)
        obj.metadata.finalizers = [item for item in obj.metadata.finalizers if item != "example.com/hold"]
        await self.objects.update(obj)


def owned(owner: ConfigMap, *, block: bool = True) -> OwnerReference:
    meta = owner.metadata
    return OwnerReference(
        api_version="v1", kind="ConfigMap", name=meta.name, uid=meta.uid or "", block_owner_deletion=block
    )


@pytest.fixture
async def garden(wild: Garden) -> AsyncIterator[Garden]:
    task = asyncio.create_task(GarbageCollector(wild.objects).run())
    yield wild
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def wild() -> AsyncIterator[Garden]:
    """Nobody collects."""
    counter = itertools.count()
    store = await open_store(":memory:", inline=True)
    objects = StoreObjects(store, REGISTRY, FixedClock(), lambda: f"00000000-0000-4000-8000-{next(counter):012}")
    await objects.create(Namespace(metadata=ObjectMeta(name="default")))
    yield Garden(objects)
    await store.close()


async def test_in_the_background_the_whole_tree_follows(garden: Garden) -> None:
    a = await garden.plant("a")
    b = await garden.plant("b", a)
    await garden.plant("c", b)
    await garden.plant("z")
    await garden.delete("a")
    await garden.left("z")


async def test_in_the_foreground_the_owner_goes_last(garden: Garden) -> None:
    a = await garden.plant("a")
    b = await garden.plant("b", a)
    await garden.plant("c", b, finalizers=["example.com/hold"])
    await garden.delete("a", Propagation.FOREGROUND)

    async def reached() -> bool:
        return bool((await garden.objects.get(ConfigMap, "default", "c")).metadata.deletion_timestamp)

    await until(reached, "c is being deleted")
    assert await garden.names() == ["a", "b", "c"], "the deepest holds them all"
    await garden.free("c")
    await garden.left()


async def test_what_does_not_block_is_not_waited_for(garden: Garden) -> None:
    a = await garden.plant("a")
    await garden.plant("b", a, block=False, finalizers=["example.com/hold"])
    await garden.delete("a", Propagation.FOREGROUND)
    await garden.left("b")


async def test_orphans_are_let_go_before_their_owner_goes(garden: Garden) -> None:
    a = await garden.plant("a")
    b = await garden.plant("b", a)
    await garden.plant("c", b)
    await garden.delete("a", Propagation.ORPHAN)
    await garden.left("b", "c")
    assert (await garden.owners("b"), await garden.owners("c")) == ([], ["b"])


async def test_another_owner_keeps_it(garden: Garden) -> None:
    a, z = await garden.plant("a"), await garden.plant("z")
    await garden.plant("b", a, z)
    await garden.delete("a")

    async def dropped() -> bool:
        return await garden.owners("b") == ["z"]

    await until(dropped, "the reference to what is gone goes")
    await garden.delete("z")
    await garden.left()


async def test_an_owner_that_never_was_or_is_another_by_now(garden: Garden) -> None:
    a = await garden.plant("a")
    stale = owned(a)
    await garden.delete("a")
    await garden.left()
    await garden.plant("a")
    await garden.plant("b", stale)
    await garden.left("a")


async def test_an_owner_of_a_kind_that_is_not_served_here_counts_as_there(garden: Garden) -> None:
    unknown = OwnerReference(api_version="example.com/v1", kind="Thing", name="x", uid="u-x")
    a = await garden.plant("a")
    await garden.plant("b", unknown)
    await garden.plant("c", unknown, a)
    await garden.delete("a")

    async def dropped() -> bool:
        return await garden.owners("c") == ["x"]

    await until(dropped, "only the certain one is dropped")
    assert await garden.names() == ["b", "c"]


async def test_a_change_of_mind_in_the_middle(garden: Garden) -> None:
    """A deletion in the foreground that is asked for again in the background waits no longer."""
    a = await garden.plant("a")
    await garden.plant("b", a, finalizers=["example.com/hold"])
    await garden.delete("a", Propagation.FOREGROUND)
    await garden.delete("a", Propagation.BACKGROUND)
    await garden.left("b")


async def test_a_collector_that_starts_finds_what_was_left(wild: Garden) -> None:
    a, z, y = await wild.plant("a"), await wild.plant("z"), await wild.plant("y")
    await wild.plant("b", a)
    await wild.plant("c", z)
    await wild.plant("d", y)
    await wild.delete("a")
    await wild.delete("z", Propagation.FOREGROUND)
    await wild.delete("y", Propagation.ORPHAN)
    assert await wild.names() == ["b", "c", "d", "y", "z"]
    task = asyncio.create_task(GarbageCollector(wild.objects).run())
    await wild.left("d")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
