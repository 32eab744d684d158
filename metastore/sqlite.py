"""SQLite: a file with one writer, in WAL mode with synchronous=FULL. Reads are short and never wait for the writer."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, Table, and_, bindparam, create_engine, event, insert, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from metastore.api import Incompatible, InUse, Unavailable
from metastore.database import Rows, column_names, key_names, reason

MEMORY = ":memory:"

_PAGE_BYTES = 1024
"""A commit writes each page that it touches, whole; most touch few bytes of many pages. Of new files only."""
_CHECKPOINT_PAGES = 4000
"""About 4 MB of log between two checkpoints, as SQLite's default is with its default page."""


class SqliteDatabase:
    """Raises InUse, Incompatible, Unavailable."""

    shared = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.label = str(path)
        self.inline = self.label == MEMORY
        self._lock = None if self.inline else _lock(path)
        try:
            self._engine = _engine(self.label)
            self.writer = self._engine.connect().execution_options(writer=True)
            self._reader = self._engine.connect()
        except SQLAlchemyError as error:
            self._unlock()
            if "not a database" in reason(error) or "malformed" in reason(error):
                raise Incompatible(f"{path} is not a Copepod store: {reason(error)}") from error
            raise Unavailable(f"cannot open the store {path}: {reason(error)}") from error

    def lock_tables(self) -> None:
        """The file's lock has done it."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._reader.begin():
            yield self._reader

    asking = reading

    def insert(self, table: Table, rows: Rows) -> None:
        self.writer.execute(insert(table), rows)

    def update(self, table: Table, rows: Rows) -> None:
        keys = key_names(table)
        # A parameter may not have the name of a column that it is compared with.
        named = {name: f"k_{name}" if name in keys else name for name in column_names(table)}
        same = and_(*(table.c[name] == bindparam(named[name]) for name in keys))
        changed = update(table).where(same).values({name: bindparam(name) for name in named if name not in keys})
        self.writer.execute(changed, [{named[name]: value for name, value in row.items()} for row in rows])

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
