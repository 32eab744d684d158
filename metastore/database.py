"""What differs between databases, as a store sees it. `metastore.sqlite` and `metastore.postgres` implement it;
all other SQL is shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError

from metastore.api import Damaged, Key, Row, StoreError, Unavailable

_DAMAGE = ("malformed", "not a database", "file is encrypted", "unsupported file format")
"""SQLite's words for a file that is not what it wrote."""

Rows = Sequence[Mapping[str, object]]
"""Each with every column of the table they belong to."""


class Database(Protocol):
    """An open database. `writer` is used by one thread at a time."""

    @property
    def label(self) -> str:
        """For messages; without secrets."""

    @property
    def shared(self) -> bool:
        """Other processes write, too; and reading is a round trip, which must not hold up the event loop."""

    @property
    def inline(self) -> bool:
        """It must be written by the thread that reads it."""

    @property
    def writer(self) -> Connection: ...

    def lock_tables(self) -> None:
        """Inside a transaction of `writer`: nobody else makes tables until it ends."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one snapshot."""

    def asking(self) -> AbstractContextManager[Connection]:
        """For one statement, which is a snapshot by itself: on a server one round trip instead of three."""

    def found(self, keys: Collection[Key]) -> dict[Key, Row]:
        """The current rows under those of `keys` that exist; inside a transaction of `writer`."""

    def insert(self, table: Table, rows: Rows) -> None:
        """Inside a transaction of `writer`."""

    def update(self, table: Table, rows: Rows) -> None:
        """Rows that are there already, by their primary keys; inside a transaction of `writer`."""

    def announce(self, revision: int) -> None:
        """Inside a transaction of `writer`: wake those who `listen` when it is committed."""

    async def listen(self, heard: Callable[[int], None]) -> None:
        """Call `heard` with revisions that other processes announce, until cancelled. A hint: some may be missed."""

    def close(self) -> None: ...


def reason(error: SQLAlchemyError) -> str:
    """The database's own words, without the statement and its parameters (which may hold secrets)."""
    return str(getattr(error, "orig", None) or error).strip()


def failure(what: str, error: SQLAlchemyError) -> StoreError:
    """What it means to a store's user; `what` could not be done."""
    why = reason(error)
    kind = Damaged if any(words in why for words in _DAMAGE) else Unavailable
    return kind(f"{what}: {why}")


def column_names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def key_names(table: Table) -> list[str]:
    return [column.name for column in table.primary_key.columns]
