"""Several hubs on one PostgreSQL: one order of revisions, no watcher skips one, and a database that restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from metastore.api import Compacted, Conflict, Delete, InUse, Key, Put, Unavailable, Watch
from metastore.sql import SqlStore, open_store
from tests.support import postgres

WRITES = 60


@pytest.fixture
async def replicas(cluster: postgres.Postgres) -> AsyncIterator[list[SqlStore]]:
    url = cluster.fresh()
    async with AsyncExitStack() as stack:
        opened = await asyncio.gather(*(open_store(url) for _ in range(3)))
        for store in opened:
            stack.push_async_callback(store.close)
        yield opened


async def test_replicas_that_start_together_share_one_store(replicas: list[SqlStore]) -> None:
    assert len({store.store_id for store in replicas}) == 1


async def test_every_watcher_of_every_replica_sees_every_revision_in_order(replicas: list[SqlStore]) -> None:
    watches = [store.watch(0, capacity=10_000) for store in replicas]

    async def write(store: SqlStore, name: str) -> None:
        for number in range(WRITES):
            await store.commit(Put(Key("pods", "default", name), name, b"%d" % number))

    await asyncio.gather(*(write(store, f"{i}-{j}") for i, store in enumerate(replicas) for j in range(4)))
    total = WRITES * 4 * len(replicas)
    async with asyncio.timeout(60):
        for watch in watches:
            assert [await _revision(watch) for _ in range(total)] == list(range(1, total + 1))


async def test_one_of_the_replicas_wins_a_compare_and_swap(replicas: list[SqlStore]) -> None:
    key = Key("pods", "default", "web")
    results = await asyncio.gather(
        *(store.commit(Put(key, f"u{i}", b"", expect=0)) for i, store in enumerate(replicas)), return_exceptions=True
    )
    assert sum(isinstance(result, Conflict) for result in results) == len(replicas) - 1


async def test_what_a_read_shows_can_be_watched_from(replicas: list[SqlStore]) -> None:
    """A client lists at one replica what another has just written, and watches from there."""
    writer, reader, _ = replicas
    for number in range(20):
        made = await writer.commit(Put(Key("pods", "default", f"p{number}"), "u", b""))
        listing = await reader.list("pods")
        assert listing.revision == made.revision == reader.revision
    await writer.commit(Delete(Key("pods", "default", "p0")))
    assert await reader.refresh() == writer.revision


async def test_news_arrive_without_being_notified(replicas: list[SqlStore]) -> None:
    """The polling fallback: a replica whose listener is gone still follows."""
    writer, deaf, _ = replicas
    listener = deaf._background[0]
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)
    watch = deaf.watch(deaf.revision)
    made = await writer.commit(Put(Key("pods", "default", "web"), "u", b""))
    async with asyncio.timeout(10):
        assert await _revision(watch) == made.revision


async def test_history_that_another_replica_forgot_is_gone_here_too(replicas: list[SqlStore]) -> None:
    writer, other, _ = replicas
    for number in range(5):
        await writer.commit(Put(Key("pods", "default", "web"), "u", b"%d" % number))
    await writer.compact(4)
    with pytest.raises(Compacted):
        await _revision(other.watch(1))
    with pytest.raises(Compacted):
        await other.list("pods", at=2)


async def test_a_replica_outlives_a_restart_of_the_database(cluster: postgres.Postgres) -> None:
    """S-32 for a server: acknowledged is kept, the rest is refused, and everything goes on by itself."""
    key = Key("pods", "default", "web")
    store, other = [await open_store(url) for url in [cluster.fresh()] * 2]
    watch = other.watch(0)
    await store.commit(Put(key, "u", b"1"))
    await asyncio.to_thread(cluster.stop)
    with pytest.raises(Unavailable):
        await store.commit(Put(key, "u", b"2"))
    with pytest.raises(Unavailable):
        await store.get(key)
    await asyncio.to_thread(cluster.start)
    await store.commit(Put(key, "u", b"3"))
    async with asyncio.timeout(60):
        assert [(await anext(watch)).row.value for _ in range(2)] == [b"1", b"3"]
    row = await other.get(key)
    assert row is not None
    assert row.value == b"3"
    await store.close()
    await other.close()


async def test_a_store_that_one_has_alone_is_refused_to_the_next(cluster: postgres.Postgres) -> None:
    """Stores next to it, in schemas of their own, are others; and whoever does not ask to be alone may read."""
    url, other = cluster.fresh(), cluster.fresh()
    first = await open_store(url, alone=True)
    with pytest.raises(InUse, match=r"is in use by copepod .* since .*: a database serves one hub at a time"):
        await open_store(url, alone=True)
    for free in (await open_store(other, alone=True), await open_store(url)):
        await free.close()
    await first.close()
    again = await open_store(url, alone=True)
    await again.close()


async def test_a_database_that_is_not_there_says_which(cluster: postgres.Postgres) -> None:
    with pytest.raises(Unavailable, match="nowhere") as caught:
        await open_store("postgresql://hub:secret@/nowhere?host=/nonexistent")
    assert "secret" not in str(caught.value)


async def _revision(watch: Watch) -> int:
    return (await anext(watch)).row.revision
