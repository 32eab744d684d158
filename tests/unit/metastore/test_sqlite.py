"""What only SQLite files have: one process at a time, a disk that refuses, kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from metastore.api import Damaged, InUse, Key, Put, Unavailable
from metastore.sql import open_store

POD = Key("pods", "default", "web")


async def test_one_writer_and_no_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_store(path)
    with pytest.raises(InUse, match="another process"):
        await open_store(path)
    await store.close()
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(Damaged, match="not a database"):
        await open_store(garbage)


async def test_a_refusing_disk_is_reported_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    """S-31, the store's half: a write that the disk refuses raises Unavailable, and the store works again after."""
    store = await open_store(tmp_path / "store.db")
    await store.commit(Put(POD, "u1", b"1"))
    connection = store._database.writer.connection.driver_connection
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
