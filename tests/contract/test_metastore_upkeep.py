"""Migrations from every released schema, checksums and quarantine, export and import: on SQLite and PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL

from metastore import inspection, migrations
from metastore.api import (
    QUARANTINED,
    Change,
    ChangeType,
    Damaged,
    Enqueue,
    Incompatible,
    JournalEntry,
    Key,
    Lane,
    OpenEntry,
    OutboxEntry,
    Put,
    SetMeta,
    StoreError,
    Unavailable,
)
from metastore.schema import SCHEMA_VERSION
from metastore.sql import SqlStore, open_store
from tests.support import postgres

FROZEN = Path(__file__).parents[1] / "data" / "metastore"
WEB, DB, BOX = Key("pods", "default", "web"), Key("pods", "default", "db"), Key("nodes", "", "box")
Run = Callable[..., Any]


def plain_url(url: str) -> str:
    return url.replace("postgresql+psycopg:", "postgresql:")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        cluster: postgres.Postgres = request.getfixturevalue("cluster")
        return cluster.fresh()
    return str(tmp_path / "store.db")


def run(where: str, script: str) -> None:
    """Statements, from outside."""
    if "://" in where:
        with psycopg.connect(plain_url(where), autocommit=True) as connection:
            connection.execute(SQL(script))  # type: ignore[arg-type]
    else:
        with closing(sqlite3.connect(where)) as connection:
            connection.executescript(script)


def frozen(where: str, version: int) -> None:
    name = "postgresql" if "://" in where else "sqlite"
    run(where, (FROZEN / f"{version}.{name}.sql").read_text())


async def opened(where: str) -> SqlStore:
    return await open_store(where, new_id=lambda: "fresh")


async def whole(where: str) -> None:
    """What every frozen store holds."""
    store = await opened(where)
    try:
        assert (store.store_id, store.revision, store.put_aside) == ("store-of-version-1", 7, ())
        rows = {row.key: (row.uid, row.revision, row.created, row.value) for row in (await store.list("pods")).rows}
        assert rows == {WEB: ("u1", 7, 1, b'{"a":3}'), DB: ("u4", 6, 6, b"\x00\xff not text")}
        assert await store.outbox() == [
            OutboxEntry(2, Lane.LOG, "e1", b"first"),
            OutboxEntry(3, Lane.LOG, "e2", b"second"),
            OutboxEntry(4, Lane.LEVEL, "pods/u1", b'{"s":2}'),
        ]
        assert (await store.outbox_high(), await store.outbox_dropped()) == (4, 0)
        assert await store.journal() == [JournalEntry("j1", "u1", "resize", b"{}")]
        assert await store.meta("cursor") == '{"hub":"h","revision":7}'
        assert inspection.check(where).problems == []
        made = await store.commit(Put(WEB, "u1", b'{"a":4}', expect=7))
        assert made.revision == 8
    finally:
        await store.close()


@pytest.mark.parametrize("version", sorted({int(path.name.split(".")[0]) for path in FROZEN.glob("*.sql")}))
async def test_every_released_schema_is_brought_here(where: str, version: int) -> None:
    frozen(where, version)
    await whole(where)


async def test_history_is_brought_along(where: str) -> None:
    frozen(where, 1)
    store = await opened(where)
    watch = store.watch(5)
    seen: list[Change] = [await anext(watch), await anext(watch)]
    await store.close()
    assert [(change.type, change.row.key, change.row.revision) for change in seen] == [
        (ChangeType.PUT, DB, 6), (ChangeType.PUT, WEB, 7),
    ]  # fmt: skip


async def test_a_migration_that_is_cut_off_has_changed_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(where, 1)

    def cut(op: Any, connection: Any) -> None:
        migrations._checksums(op, connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(migrations._STEPS, 1, cut)
        with pytest.raises(KeyboardInterrupt):
            await opened(where)
    await whole(where)


async def test_a_newer_schema_is_refused_and_left_alone(where: str) -> None:
    await (await opened(where)).close()
    newer = SCHEMA_VERSION + 1
    run(where, f"UPDATE scalars SET value = '{newer}' WHERE name = 'schema_version'")
    words = f"newer Copepod .schema version {newer}; this one reads up to {SCHEMA_VERSION}."
    with pytest.raises(Incompatible, match=words):
        await opened(where)
    with pytest.raises(Incompatible, match=words):
        inspection.check(where)


async def filled(where: str) -> None:
    store = await opened(where)
    await store.commit(Put(WEB, "u1", b"one"), Put(DB, "u2", b"two"), Put(BOX, "u3", b"three"))
    await store.commit(
        Enqueue(Lane.LEVEL, "pods/u1", b"level"),
        Enqueue(Lane.LOG, "e", b"event"),
        OpenEntry("j", "u1", "resize", b"{}"),
    )
    await store.close()


FLIPPED = {
    "objects": ("UPDATE objects SET value = 'onf' WHERE name = 'web'", "pods default/web at revision 1"),
    "objects' names": ("UPDATE objects SET uid = 'u9' WHERE name = 'web'", "pods default/web at revision 1"),
    "log": ("UPDATE log SET value = 'onf' WHERE revision = 1", "pods default/web at revision 1"),
    "outbox": ("UPDATE outbox SET value = 'levem' WHERE number = 1", "outbox entry 1"),
    "journal": ("UPDATE journal SET detail = '{]'", "journal entry j"),
}


@pytest.mark.parametrize("table", FLIPPED)
async def test_a_row_that_is_not_what_was_written_is_found(where: str, table: str) -> None:
    await filled(where)
    statement, label = FLIPPED[table]
    run(where, statement)
    found = inspection.check(where)
    assert found.problems == [f"{label}: its checksum is wrong"]
    assert found.rows == {"pods": 2, "nodes": 1, "outbox": 2, "journal": 1}


@pytest.mark.parametrize("table", FLIPPED)
async def test_s30_a_bad_row_goes_into_quarantine_and_the_rest_is_used(tmp_path: Path, table: str) -> None:
    where = str(tmp_path / "store.db")
    await filled(where)
    statement, label = FLIPPED[table]
    run(where, statement)
    store = await opened(where)
    assert store.put_aside == (label,)
    left = {row.key for row in (await store.list("pods")).rows}
    assert left == ({DB} if table.startswith("objects") else {WEB, DB})
    assert len(await store.outbox()) == (1 if table == "outbox" else 2)
    assert len(await store.journal()) == (0 if table == "journal" else 1)
    assert (await store.commit(Put(WEB, "u1", b"again"))).revision == 4
    await store.close()
    assert inspection.check(where).problems == []
    store = await opened(where)
    assert store.put_aside == (label,), "until whoever mends it says so"
    await store.commit(SetMeta(QUARANTINED, None))
    await store.close()
    store = await opened(where)
    assert store.put_aside == ()
    await store.close()
    with closing(sqlite3.connect(where)) as connection:
        assert connection.execute("SELECT label FROM quarantine").fetchall() == [(label,)]


async def test_what_goes_bad_while_it_is_used_is_refused_and_told(where: str) -> None:
    await filled(where)
    store = await open_store(where, cache_bytes=0)
    run(where, FLIPPED["objects"][0])
    assert not store.damaged.is_set()
    with pytest.raises(Damaged, match="pods default/web at revision 1 is not what was written"):
        await store.get(WEB)
    assert store.damaged.is_set()
    with pytest.raises(StoreError):
        await store.commit(Put(WEB, "u1", b"new", expect=1))
    await store.close()


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
async def test_what_is_exported_is_imported(where: str, target: str, tmp_path: Path, request: Any) -> None:
    frozen(where, 1)
    await (await opened(where)).close()
    lines: list[bytes] = []
    assert inspection.export(where, lines.append) == []
    there = str(tmp_path / "new" / "store.db") if target == "sqlite" else request.getfixturevalue("cluster").fresh()
    assert inspection.restore(there, lines) == len(lines) - 2
    await whole(there)
    with pytest.raises(Unavailable, match="is a store already"):
        inspection.restore(there, lines)


async def test_an_export_of_an_old_schema_is_imported_too(where: str, tmp_path: Path) -> None:
    frozen(where, 1)
    lines: list[bytes] = []
    assert inspection.export(where, lines.append) == []
    inspection.restore(str(tmp_path / "new.db"), lines)
    await whole(str(tmp_path / "new.db"))


async def test_what_is_damaged_is_left_out_of_an_export_and_said(where: str, tmp_path: Path) -> None:
    await filled(where)
    run(where, FLIPPED["objects"][0])
    lines: list[bytes] = []
    assert inspection.export(where, lines.append) == ["pods default/web at revision 1: its checksum is wrong"]
    inspection.restore(str(tmp_path / "new.db"), lines)
    store = await opened(str(tmp_path / "new.db"))
    assert [row.key for row in (await store.list("pods")).rows] == [DB]
    await store.close()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: [], "not whole"),
        (lambda lines: lines[:-1], "not whole"),
        (lambda lines: lines[1:], "the first line is not the head"),
        (lambda lines: [*lines[:2], *lines[3:]], "not whole: .* rows came"),
        (lambda lines: [*lines[:3], b"{", *lines[3:]], "line 4 is not of an export"),
        (lambda lines: [lines[0], b'{"table":"objects","row":{}}\n', *lines[1:]], "line 2 is not of an export"),
        (lambda lines: [lines[0].replace(b'"schema":', b'"schema":9'), *lines[1:]], "schema version 9"),
        (lambda lines: [b"[]"], "line 1 is not of an export"),
    ],
)
async def test_half_an_export_makes_no_store(spoil: Run, words: str, tmp_path: Path) -> None:
    await filled(str(tmp_path / "store.db"))
    lines: list[bytes] = []
    inspection.export(str(tmp_path / "store.db"), lines.append)
    there = str(tmp_path / "new.db")
    with pytest.raises(Incompatible, match=words):
        inspection.restore(there, spoil(lines))
    assert inspection.restore(there, lines) == len(lines) - 2, "nothing is in the way"


async def test_a_store_in_use_may_be_looked_at(where: str) -> None:
    store = await opened(where)
    await store.commit(Put(WEB, "u1", b"one"))
    assert inspection.check(where).revision == 1
    lines: list[bytes] = []
    assert inspection.export(where, lines.append) == []
    assert re.search(rb'"table":"objects".*"name":"web"', b"".join(lines))
    await store.commit(Put(WEB, "u1", b"two"))
    await store.close()
