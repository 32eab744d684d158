"""One suite for the store on SQLite (file, memory, with and without threads) and on PostgreSQL: compare-and-swap,
watch, history, outbox, journal, restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from metastore import queries
from metastore.api import (
    STORE_ID,
    ChangeType,
    CloseEntry,
    Compacted,
    Conflict,
    Delete,
    Dequeue,
    Enqueue,
    Incompatible,
    Key,
    Lane,
    NotFound,
    OpenEntry,
    Put,
    SetMeta,
    UidMismatch,
)
from metastore.sql import SqlStore, open_store
from tests.support import postgres

POD = Key("pods", "default", "web")


@pytest.fixture(params=["file", "file-inline", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store that can be opened again."""
    if request.param == "postgres":
        cluster: postgres.Postgres = request.getfixturevalue("cluster")
        return cluster.fresh()
    return str(tmp_path / "db" / f"{request.param}.db")


@pytest.fixture(params=["file", "file-inline", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    place = str(tmp_path / "db" / "store.db")
    if request.param == "memory":
        place = ":memory:"
    elif request.param == "postgres":
        place = request.getfixturevalue("cluster").fresh()
    opened = await open_store(place, inline=request.param == "file-inline", log_bound=3)
    yield opened
    await opened.close()


async def test_a_caller_who_gives_up_loses_neither_his_commit_nor_the_others(store: SqlStore) -> None:
    given_up = asyncio.ensure_future(store.commit(Put(POD, "u1", b"1", expect=0)))
    other = asyncio.ensure_future(store.commit(Put(Key("pods", "default", "db"), "u2", b"2", expect=0)))
    await asyncio.sleep(0)
    given_up.cancel()
    assert (await other).revision == 2
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert [row.value for row in (await store.list("pods")).rows] == [b"2", b"1"]


async def test_create_read_update_delete(store: SqlStore) -> None:
    made = await store.commit(Put(POD, "u1", b"1", expect=0))
    row = await store.get(POD)
    assert row is not None
    assert (row.value, row.uid, row.created) == (b"1", "u1", row.revision)
    assert made.changes[0].row == row

    await store.commit(Put(POD, "u1", b"2", expect=row.revision))
    newer = await store.get(POD)
    assert newer is not None
    assert newer.value == b"2"
    assert newer.created == row.created < newer.revision == store.revision

    gone = await store.commit(Delete(POD, uid="u1"))
    assert gone.changes[0].row.value == b"2"
    assert await store.get(POD) is None


async def test_compare_and_swap_refuses_and_writes_nothing(store: SqlStore) -> None:
    await store.commit(Put(POD, "u1", b"1"))
    before = store.revision
    other = Key("pods", "default", "other")
    with pytest.raises(Conflict):
        await store.commit(Put(other, "u2", b"x"), Put(POD, "u1", b"2", expect=0))
    with pytest.raises(Conflict):
        await store.commit(Put(POD, "u1", b"2", expect=before + 7))
    with pytest.raises(UidMismatch):
        await store.commit(Put(POD, "u9", b"2"))
    with pytest.raises(UidMismatch):
        await store.commit(Delete(POD, uid="u9"))
    with pytest.raises(NotFound):
        await store.commit(Delete(other))
    with pytest.raises(NotFound):
        await store.commit(Put(other, "u2", b"x", expect=4))
    assert await store.get(other) is None
    assert store.revision == before
    assert (await store.commit(Delete(other, missing_ok=True))).changes == ()


async def test_a_failed_commit_does_not_disturb_those_written_with_it(store: SqlStore) -> None:
    keys = [Key("pods", "default", f"p{i}") for i in range(20)]
    await store.commit(Put(keys[3], "taken", b""))
    results = await asyncio.gather(
        *(store.commit(Put(key, f"u{key.name}", b"v", expect=0)) for key in keys), return_exceptions=True
    )
    assert [index for index, result in enumerate(results) if isinstance(result, Conflict)] == [3]
    listing = await store.list("pods", "default")
    assert len(listing.rows) == 20
    assert len({row.revision for row in listing.rows}) == 20


async def test_list_is_ordered_by_namespace_and_name(store: SqlStore) -> None:
    for namespace, name in [("b", "a"), ("a", "z"), ("a", "b")]:
        await store.commit(Put(Key("pods", namespace, name), name, b""))
    await store.commit(Put(Key("nodes", "", "n"), "n", b""))
    listing = await store.list("pods")
    assert [(row.key.namespace, row.key.name) for row in listing.rows] == [("a", "b"), ("a", "z"), ("b", "a")]
    assert listing.revision == store.revision
    assert len((await store.list("pods", "a")).rows) == 2


async def test_watch_delivers_history_then_live_without_gap(store: SqlStore) -> None:
    for index in range(3):
        await store.commit(Put(POD, "u1", b"%d" % index))
    watch = store.watch(1, frozenset({"pods"}))
    await store.commit(Put(Key("nodes", "", "n"), "n", b""))
    await store.commit(Delete(POD))
    seen = [await anext(watch) for _ in range(3)]
    assert [change.row.revision for change in seen] == [2, 3, 5]
    assert [change.type for change in seen] == [ChangeType.PUT, ChangeType.PUT, ChangeType.DELETE]
    assert seen[0].previous is not None
    assert seen[0].previous.value == b"0"
    assert seen[2].row.value == b"2"
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_watcher_slower_than_the_writes_is_told_to_list_again(store: SqlStore) -> None:
    """S-82, the store's half: a bounded buffer, then Compacted; never unbounded memory."""
    watch = store.watch(store.revision, capacity=5)
    for index in range(9):
        await store.commit(Put(POD, "u1", b"%d" % index))
    assert [(await anext(watch)).row.value for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    with pytest.raises(Compacted):
        await anext(watch)


async def test_the_past_can_be_read_until_it_is_compacted(store: SqlStore) -> None:
    await store.commit(Put(POD, "u1", b"old"))
    other = Key("pods", "default", "other")
    await store.commit(Put(other, "u2", b"other"))
    then = store.revision
    await store.commit(Put(POD, "u1", b"new"))
    await store.commit(Delete(other))
    assert [row.value for row in (await store.list("pods", at=then)).rows] == [b"other", b"old"]

    await store.compact(store.revision)
    with pytest.raises(Compacted):
        await store.list("pods", at=then)
    with pytest.raises(Compacted):
        store.watch(then)
    assert [row.value for row in (await store.list("pods", at=store.revision)).rows] == [b"new"]
    assert store.watch(store.revision) is not None


async def test_outbox_levels_coalesce_and_the_log_is_bounded(store: SqlStore) -> None:
    await store.commit(Enqueue(Lane.LEVEL, "pods/u1", b"1"), Enqueue(Lane.LOG, "e", b"a"))
    await store.commit(Enqueue(Lane.LEVEL, "pods/u1", b"2"))
    assert [(entry.number, entry.value) for entry in await store.outbox()] == [(2, b"a"), (3, b"2")]
    for value in (b"b", b"c", b"d"):
        await store.commit(Enqueue(Lane.LOG, "e", value))
    assert [entry.value for entry in await store.outbox()] == [b"2", b"b", b"c", b"d"]
    assert await store.outbox_dropped() == 1
    await store.commit(Dequeue(4))
    assert [entry.value for entry in await store.outbox()] == [b"c", b"d"]
    assert await store.outbox_high() == 6


async def test_numbers_and_revisions_never_come_back_after_restart(where: str) -> None:
    first = await open_store(where)
    await first.commit(Put(POD, "u1", b"1"), Enqueue(Lane.LOG, "e", b"a"), OpenEntry("j1", "u1", "start", b"{}"))
    await first.commit(Delete(POD), Dequeue(1), SetMeta("cursor", "7"))
    await first.compact(first.revision)
    revision, store_id = first.revision, first.store_id
    await first.close()

    second = await open_store(where)
    assert (second.revision, second.store_id) == (revision, store_id)
    assert await second.outbox_high() == 1
    assert await second.meta("cursor") == "7"
    assert [(entry.id, entry.action) for entry in await second.journal()] == [("j1", "start")]
    await second.commit(CloseEntry("j1"), SetMeta("cursor", None), SetMeta(STORE_ID, "fresh"))
    assert second.store_id == "fresh"
    assert await second.journal() == []
    assert await second.meta("cursor") is None
    await second.close()


async def test_a_store_of_a_newer_schema_is_refused(where: str) -> None:
    newer = await open_store(where)
    await newer.commit(SetMeta("schema_version", "99"))
    await newer.close()
    with pytest.raises(Incompatible, match="99"):
        await open_store(where)


async def test_commits_written_together_see_each_other(store: SqlStore) -> None:
    """Group commit: what one of the batch did is there for the next, in the order in which they were asked for."""
    made, changed, refused, gone, again = await asyncio.gather(
        store.commit(Put(POD, "u1", b"1", expect=0)),
        store.commit(Put(POD, "u1", b"2"), Put(POD, "u1", b"3")),
        store.commit(Enqueue(Lane.LOG, "e", b"never"), Put(POD, "u1", b"x", expect=0)),
        store.commit(Delete(POD), Enqueue(Lane.LOG, "e", b"gone")),
        store.commit(Put(POD, "u2", b"4", expect=0)),
        return_exceptions=True,
    )
    assert isinstance(refused, Conflict)
    kept = [made, changed, gone, again]
    changes = [change for commit in kept if not isinstance(commit, BaseException) for change in commit.changes]
    assert [change.row.revision for change in changes] == [1, 2, 3, 4, 5]
    assert [change.row.value for change in changes] == [b"1", b"2", b"3", b"3", b"4"]
    assert [change.previous.revision if change.previous else 0 for change in changes] == [0, 1, 2, 3, 0]
    assert [entry.value for entry in await store.outbox()] == [b"gone"]
    watch = store.watch(0)
    assert [await anext(watch) for _ in changes] == changes
    watch.close()


async def test_what_was_made_and_removed_together_is_in_the_history_only(store: SqlStore) -> None:
    done = await store.commit(Put(POD, "u1", b"1"), Delete(POD))
    assert [change.type for change in done.changes] == [ChangeType.PUT, ChangeType.DELETE]
    assert await store.get(POD) is None
    assert store.revision == 2


async def test_names_are_ordered_by_bytes(store: SqlStore) -> None:
    """Whatever the database's locale says of hyphens and letters."""
    names = ["a-b", "a.b", "aa", "a1", "a"]
    await store.commit(*(Put(Key("pods", "default", name), name, b"") for name in names))
    assert [row.key.name for row in (await store.list("pods")).rows] == sorted(names)


async def test_a_commit_of_more_rows_than_one_statement_names(store: SqlStore) -> None:
    keys = [Key(kind, "default", f"p{number}") for kind in ("pods", "nodes") for number in range(600)]
    await store.commit(*(Put(key, key.name, b"1", expect=0) for key in keys))
    changed = await store.commit(*(Put(key, key.name, b"\x002", replace=True) for key in keys))
    assert [change.previous.value if change.previous else None for change in changed.changes] == [b"1"] * 1200
    await store.commit(*(Delete(key) for key in keys[:599]))
    assert [row.value for row in (await store.list("pods")).rows] == [b"\x002"]
    with store._database.reading() as connection:
        assert len(queries.current(connection, "nodes", None).rows) == 600
