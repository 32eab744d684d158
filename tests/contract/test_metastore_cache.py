"""Rows in memory are what the database holds, whatever is written, compacted, lost or opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from metastore import queries
from metastore.api import Change, ChangeType, Compacted, Delete, Key, Listing, Op, Put, Row, StoreError
from metastore.cache import ROW_BYTES, RowCache
from metastore.sql import SqlStore, open_store
from tests.support import postgres

KINDS = ("pods", "nodes")
KEYS = [Key(kind, namespace, name) for kind in KINDS for namespace in ("a", "b") for name in ("x", "y-1", "y")]

_keys = st.sampled_from(KEYS)
_ops = st.one_of(
    st.builds(Put, _keys, st.sampled_from(["u1", "u2"]), st.binary(max_size=40), replace=st.booleans()),
    st.builds(Put, _keys, st.just("u1"), st.just(b"new"), expect=st.just(0)),
    st.builds(Delete, _keys, missing_ok=st.booleans()),
)
_commits = st.lists(st.lists(_ops, min_size=1, max_size=3), min_size=1, max_size=4)
"""Commits that are asked for at once."""


@dataclass(frozen=True)
class Compact:
    back: int
    """How many revisions stay."""


class Reopen: ...


_steps = st.lists(st.one_of(_commits, _commits, st.builds(Compact, st.integers(0, 5)), st.builds(Reopen)), max_size=12)
_bounds = st.sampled_from([0, ROW_BYTES * 4, 1 << 20])


@dataclass
class Past:
    """What every revision showed."""

    lists: dict[int, dict[str, tuple[Row, ...]]] = field(default_factory=dict)
    compacted: int = 0

    def note(self, revision: int, rows: dict[str, tuple[Row, ...]]) -> None:
        assert self.lists.setdefault(revision, rows) == rows


async def _write(store: SqlStore, commits: Sequence[Sequence[Op]]) -> None:
    results = await asyncio.gather(*(store.commit(*ops) for ops in commits), return_exceptions=True)
    for result in results:
        assert not isinstance(result, BaseException) or isinstance(result, StoreError)


def _in_database(store: SqlStore, kind: str) -> Listing:
    with store._database.reading() as connection:
        return queries.current(connection, kind, None)


async def _check(store: SqlStore, past: Past) -> None:
    shown = {}
    for kind in KINDS:
        listing, true = await store.list(kind), _in_database(store, kind)
        assert listing == true
        assert listing.revision == store.revision
        shown[kind] = listing.rows
        for namespace in ("a", "b"):
            scoped = await store.list(kind, namespace, known=True)
            assert scoped.rows == tuple(row for row in true.rows if row.key.namespace == namespace)
            assert store.held(kind, namespace) in (None, scoped.rows)
        assert store.held(kind) in (None, true.rows)
    for key in KEYS:
        assert await store.get(key) == next((row for row in shown[key.kind] if row.key == key), None)
    past.note(store.revision, shown)
    for revision, lists in past.lists.items():
        for kind in KINDS:
            if revision < past.compacted:
                with pytest.raises(Compacted):
                    await store.list(kind, at=revision)
            else:
                assert await store.list(kind, at=revision) == Listing(lists[kind], revision)


async def _run(place: str, bound: int, steps: Sequence[object]) -> None:
    store, past = await open_store(place, cache_bytes=bound), Past()
    try:
        for step in steps:
            if isinstance(step, Compact):
                past.compacted = max(past.compacted, store.revision - step.back)
                await store.compact(past.compacted)
            elif isinstance(step, Reopen):
                await store.close()
                store = await open_store(place, cache_bytes=bound)
            elif isinstance(step, list):
                await _write(store, step)
            await _check(store, past)
            assert store._cache.bytes <= bound
    finally:
        await store.close()


@given(_steps, _bounds)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_cache_is_the_database(steps: list[object], bound: int) -> None:
    with TemporaryDirectory() as directory:
        asyncio.run(_run(str(Path(directory) / "store.db"), bound, steps))


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(steps=_steps, bound=_bounds)
def test_the_cache_is_the_database_on_postgresql(cluster: postgres.Postgres, steps: list[object], bound: int) -> None:
    asyncio.run(_run(cluster.fresh(), bound, steps))


async def test_a_read_among_writes_never_goes_back(tmp_path: Path) -> None:
    """A kind is read for the first time while commits are on their way to the disk."""
    store = await open_store(tmp_path / "store.db")
    writes = [
        asyncio.create_task(store.commit(Put(key, "u", b"%d" % n, replace=True))) for n in range(50) for key in KEYS
    ]
    newest = 0
    kinds = [f"k{number}" for number in range(20)]
    while not all(write.done() for write in writes):
        for kind in ("pods", kinds.pop() if kinds else "nodes"):
            listing = await store.list(kind)
            assert listing.revision >= newest
            newest = listing.revision
        await asyncio.sleep(0)
    await asyncio.gather(*writes)
    assert await store.list("pods") == _in_database(store, "pods")
    await store.close()


async def test_another_replicas_writes_are_read_at_once(cluster: postgres.Postgres) -> None:
    url = cluster.fresh()
    one, two = await open_store(url), await open_store(url)
    key = KEYS[0]
    for number in range(30):
        await one.commit(Put(key, "u", b"%d" % number))
        row = await two.get(key)
        assert row is not None
        assert row.value == b"%d" % number
    await one.commit(Delete(key))
    assert await two.get(key) is None
    assert (await two.list(key.kind)).rows == ()
    await one.close()
    await two.close()


async def test_a_database_restored_from_a_copy_is_read_anew(cluster: postgres.Postgres) -> None:
    """S-86, under a running hub: the revision went back, and with it what is in memory; watchers list again."""
    store = await open_store(cluster.fresh())
    for number in range(5):
        await store.commit(Put(KEYS[number], "u", b""))
    assert len((await store.list("pods")).rows) == 5
    watch = store.watch(store.revision)
    with store._database.writer.begin():
        for statement in (
            "DELETE FROM objects WHERE revision > 2",
            "DELETE FROM log WHERE revision > 2",
            "UPDATE scalars SET value = '2' WHERE name = 'revision'",
        ):
            store._database.writer.execute(text(statement))
    listing = await store.list("pods")
    assert (len(listing.rows), listing.revision) == (2, 2)
    with pytest.raises(Compacted):
        await anext(watch)
    await store.close()


async def test_memory_is_bounded_and_the_kind_that_outgrows_it_is_read_from_the_database(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.db", cache_bytes=10 * (ROW_BYTES + 100))
    for number in range(20):
        await store.commit(Put(Key("pods", "", f"p{number}"), "u", b"x" * 100))
        assert len((await store.list("pods")).rows) == number + 1
        assert store._cache.bytes <= 10 * (ROW_BYTES + 100)
    assert store._cache.find("pods") is None
    await store.commit(*(Delete(Key("pods", "", f"p{number}")) for number in range(15)))
    await store.compact(store.revision)
    assert len((await store.list("pods")).rows) == 5
    assert store._cache.find("pods") is not None
    await store.close()


def test_what_is_published_while_a_kind_is_read_is_not_lost() -> None:
    cache = RowCache(1 << 20)
    cache.begin("pods")

    def change(revision: int, value: bytes) -> Change:
        return Change(ChangeType.PUT, Row(KEYS[0], "u", revision, 1, value), None)

    cache.apply(change(5, b"in the snapshot"))
    cache.apply(change(7, b"newer"))
    rows = cache.install("pods", Listing((Row(KEYS[0], "u", 5, 1, b"in the snapshot"),), 6))
    assert rows is not None
    assert [row.value for row in rows.listed(None)] == [b"newer"]
    assert rows.changed == 7
