"""PostgreSQL: a database that several hub replicas write and watch. The one door to psycopg (the extra `postgres`).

Writers take turns by a row lock (metastore.writer), reads see one snapshot each, and NOTIFY carries the news.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import URL, Connection, create_engine, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from metastore.api import Unavailable
from metastore.database import reason

SCHEMES = ("postgresql://", "postgres://")
READERS = 4
"""Connections, and threads, that read."""

_CHANNEL = "copepod_metastore"
_LOCK = 0x636F7065
"""Of the advisory lock under which tables are made."""
_RECONNECT_SECONDS = 2.0

_log = logging.getLogger(__name__)


class PostgresDatabase:
    """Raises Unavailable."""

    shared = True
    inline = False

    def __init__(self, url: str) -> None:
        self._url = _parsed(url)
        self.label = self._url.render_as_string(hide_password=True)
        try:
            engine = create_engine(self._url, pool_size=READERS + 1, max_overflow=0)
        except ImportError as error:
            raise Unavailable(f"{self.label} needs the driver: pip install 'copepod[postgres]'") from error
        self._engine = engine
        self._snapshots = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        try:
            self.writer = engine.connect()
        except SQLAlchemyError as error:
            engine.dispose()
            raise Unavailable(f"cannot open the store {self.label}: {reason(error)}") from error

    def lock_tables(self) -> None:
        self.writer.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._snapshots.begin() as connection:
            yield connection

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


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg")
    except ArgumentError as error:
        raise Unavailable("the store's URL cannot be read; it looks like postgresql://user@host:5432/name") from error
