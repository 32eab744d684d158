"""SQLite: a file with one writer, in WAL mode with synchronous=FULL. Reads are short and never wait for the writer."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from metastore.api import Damaged, InUse, Key, Row, Unavailable
from metastore.database import Rows, column_names, failure, key_names
from metastore.integrity import require
from metastore.schema import objects

MEMORY = ":memory:"

_PAGE_BYTES = 1024
"""A commit writes each page that it touches, whole; most touch few bytes of many pages. Of new files only."""
_KEYS_AT_ONCE = 256
"""Bounds the parameters of one statement."""
_COMPANIONS = ("-wal", "-shm")
_ASIDE_KEPT = 3
_CHECKPOINT_PAGES = 4000
"""About 4 MB of log between two checkpoints, as SQLite's default is with its default page."""


class SqliteDatabase:
    """Raises InUse, Damaged, Unavailable."""

    shared = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.label = str(path)
        self.inline = self.label == MEMORY
        self._lock = None if self.inline else _lock(path)
        try:
            self._engine = _engine(self.label)
            self.writer = self._engine.connect().execution_options(writer=True)
            self._reader = self._engine.connect()
            found = self._reader.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            self._reader.rollback()
        except SQLAlchemyError as error:
            self._unlock()
            raise failure(f"cannot open the store {path}", error) from error
        if found != "ok":
            self.close()
            raise Damaged(f"cannot open the store {path}: {found}")

    def lock_tables(self) -> None:
        """The file's lock has done it."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._reader.begin():
            yield self._reader

    asking = reading

    # The statements of every commit are written out: for a few rows, building them would take most of the time.

    def found(self, keys: Collection[Key]) -> dict[Key, Row]:
        rows: dict[Key, Row] = {}
        names = list(keys)
        for start in range(0, len(names), _KEYS_AT_ONCE):
            some = names[start : start + _KEYS_AT_ONCE]
            values = tuple(part for key in some for part in (key.kind, key.namespace, key.name))
            for kind, namespace, name, *rest, checksum in self.writer.exec_driver_sql(_found(len(some)), values):
                key = Key(kind, namespace, name)
                rows[key] = require(Row(key, *rest), checksum)
        return rows

    def insert(self, table: Table, rows: Rows) -> None:
        names = column_names(table)
        marks = ", ".join("?" * len(names))
        self._many(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})", names, rows)

    def update(self, table: Table, rows: Rows) -> None:
        keys = key_names(table)
        others = [name for name in column_names(table) if name not in keys]
        values, same = (joint.join(f"{name} = ?" for name in some) for joint, some in ((", ", others), (" AND ", keys)))
        self._many(f"UPDATE {table.name} SET {values} WHERE {same}", [*others, *keys], rows)

    def _many(self, statement: str, names: Sequence[str], rows: Rows) -> None:
        self.writer.exec_driver_sql(statement, [tuple(row[name] for name in names) for row in rows])

    def announce(self, revision: int) -> None:
        """There is nobody else."""

    async def listen(self, heard: Callable[[int], None]) -> None:
        """There is nobody else."""

    def close(self) -> None:
        for connection in (self._reader, self.writer):
            with suppress(SQLAlchemyError):
                connection.close()
        self._engine.dispose()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock:
            self._lock.close()


def set_aside(path: Path) -> Path:
    """Rename a store that cannot be used, with what belongs to it, so that a new one can be made. Nobody may have it
    open. The newest of those set aside are kept. Raises OSError."""
    older = sorted(_numbered(path))
    number = older[-1] + 1 if older else 1
    aside = _aside(path, number)
    for suffix in (*_COMPANIONS, ""):  # the file itself last: until then it is found, and set aside, again
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    for old in older[: len(older) + 1 - _ASIDE_KEPT]:
        for suffix in ("", *_COMPANIONS):
            _aside(path, old).with_name(_aside(path, old).name + suffix).unlink(missing_ok=True)
    return aside


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.bad-{number}")


def _numbered(path: Path) -> Iterator[int]:
    for found in path.parent.glob(f"{path.name}.bad-*"):
        number = found.name.removeprefix(f"{path.name}.bad-")
        if number.isdecimal():
            yield int(number)


def _found(count: int) -> str:
    """A cross join keeps its order: each wanted key is looked up, whatever the planner thinks of the table's size."""
    names = ", ".join(f"objects.{name}" for name in column_names(objects))
    same = " AND ".join(f"objects.{name} = wanted.{name}" for name in key_names(objects))
    wanted = f"WITH wanted({', '.join(key_names(objects))}) AS (VALUES {', '.join(['(?, ?, ?)'] * count)})"
    return f"{wanted} SELECT {names} FROM wanted CROSS JOIN objects ON {same}"


def _lock(path: str | os.PathLike[str]) -> IO[bytes]:
    """Held as long as the store is open; the kernel releases it however the process ends."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{os.fspath(path)}.lock", "ab")  # noqa: SIM115 - closed with the store
    except OSError as error:
        raise Unavailable(f"cannot open the store {path}: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InUse(f"the store {path} is open in another process") from error
    return lock


def _engine(path: str) -> Engine:
    # A shared-cache URI lets reader and writer see one in-memory database.
    memory = f"file:{secrets.token_hex(8)}?mode=memory&cache=shared&uri=true"
    arguments: dict[str, Any] = {"check_same_thread": False, "timeout": 10.0}
    url = f"sqlite:///{memory if path == MEMORY else path}"
    engine = create_engine(url, poolclass=NullPool, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        # The driver must not begin transactions by itself: BEGIN IMMEDIATE below decides (S-33).
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        if path == MEMORY:
            cursor.execute("PRAGMA read_uncommitted=1")
        cursor.close()

    @event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("writer", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine
