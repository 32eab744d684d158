"""The store on SQLAlchemy Core: SQLite in WAL mode with synchronous=FULL, one writer, group commit.

Reads happen on the event loop's thread through a connection of their own (they are short and never wait for the
writer in WAL mode); writes happen on one writer thread, which takes all commits that wait into one transaction.
With `inline=True` there is no thread at all: simulations run on a virtual clock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from metastore.api import (
    STORE_ID,
    Change,
    ChangeType,
    Committed,
    Compacted,
    Incompatible,
    InUse,
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
from metastore.schema import SCHEMA_VERSION, journal, log, metadata, objects, outbox, scalars
from metastore.watch import LiveWatch
from metastore.writer import Writer, fetch

T = TypeVar("T")

_BATCH_MAX = 256
"""Commits in one transaction at most: bounds how long the first of them waits."""
_PAGE = 500
"""Changes read from the log at once for a watcher's backlog."""


async def open_store(
    path: str | os.PathLike[str],
    *,
    inline: bool = False,
    log_bound: int = 2000,
    new_id: Callable[[], str] = lambda: secrets.token_hex(16),
) -> SqlStore:
    """Open the store at `path`, creating it (and its directory) if it is not there; `:memory:` for one in memory.

    `log_bound` is how many LOG entries the outbox keeps. Raises InUse when another process has it open, Incompatible
    for a file that is no store or was written by a newer Copepod, Unavailable when the disk refuses.
    """
    lock = _lock(path) if str(path) != ":memory:" else None
    try:
        engine = _engine(path)
        with _our_errors(path):
            connection = engine.connect().execution_options(writer=True)
            _initialise(connection, path, new_id)
        return SqlStore(engine, connection, lock, inline=inline or str(path) == ":memory:", log_bound=log_bound)
    except BaseException:
        if lock:
            lock.close()
        raise


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


def _engine(path: str | os.PathLike[str]) -> Engine:
    memory = str(path) == ":memory:"
    # A shared-cache URI lets reader and writer see one in-memory database.
    url = (
        "sqlite:///file:" + secrets.token_hex(8) + "?mode=memory&cache=shared&uri=true"
        if memory
        else f"sqlite:///{path}"
    )
    arguments: dict[str, Any] = {"check_same_thread": False, "timeout": 10.0}
    engine = create_engine(url, poolclass=NullPool, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        # The driver must not begin transactions by itself: BEGIN IMMEDIATE below decides (S-33).
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        if memory:
            cursor.execute("PRAGMA read_uncommitted=1")
        cursor.close()

    @event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("writer", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


@contextmanager
def _our_errors(path: object) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error)
        if "not a database" in reason or "malformed" in reason:
            raise Incompatible(f"{path} is not a Copepod store: {reason}") from error
        raise Unavailable(f"cannot open the store {path}: {reason}") from error


def _initialise(connection: Connection, path: object, new_id: Callable[[], str]) -> None:
    with connection.begin():
        metadata.create_all(connection)
        found = {row.name: row.value for row in connection.execute(select(scalars))}
        if STORE_ID not in found:
            fresh = {STORE_ID: new_id(), "schema_version": str(SCHEMA_VERSION)}
            connection.execute(insert(scalars), [{"name": name, "value": value} for name, value in fresh.items()])
            return
    version = found.get("schema_version")
    if version != str(SCHEMA_VERSION):
        connection.close()
        raise Incompatible(f"{path} has schema version {version}; this Copepod reads {SCHEMA_VERSION}")


class SqlStore:
    """Implements metastore.api.Store. Made by `open_store`, inside a running event loop."""

    def __init__(
        self, engine: Engine, connection: Connection, lock: IO[bytes] | None, *, inline: bool, log_bound: int
    ) -> None:
        self._engine = engine
        self._lock = lock
        self._reader = engine.connect()
        self._write_connection = connection
        self._writer = Writer(connection, log_bound)
        self._inline = inline
        self._thread = None if inline else ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._waiting: list[tuple[Sequence[Op], asyncio.Future[Committed]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._watches: set[LiveWatch] = set()
        self._revision = self._writer.counters.revision
        self._closed = False
        self._store_id = self._scalar(STORE_ID) or ""

    # Reading

    @property
    def store_id(self) -> str:
        return self._store_id

    @property
    def revision(self) -> int:
        return self._revision

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            with self._reader.begin():
                return query(self._reader)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store cannot be read: {getattr(error, 'orig', None) or error}") from error

    def _scalar(self, name: str) -> str | None:
        query = select(scalars.c.value).where(scalars.c.name == name)
        return self._read(lambda connection: connection.execute(query).scalar_one_or_none())

    async def get(self, key: Key) -> Row | None:
        return self._read(lambda connection: fetch(connection, key))

    async def list(self, kind: str, namespace: str | None = None, *, at: int | None = None) -> Listing:
        if at is None:
            return self._read(lambda connection: _current(connection, kind, namespace))
        return self._read(lambda connection: _past(connection, kind, namespace, at))

    async def meta(self, name: str) -> str | None:
        return self._scalar(name)

    async def outbox(self, limit: int = 100) -> Sequence[OutboxEntry]:
        query = select(outbox).order_by(outbox.c.number).limit(limit)
        rows = self._read(lambda connection: connection.execute(query).all())
        return [OutboxEntry(row.number, Lane(row.lane), row.subject, bytes(row.value)) for row in rows]

    async def outbox_high(self) -> int:
        return self._writer.counters.outbox_high

    async def outbox_dropped(self) -> int:
        return self._writer.counters.outbox_dropped

    async def journal(self) -> Sequence[JournalEntry]:
        query = select(journal).order_by(journal.c.seq)
        rows = self._read(lambda connection: connection.execute(query).all())
        return [JournalEntry(row.id, row.subject, row.action, bytes(row.detail)) for row in rows]

    def watch(self, after: int, kinds: frozenset[str] | None = None, *, capacity: int = 1024) -> LiveWatch:
        self._require_history(after)
        watch = LiveWatch(after, self._revision, kinds, capacity, self._backlog, self._watches.discard)
        self._watches.add(watch)
        return watch

    def _require_history(self, after: int) -> None:
        oldest = self._writer.counters.compacted
        if after < oldest:
            raise Compacted(after, oldest)

    def _backlog(self, after: int, upto: int, kinds: frozenset[str] | None) -> Sequence[Change]:
        changes = self._read(lambda connection: _history(connection, after, upto, kinds))
        self._require_history(after)
        return changes

    # Writing

    async def commit(self, *ops: Op) -> Committed:
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._waiting.append((ops, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(), name="metastore-flush")
        # Shielded: a caller that is cancelled must not cancel a commit that others share.
        return await asyncio.shield(future)

    async def compact(self, upto: int) -> None:
        await self._on_writer(lambda: self._writer.compact(upto))

    async def close(self) -> None:
        """Finish what waits, then let go of the file. Watches end."""
        self._closed = True
        while self._flushing is not None:
            await asyncio.shield(self._flushing)
        for watch in tuple(self._watches):
            watch.close()
        if self._thread:
            self._thread.shutdown()
        for connection in (self._reader, self._write_connection):
            with suppress(SQLAlchemyError):
                connection.close()
        self._engine.dispose()
        if self._lock:
            self._lock.close()

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
            results = [error] * len(batch)
        for (ops, future), result in zip(batch, results, strict=True):
            if isinstance(result, Committed):
                self._publish(ops, result)
            if future.done():
                continue
            if isinstance(result, Committed):
                future.set_result(result)
            else:
                future.set_exception(result)

    def _publish(self, ops: Sequence[Op], result: Committed) -> None:
        for op in ops:
            if isinstance(op, SetMeta) and op.name == STORE_ID and op.value:
                self._store_id = op.value
        self._revision = max(self._revision, result.revision)
        for change in result.changes:
            for watch in tuple(self._watches):
                watch.offer(change)


def _row(kind: str, found: Any) -> Row:
    return Row(Key(kind, found.namespace, found.name), found.uid, found.revision, found.created, bytes(found.value))


def _current(connection: Connection, kind: str, namespace: str | None) -> Listing:
    query = select(objects).where(objects.c.kind == kind).order_by(objects.c.namespace, objects.c.name)
    if namespace is not None:
        query = query.where(objects.c.namespace == namespace)
    rows = tuple(_row(kind, found) for found in connection.execute(query))
    head = select(scalars.c.value).where(scalars.c.name == "revision")
    return Listing(rows, int(connection.execute(head).scalar_one_or_none() or 0))


def _past(connection: Connection, kind: str, namespace: str | None, at: int) -> Listing:
    oldest = select(scalars.c.value).where(scalars.c.name == "compacted")
    compacted = int(connection.execute(oldest).scalar_one_or_none() or 0)
    if at < compacted:
        raise Compacted(at, compacted)
    newest = (
        select(func.max(log.c.revision).label("revision"))
        .where(log.c.kind == kind, log.c.revision <= at)
        .group_by(log.c.namespace, log.c.name)
        .subquery()
    )
    query = (
        select(log)
        .join(newest, log.c.revision == newest.c.revision)
        .where(log.c.type == ChangeType.PUT.value)
        .order_by(log.c.namespace, log.c.name)
    )
    if namespace is not None:
        query = query.where(log.c.namespace == namespace)
    return Listing(tuple(_row(kind, found) for found in connection.execute(query)), at)


def _history(connection: Connection, after: int, upto: int, kinds: frozenset[str] | None) -> list[Change]:
    before = log.alias("before")
    query = (
        select(
            log,
            before.c.uid.label("old_uid"),
            before.c.created.label("old_created"),
            before.c.value.label("old_value"),
        )
        .outerjoin(before, (before.c.revision == log.c.previous) & (log.c.previous > 0))
        .where(log.c.revision > after, log.c.revision <= upto)
        .order_by(log.c.revision)
        .limit(_PAGE)
    )
    if kinds is not None:
        query = query.where(log.c.kind.in_(kinds))
    return [_change(found) for found in connection.execute(query)]


def _change(found: Any) -> Change:
    row = _row(found.kind, found)
    old = None
    if found.old_value is not None:
        old = Row(row.key, found.old_uid, found.previous, found.old_created, bytes(found.old_value))
    return Change(ChangeType(found.type), row, old)
