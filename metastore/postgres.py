"""PostgreSQL: a database that several hub replicas write and watch. The one door to psycopg (the extra `postgres`).

Writers take turns by a row lock (metastore.writer), reads see one snapshot each, and NOTIFY carries the news.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Integer,
    LargeBinary,
    String,
    Table,
    create_engine,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from metastore import exclusive
from metastore.api import Key, Row, Unavailable
from metastore.database import Rows, column_names, key_names, reason
from metastore.queries import fetch_many

SCHEMES = ("postgresql://", "postgres://")
READERS = 4
"""Connections, and threads, that read."""

_CHANNEL = "copepod_metastore"
_LOCK = 0x636F7065
"""Of the advisory lock under which tables are made."""
_RECONNECT_SECONDS = 2.0

_log = logging.getLogger(__name__)


class PostgresDatabase:
    """Raises Unavailable, and with `alone` InUse while another such process has the database."""

    shared = True
    inline = False

    def __init__(self, url: str, *, alone: bool = False) -> None:
        self._url = _parsed(url)
        self.label = self._url.render_as_string(hide_password=True)
        try:
            engine = create_engine(self._url, pool_size=READERS, max_overflow=0)
            self._writers = create_engine(self._url, pool_size=1, max_overflow=0)
        except ImportError as error:
            raise Unavailable(f"{self.label} needs the driver: pip install 'copepod[postgres]'") from error
        self._engine = engine
        self._snapshots = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._questions = engine.execution_options(isolation_level="AUTOCOMMIT")
        if alone:
            exclusive.hold(self._writers, self.label)
        try:
            self.writer = self._writers.connect()
        except SQLAlchemyError as error:
            raise Unavailable(f"cannot open the store {self.label}: {reason(error)}") from error

    def lock_tables(self) -> None:
        self.writer.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._snapshots.begin() as connection:
            yield connection

    @contextmanager
    def asking(self) -> Iterator[Connection]:
        with self._questions.connect() as connection:
            yield connection

    def found(self, keys: Collection[Key]) -> dict[Key, Row]:
        return fetch_many(self.writer, keys)

    def insert(self, table: Table, rows: Rows) -> None:
        names = ", ".join(column_names(table))
        self._write(f"INSERT INTO {table.name} ({names}) SELECT * FROM {_unnested(table)}", table, rows)

    def update(self, table: Table, rows: Rows) -> None:
        columns, keys = column_names(table), key_names(table)
        # The key's columns are compared by bytes; what is unnested has the database's collation.
        same = " AND ".join(f'old.{name} = new.{name} COLLATE "C"' for name in keys)
        values = ", ".join(f"{name} = new.{name}" for name in columns if name not in keys)
        new = f"{_unnested(table)} AS new({', '.join(columns)})"
        self._write(f"UPDATE {table.name} AS old SET {values} FROM {new} WHERE {same}", table, rows)

    def _write(self, statement: str, table: Table, rows: Rows) -> None:
        """One statement and one message for any number of rows: each column goes as an array."""
        arrays = {name: [row[name] for row in rows] for name in column_names(table)}
        self.writer.exec_driver_sql(statement, arrays)

    def announce(self, revision: int) -> None:
        self.writer.execute(select(func.pg_notify(_CHANNEL, str(revision))))

    async def listen(self, heard: Callable[[int], None]) -> None:
        from psycopg import AsyncConnection, OperationalError

        address = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        while True:
            try:
                async with await AsyncConnection.connect(address, autocommit=True) as connection:
                    await connection.execute(f"LISTEN {_CHANNEL}")
                    async for note in connection.notifies():
                        heard(int(note.payload))
            except OperationalError as error:
                # The store asks at intervals anyway; only the speed is lost until the connection is back.
                _log.warning("not listening to %s: %s", self.label, str(error).strip())
            await asyncio.sleep(_RECONNECT_SECONDS)

    def close(self) -> None:
        with suppress(SQLAlchemyError):
            self.writer.close()
        self._engine.dispose()
        self._writers.dispose()


@cache
def _unnested(table: Table) -> str:
    kinds = {BigInteger: "bigint", Integer: "integer", LargeBinary: "bytea", String: "text"}
    arrays = (f"%({column.name})b::{kinds[type(column.type)]}[]" for column in table.columns)
    return f"unnest({', '.join(arrays)})"


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg")
    except ArgumentError as error:
        raise Unavailable("the store's URL cannot be read; it looks like postgresql://user@host:5432/name") from error
