"""`copepod metastore`, as it is typed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgelab.__main__ import main
from metastore.api import Key, Put
from metastore.sql import open_store


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A node's state directory."""

    async def fill() -> None:
        store = await open_store(tmp_path / "node" / "metastore.db", new_id=lambda: "node-store")
        await store.commit(
            Put(Key("pods", "default", "web"), "u1", b'{"a":1}'), Put(Key("secrets", "", "s"), "u2", b"{}")
        )
        await store.close()

    asyncio.run(fill())
    return tmp_path / "node"


def run(*arguments: object, input: str | None = None) -> Result:
    return CliRunner().invoke(main, ["metastore", *map(str, arguments)], input=input)


def damage(state: Path) -> None:
    with closing(sqlite3.connect(state / "metastore.db", isolation_level=None)) as store:
        store.execute("UPDATE objects SET value = x'00' WHERE kind = 'pods'")


def test_check(state: Path) -> None:
    for where in (state, state / "metastore.db"):
        found = run("check", where)
        assert (found.exit_code, found.output) == (
            0, "store node-store, schema 2, revision 2: 1 pods, 1 secrets\nok\n",
        )  # fmt: skip
    damage(state)
    found = run("check", state)
    assert found.exit_code == 1
    assert found.output.splitlines()[1:] == ["DAMAGED pods default/web at revision 1: its checksum is wrong"]


def test_export_and_import(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "export.jsonl"
    assert run("export", state, "--out", out).exit_code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert run("export", state).output == out.read_text()
    assert run("import", out, tmp_path / "new.db").exit_code == 0
    assert settled(run("export", tmp_path / "new.db").output) == settled(out.read_text())
    piped = run("import", "-", tmp_path / "piped.db", input=out.read_text())
    rows = len(out.read_text().splitlines()) - 2
    assert (piped.exit_code, piped.output) == (0, f"imported {rows} rows into {tmp_path}/piped.db\n")


def settled(export: str) -> list[str]:
    """Without how far history is forgotten: all of it is, in a store that was imported."""
    return [line for line in export.splitlines() if '"compacted"' not in line]


def test_what_is_lost_is_said(state: Path) -> None:
    damage(state)
    found = run("export", state)
    assert found.exit_code == 1
    assert found.stderr == "LOST pods default/web at revision 1: its checksum is wrong\n"


def test_what_cannot_be_is_one_sentence(state: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage").write_bytes(b"not a database " * 100)
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE t (x)").connection.close()
    export = tmp_path / "export.jsonl"
    run("export", state, "--out", export)
    cases = {
        ("check", tmp_path / "nowhere.db"): "there is no store",
        ("check", tmp_path / "empty"): "holds no one store (hub.db: a hub's, metastore.db: a node's); name the file",
        ("check", tmp_path / "garbage"): "file is not a database",
        ("check", tmp_path / "other.db"): "is not a Copepod store",
        ("check", "postgresql://nobody@localhost:1/none"): "cannot open the store",
        ("export", state, "--out", export): "cannot write",
        ("import", export, state): "is a store already",
        ("import", export, tmp_path / "empty"): "is a directory: name the file that the new store shall be",
        ("import", tmp_path / "garbage", tmp_path / "x.db"): "line 1 is not of an export",
    }
    for arguments, words in cases.items():
        found = run(*arguments)
        assert found.exit_code == 1, (arguments, found.output)
        assert words in found.output, arguments
        assert found.output.startswith("Error: ")
        assert "Traceback" not in found.output


def test_a_store_that_is_written_cannot_be_imported_over(state: Path, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    run("export", state, "--out", export)

    async def held() -> Result:
        store = await open_store(tmp_path / "held.db")
        try:
            return await asyncio.to_thread(run, "import", export, tmp_path / "held.db")
        finally:
            await store.close()

    found = asyncio.run(held())
    assert found.exit_code == 1
    assert "is open in another process" in found.output
