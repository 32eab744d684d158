"""The store on SQLAlchemy Core, over SQLite or PostgreSQL: one writer in this process, group commit, watches.

Writes happen on one writer thread, which takes all commits that wait into one transaction. Reads of SQLite happen on
the event loop's thread (they are short and never wait for the writer), of a shared database on threads of their own.
What other processes commit to a shared database is followed from its log, in order, by one path: `_catch_up`.
With `inline=True` there is no thread at all: simulations run on a virtual clock.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TypeVar

import orjson
from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from metastore import exclusive, postgres, queries
from metastore.api import (
    QUARANTINED,
    STORE_ID,
    Change,
    Committed,
    Compacted,
    Damaged,
    Incompatible,
    JournalEntry,
    Key,
    Lane,
    Listing,
    Op,
    OutboxEntry,
    Row,
    SetMeta,
    StoreError,
    Unavailable,
)
from metastore.cache import KindRows, RowCache
from metastore.database import Database, failure, reason
from metastore.integrity import put_aside
from metastore.migrations import migrate
from metastore.postgres import PostgresDatabase
from metastore.schema import SCHEMA_VERSION, journal, metadata, outbox, scalars
from metastore.sqlite import SqliteDatabase
from metastore.watch import LiveWatch, Watches
from metastore.writer import COUNTERS, Writer

T = TypeVar("T")
_Where = Callable[[], AbstractContextManager[Connection]]

_BATCH_MAX = 256
"""Commits in one transaction at most: bounds how long the first of them waits."""
CACHE_BYTES = 64 * 1024 * 1024
"""Of current rows in memory, unless a store is opened with another bound."""
_ASK_SECONDS = 1.0
"""How often a shared database is asked for news that its notifications may have failed to bring."""
_HOLD_SECONDS = 3.0
VERSION = "schema_version"
"""The scalar that holds it."""

_log = logging.getLogger(__name__)


async def open_store(
    where: str | os.PathLike[str],
    *,
    inline: bool = False,
    alone: bool = False,
    log_bound: int = 2000,
    cache_bytes: int = CACHE_BYTES,
    new_id: Callable[[], str] = lambda: secrets.token_hex(16),
) -> SqlStore:
    """Open the store, creating it if it is not there: `where` is a file's path (its directory is made, too),
    `:memory:`, or the URL of a PostgreSQL database (postgresql://user@host:5432/name), which several hubs may share.

    `alone`: nobody else who says so, too, may have that database (a file always has one owner).
    `log_bound` is how many LOG entries the outbox keeps, `cache_bytes` what current rows may take in memory (0: they
    are read from the database each time). A store of an older schema is migrated; rows that are not what was written
    go into quarantine (`put_aside`). Raises InUse when another process has it open, Incompatible for what is no store
    or was written by a newer Copepod, Damaged for a file that is broken, Unavailable when the database refuses.
    """
    database: Database
    if str(where).startswith(postgres.SCHEMES):
        database = await asyncio.to_thread(PostgresDatabase, str(where), alone=alone)
    else:
        database = SqliteDatabase(where)
    try:
        _initialise(database, new_id)
        with database.reading() as connection:
            head = queries.head(connection)
            labels = queries.scalar(connection, QUARANTINED)
    except BaseException as error:
        database.close()
        if isinstance(error, SQLAlchemyError):
            raise failure(f"cannot open the store {database.label}", error) from error
        raise
    cache = RowCache(cache_bytes)
    store = SqlStore(database, head, cache, inline=inline or database.inline, log_bound=log_bound)
    store.put_aside = tuple(orjson.loads(labels or "[]"))
    return store


def _initialise(database: Database, new_id: Callable[[], str]) -> None:
    """One transaction: a program that is killed here has changed nothing."""
    connection = database.writer
    with connection.begin():
        database.lock_tables()
        version = version_of(connection, database.label)
        if version is None:
            metadata.create_all(connection)
            first = dict.fromkeys(COUNTERS, "0") | {STORE_ID: new_id(), VERSION: str(SCHEMA_VERSION)}
            connection.execute(insert(scalars), [{"name": name, "value": value} for name, value in first.items()])
        elif version < SCHEMA_VERSION:
            migrate(connection, version, database.label)
            connection.execute(update(scalars).where(scalars.c.name == VERSION).values(value=str(SCHEMA_VERSION)))
        # A shared database looks after its own pages, and may be too large to be read at every start.
        if not database.shared:
            put_aside(connection)


def version_of(connection: Connection, label: str) -> int | None:
    """None where there is no store yet. Raises Incompatible."""
    if not inspect(connection).has_table(scalars.name):
        return None
    found = queries.scalar(connection, VERSION)
    if found is None or not found.isdecimal() or not int(found):
        raise Incompatible(f"{label} is not a Copepod store: it has no schema version")
    if int(found) > SCHEMA_VERSION:
        raise Incompatible(
            f"{label} was written by a newer Copepod (schema version {found}; this one reads up to {SCHEMA_VERSION}): "
            "install that one again, or restore an export of the store that this one made"
        )
    return int(found)


class SqlStore:
    """Implements metastore.api.Store. Made by `open_store`, inside a running event loop."""

    def __init__(
        self, database: Database, head: queries.Head, cache: RowCache, *, inline: bool, log_bound: int
    ) -> None:
        self._database = database
        self._cache = cache
        self._loading = asyncio.Lock()
        self._refreshing = asyncio.Lock()
        self._asked = self._answered = 0
        self._writer = Writer(database, log_bound)
        self._thread = None if inline else ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._readers = ThreadPoolExecutor(postgres.READERS, "metastore-read") if database.shared else None
        self._waiting: list[tuple[Sequence[Op], asyncio.Future[Committed]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._watches = Watches()
        self._head = head
        self._news = asyncio.Event()
        self._following = asyncio.Lock()
        self._closed = False
        self.damaged = asyncio.Event()
        """Set when something was not what was written: only a new start, which looks at everything, helps."""
        self.put_aside: Sequence[str] = ()
        """What is in quarantine and nobody has mended yet, when it was opened."""
        self._background: list[asyncio.Task[None]] = []
        if database.shared:
            self._background = [
                asyncio.create_task(database.listen(self._heard), name="metastore-listen"),
                asyncio.create_task(self._follow(), name="metastore-follow"),
            ]

    def _noted(self, error: StoreError) -> StoreError:
        if isinstance(error, Damaged):
            self.damaged.set()
        return error

    # Reading

    @property
    def store_id(self) -> str:
        return self._head.store_id

    @property
    def revision(self) -> int:
        return self._head.revision

    async def _read(self, query: Callable[[Connection], T], *, statements: int = 2) -> T:
        if self._closed:
            raise Unavailable("the store is closed")
        where = self._database.asking if statements == 1 else self._database.reading
        if self._readers is None:
            return self._query(query, where)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query, where)

    def _query(self, query: Callable[[Connection], T], where: _Where, attempts: int = 2) -> T:
        try:
            with where() as connection:
                return query(connection)
        except SQLAlchemyError as error:
            # A pooled connection that broke while it was idle says nothing about the database now.
            if attempts > 1 and isinstance(error, DBAPIError) and error.connection_invalidated:
                return self._query(query, where, attempts - 1)
            raise self._noted(failure("the store cannot be read", error)) from error
        except Damaged as error:
            self._noted(error)
            raise

    async def get(self, key: Key, *, known: bool = False) -> Row | None:
        rows = await self._current(key.kind, known)
        if rows is not None:
            return rows.get(key)
        row = await self._read(lambda connection: queries.fetch(connection, key))
        if row is not None:
            await self._catch_up(row.revision)
        return row

    async def list(
        self, kind: str, namespace: str | None = None, *, at: int | None = None, known: bool = False
    ) -> Listing:
        rows = await self._current(kind, known)
        if at is not None and at < self._head.compacted:
            raise Compacted(at, self._head.compacted)
        if rows is not None and (at is None or rows.changed <= at <= self.revision):
            return Listing(rows.listed(namespace), self.revision if at is None else at)
        if at is not None:
            return await self._read(lambda connection: queries.past(connection, kind, namespace, at))
        listing = await self._read(lambda connection: queries.current(connection, kind, namespace))
        await self._catch_up(listing.revision)
        return listing

    def held(self, kind: str, namespace: str | None = None) -> Sequence[Row] | None:
        rows = None if self._closed else self._cache.find(kind)
        return rows.listed(namespace) if rows is not None else None

    async def _current(self, kind: str, known: bool) -> KindRows | None:
        """A kind's rows, current until the caller waits for something. None: it is not held in memory."""
        if self._closed:
            raise Unavailable("the store is closed")
        if not known:
            await self.refresh()
        rows = self._cache.find(kind)
        return await self._load(kind) if rows is None and self._cache.wants(kind) else rows

    async def _load(self, kind: str) -> KindRows | None:
        async with self._loading:
            if not self._cache.wants(kind):
                return self._cache.find(kind)
            self._cache.begin(kind)
            try:
                listing = await self._read(lambda connection: queries.current(connection, kind, None))
                await self._catch_up(listing.revision)
                return self._cache.install(kind, listing)
            finally:
                self._cache.abandon(kind)

    async def meta(self, name: str) -> str | None:
        return await self._read(lambda connection: queries.scalar(connection, name))

    async def outbox(self, limit: int = 100) -> Sequence[OutboxEntry]:
        query = select(outbox).order_by(outbox.c.number).limit(limit)
        rows = await self._read(lambda connection: connection.execute(query).all())
        return [OutboxEntry(row.number, Lane(row.lane), row.subject, row.value) for row in rows]

    async def outbox_high(self) -> int:
        return int(await self.meta("outbox_high") or 0)

    async def outbox_dropped(self) -> int:
        return int(await self.meta("outbox_dropped") or 0)

    async def journal(self) -> Sequence[JournalEntry]:
        query = select(journal).order_by(journal.c.seq)
        rows = await self._read(lambda connection: connection.execute(query).all())
        return [JournalEntry(row.id, row.subject, row.action, row.detail) for row in rows]

    def watch(self, after: int, kinds: frozenset[str] | None = None, *, capacity: int = 1024) -> LiveWatch:
        if after < self._head.compacted:
            raise Compacted(after, self._head.compacted)
        watch = LiveWatch(after, self.revision, kinds, capacity, self._backlog, self._watches.discard)
        self._watches.add(watch)
        return watch

    async def _backlog(self, after: int, upto: int, kinds: frozenset[str] | None) -> Sequence[Change]:
        return await self._read(lambda connection: queries.history(connection, after, upto, kinds))

    # Following other writers

    async def refresh(self) -> int:
        """Those who ask while an answer is on its way are answered together by the next: theirs must not be older than
        their question."""
        if not self._database.shared:
            return self.revision
        self._asked += 1
        question = self._asked
        async with self._refreshing:
            if self._answered < question:
                upto, before = self._asked, self._head
                head = await self._read(queries.head, statements=1)
                if head.revision < before.revision or head.store_id != before.store_id:
                    self._lose(head)
                await self._catch_up(head.revision)
                compacted = max(head.compacted, self._head.compacted)
                self._head = replace(self._head, compacted=compacted, store_id=head.store_id)
                self._answered = upto
        return self.revision

    def _lose(self, head: queries.Head) -> None:
        """What is known here is of another history (the database was restored from a copy), or has a gap before
        `head`: everybody lists again."""
        self._cache.clear()
        for watch in self._watches:
            watch.overrun()
        self._head = head

    def _heard(self, revision: int) -> None:
        if revision > self.revision:
            self._news.set()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_ASK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            try:
                await self.refresh()
            except Unavailable as error:
                _log.warning("cannot follow %s: %s", self._database.label, error)

    async def _catch_up(self, upto: int) -> None:
        """Publish what is committed up to revision `upto`: by others, or by our writer a moment ago."""
        if upto <= self.revision:
            return
        async with self._following:
            while self.revision < upto:
                try:
                    changes = await self._backlog(self.revision, upto, None)
                except Compacted:
                    # So far behind that the log cannot tell what was missed.
                    self._lose(replace(self._head, revision=upto))
                    changes = ()
                self._publish(changes, changes[-1].row.revision if changes else upto)

    def _publish(self, changes: Sequence[Change], revision: int) -> None:
        """What is known already is left out: a commit's result and the log may tell the same change."""
        for change in changes:
            if change.row.revision > self.revision:
                self._cache.apply(change)
                self._watches.offer(change)
        self._head = replace(self._head, revision=max(revision, self.revision))

    # Writing

    async def commit(self, *ops: Op) -> Committed:
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._waiting.append((ops, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(), name="metastore-flush")
        return await future  # a caller that is cancelled cancels this, and not the commit, which others share

    async def compact(self, upto: int) -> None:
        compacted = await self._on_writer(lambda: self._writer.compact(upto))
        self._head = replace(self._head, compacted=compacted)
        self._cache.reconsider()

    async def hold(self) -> None:
        """Until cancelled: see to it that a store opened `alone` still is this process's own, also while nothing is
        written. Raises InUse when another has taken it while this one had lost its connection."""
        while self._database.shared:
            await asyncio.sleep(_HOLD_SECONDS)
            try:
                await self._on_writer(lambda: exclusive.touch(self._database.writer))
            except SQLAlchemyError as error:
                _log.warning("%s is away: %s", self._database.label, reason(error))

    async def close(self) -> None:
        """Finish what waits, then let go of the database. Watches end."""
        self._closed = True
        while self._flushing is not None:
            await asyncio.shield(self._flushing)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for watch in self._watches:
            watch.close()
        for threads in (self._thread, self._readers):
            if threads:
                threads.shutdown()
        self._database.close()

    async def _on_writer(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            await asyncio.sleep(0)
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
                await self._write(batch)
        finally:
            self._flushing = None

    async def _write(self, batch: Sequence[tuple[Sequence[Op], asyncio.Future[Committed]]]) -> None:
        results: Sequence[Committed | StoreError]
        try:
            results = await self._on_writer(lambda: self._writer.write([ops for ops, _ in batch]))
        except StoreError as error:
            results = [self._noted(error)] * len(batch)
        await self._what_came_before(results)
        for (ops, future), result in zip(batch, results, strict=True):
            if isinstance(result, Committed):
                self._committed(ops, result)
            if future.done():
                continue
            if isinstance(result, Committed):
                future.set_result(result)
            else:
                future.set_exception(result)

    async def _what_came_before(self, results: Sequence[Committed | StoreError]) -> None:
        """Others' changes go out before ours. Where they cannot be read now, ours follow from the log with them."""
        first = next((r.changes[0].row.revision for r in results if isinstance(r, Committed) and r.changes), 0)
        with suppress(Unavailable):
            await self._catch_up(first - 1)

    def _committed(self, ops: Sequence[Op], result: Committed) -> None:
        for op in ops:
            if isinstance(op, SetMeta) and op.name == STORE_ID and op.value:
                self._head = replace(self._head, store_id=op.value)
        if result.changes and result.changes[0].row.revision <= self.revision + 1:
            self._publish(result.changes, result.revision)
