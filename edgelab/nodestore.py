"""Looks into a node's own store from outside, while the agent runs or after its end, without disturbing it.

A store has one writer, who holds it locked; so what is read is a copy, made by SQLite's online backup.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edgecore.agent import INSTALLATION_FILE, STORE_FILE
from edgecore.record import RECORDS, PodRecord
from metastore.api import Store, StoreError
from metastore.sql import open_store


class NoStore(Exception):
    """There is no store, or it cannot be read."""


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    """Raises NoStore."""
    with tempfile.TemporaryDirectory(prefix="copepod-") as directory:
        copy = Path(directory) / "copy.db"
        _copy(path, copy)
        try:
            store = await open_store(copy)
        except StoreError as error:
            raise NoStore(f"cannot read the store {path}: {error}") from error
        try:
            yield store
        finally:
            await store.close()


def installation(state_dir: Path) -> str:
    """The id that the node's VMs carry. Raises NoStore."""
    try:
        return (state_dir / INSTALLATION_FILE).read_text().strip()
    except OSError as error:
        raise NoStore(f"cannot read the installation id in {state_dir}: {error.strerror}") from error


async def pod_records(state_dir: Path) -> dict[str, PodRecord]:
    """What the node remembers of each pod, by UID; `status` in it is what it told the hub last. Raises NoStore."""
    async with opened(state_dir / STORE_FILE) as store:
        rows = (await store.list(RECORDS)).rows
    return {row.key.name: PodRecord.from_json(row.value) for row in rows}


def _copy(path: Path, copy: Path) -> None:
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error as error:
        raise NoStore(f"cannot read the store {path}: {error}") from error
