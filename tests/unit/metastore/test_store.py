"""The store against real SQLite files: compare-and-swap, watch, history, outbox, journal, durability."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
    InUse,
    Key,
    Lane,
    NotFound,
    OpenEntry,
    Put,
    SetMeta,
    UidMismatch,
    Unavailable,
)
from metastore.sql import SqlStore, open_store

POD = Key("pods", "default", "web")


@pytest.fixture(params=["thread", "inline", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "db" / "store.db")
    opened = await open_store(path, inline=request.param != "thread", log_bound=3)
    yield opened
    await opened.close()


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


async def test_numbers_and_revisions_never_come_back_after_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = await open_store(path)
    await first.commit(Put(POD, "u1", b"1"), Enqueue(Lane.LOG, "e", b"a"), OpenEntry("j1", "u1", "start", b"{}"))
    await first.commit(Delete(POD), Dequeue(1), SetMeta("cursor", "7"))
    await first.compact(first.revision)
    revision, store_id = first.revision, first.store_id
    await first.close()

    second = await open_store(path)
    assert (second.revision, second.store_id) == (revision, store_id)
    assert await second.outbox_high() == 1
    assert await second.meta("cursor") == "7"
    assert [(entry.id, entry.action) for entry in await second.journal()] == [("j1", "start")]
    await second.commit(CloseEntry("j1"), SetMeta("cursor", None), SetMeta(STORE_ID, "fresh"))
    assert second.store_id == "fresh"
    assert await second.journal() == []
    assert await second.meta("cursor") is None
    await second.close()


async def test_one_writer_and_no_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_store(path)
    with pytest.raises(InUse, match="another process"):
        await open_store(path)
    await store.close()
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(Incompatible, match="not a Copepod store"):
        await open_store(garbage)
    newer = await open_store(tmp_path / "newer.db")
    await newer.commit(SetMeta("schema_version", "99"))
    await newer.close()
    with pytest.raises(Incompatible, match="99"):
        await open_store(tmp_path / "newer.db")


async def test_a_refusing_disk_is_reported_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    """S-31, the store's half: a write that the disk refuses raises Unavailable, and the store works again after."""
    store = await open_store(tmp_path / "store.db")
    await store.commit(Put(POD, "u1", b"1"))
    connection = store._write_connection.connection.driver_connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(Unavailable, match="full"):
        await store.commit(Put(POD, "u1", b"x" * 1_000_000))
    connection.execute("PRAGMA max_page_count=1000000")
    row = await store.get(POD)
    assert row is not None
    assert row.value == b"1"
    assert (await store.commit(Put(POD, "u1", b"2"))).revision == 2
    await store.close()


def test_s32_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """S-32: a process is killed while it writes; every commit it acknowledged on its output is there."""
    script = textwrap.dedent("""
        import asyncio, sys
        from metastore.api import Key, Put
        from metastore.sql import open_store
        async def main():
            store = await open_store(sys.argv[1])
            for index in range(100000):
                await store.commit(Put(Key("pods", "", f"p{index}"), "u", b"v"))
                print(index, flush=True)
        asyncio.run(main())
    """)
    path = tmp_path / "store.db"
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        last = -1
        for line in child.stdout:
            last = int(line)
            if last >= 50:
                os.kill(child.pid, signal.SIGKILL)
                break
        rest = [int(line) for line in child.stdout.read().split()]
    acknowledged = rest[-1] if rest else last

    async def count() -> int:
        store = await open_store(path)
        rows = (await store.list("pods")).rows
        await store.close()
        return len(rows)

    assert asyncio.run(count()) >= acknowledged + 1
