"""The one writer of this process: applies batches of commits inside one database transaction (group commit).

Runs on whatever thread the store gives it and owns the database's writing connection. A batch reads what it names,
plans (metastore.planning) and writes each table once. What is returned from `write` is durable.

Where several processes write one database, the counters' rows are the lock: read and locked first, they hold back
every other writer until the commit, so that revisions become visible in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from metastore.api import (
    Change,
    ChangeType,
    CloseEntry,
    Committed,
    Delete,
    Dequeue,
    Enqueue,
    Lane,
    Op,
    OpenEntry,
    Put,
    Row,
    SetMeta,
    StoreError,
    Unavailable,
)
from metastore.database import Database, failure, reason
from metastore.integrity import checksum, checksum_of, row_checksum
from metastore.planning import ObjectPlan
from metastore.queries import BY_KEY, bind
from metastore.schema import journal, log, objects, outbox, scalars

_DELETE = delete(objects).where(BY_KEY)
_COUNT = update(scalars).where(scalars.c.name == bindparam("k_name")).values(value=bindparam("v_value"))


@dataclass(frozen=True, slots=True)
class Counters:
    """Numbers kept in `scalars`."""

    revision: int = 0
    compacted: int = 0
    outbox_high: int = 0
    outbox_dropped: int = 0

    @classmethod
    def locked(cls, connection: Connection) -> Counters:
        """No other writer comes before the transaction's end (SQLite's transaction is that lock by itself)."""
        query = select(scalars).where(scalars.c.name.in_(COUNTERS)).order_by(scalars.c.name).with_for_update()
        return cls(**{row.name: int(row.value) for row in connection.execute(query)})

    def save(self, connection: Connection, before: Counters) -> None:
        found = ((name, getattr(self, name)) for name in COUNTERS)
        changed = [{"k_name": name, "v_value": str(value)} for name, value in found if value != getattr(before, name)]
        if changed:
            connection.execute(_COUNT, changed)


COUNTERS = tuple(field.name for field in fields(Counters))


class _Lists:
    """Scalars, outbox and journal within one transaction. Nothing here can be refused."""

    def __init__(self, connection: Connection, counters: Counters, log_bound: int) -> None:
        self._connection = connection
        self._log_bound = log_bound
        self.high = counters.outbox_high
        self.dropped = counters.outbox_dropped

    def apply(self, op: Op) -> None:
        match op:
            case SetMeta(name, value):
                self._set(name, value)
            case Enqueue():
                self._enqueue(op)
            case Dequeue(upto):
                self._connection.execute(delete(outbox).where(outbox.c.number <= upto))
            case OpenEntry():
                self._open(op)
            case CloseEntry(id):
                self._connection.execute(delete(journal).where(journal.c.id == id))

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self._connection.execute(delete(scalars).where(scalars.c.name == name))
        elif not self._connection.execute(_COUNT, {"k_name": name, "v_value": value}).rowcount:
            self._connection.execute(insert(scalars), {"name": name, "value": value})

    def _enqueue(self, op: Enqueue) -> None:
        if op.lane is Lane.LEVEL:
            same = and_(outbox.c.lane == op.lane.value, outbox.c.subject == op.subject)
            self._connection.execute(delete(outbox).where(same))
        self.high += 1
        entry = {"number": self.high, "lane": op.lane.value, "subject": op.subject, "value": op.value}
        self._connection.execute(insert(outbox), entry | {"checksum": checksum_of(outbox, entry)})
        if op.lane is Lane.LOG:
            self._bound_log()

    def _bound_log(self) -> None:
        in_log = outbox.c.lane == Lane.LOG.value
        waiting = self._connection.execute(select(func.count()).select_from(outbox).where(in_log)).scalar_one()
        excess = waiting - self._log_bound
        if excess > 0:
            oldest = select(outbox.c.number).where(in_log).order_by(outbox.c.number).limit(excess)
            self._connection.execute(delete(outbox).where(outbox.c.number.in_(oldest)))
            self.dropped += excess

    def _open(self, op: OpenEntry) -> None:
        self._connection.execute(delete(journal).where(journal.c.id == op.id))
        last = self._connection.execute(select(func.coalesce(func.max(journal.c.seq), 0))).scalar_one()
        entry = {"id": op.id, "seq": last + 1, "subject": op.subject, "action": op.action, "detail": op.detail}
        self._connection.execute(insert(journal), entry | {"checksum": checksum_of(journal, entry)})


class Writer:
    """Its methods are called by one thread at a time."""

    def __init__(self, database: Database, log_bound: int) -> None:
        self._database = database
        self._connection = database.writer
        self._log_bound = log_bound
        self._counters: Counters | None = None

    def write(self, batch: Sequence[Sequence[Op]]) -> list[Committed | StoreError]:
        """One result a commit, in order. Raises Unavailable when the database takes nothing at all."""
        before, self._counters = self._counters, None  # what a failure leaves is read again
        try:
            with self._connection.begin():
                results, after = self._write(batch, before)
            self._counters = after
            return results
        except SQLAlchemyError as error:
            raise failure("the store cannot write", error) from error

    def _write(
        self, batch: Sequence[Sequence[Op]], known: Counters | None
    ) -> tuple[list[Committed | StoreError], Counters]:
        counters = self._locked(known)
        keys = {op.key for ops in batch for op in ops if isinstance(op, (Put, Delete))}
        plan = ObjectPlan(self._database.found(keys), counters.revision)
        lists = _Lists(self._connection, counters, self._log_bound)
        results: list[Committed | StoreError] = []
        for ops in batch:
            try:
                changes = plan.commit(ops)
            except StoreError as error:
                results.append(error)
                continue
            for op in ops:
                lists.apply(op)
            results.append(Committed(plan.revision, changes))
        self._store(plan)
        after = replace(counters, revision=plan.revision, outbox_high=lists.high, outbox_dropped=lists.dropped)
        after.save(self._connection, counters)
        if plan.changes:
            self._database.announce(plan.revision)
        return results, after

    def _locked(self, known: Counters | None) -> Counters:
        """Where this process alone writes, nobody else changes them: they are read once."""
        if known is None or self._database.shared:
            return Counters.locked(self._connection)
        return known

    def _store(self, plan: ObjectPlan) -> None:
        found, final = plan.found, plan.final
        if entries := [_entry(change) for change in plan.changes]:
            self._database.insert(log, entries)
        if new := [_columns(row) for key, row in final.items() if row and key not in found]:
            self._database.insert(objects, new)
        if changed := [_columns(row) for key, row in final.items() if row and key in found]:
            self._database.update(objects, changed)
        if gone := [bind(key) for key, row in final.items() if row is None and key in found]:
            self._connection.execute(_DELETE, gone)

    def compact(self, upto: int) -> int:
        """Forget versions at or below `upto` that a newer version at or below it replaces, and old deletions.

        Returns up to where history is forgotten.
        """
        self._counters = None
        try:
            with self._connection.begin():
                return self._compact(upto)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store cannot compact: {reason(error)}") from error

    def _compact(self, upto: int) -> int:
        counters = Counters.locked(self._connection)
        upto = min(upto, counters.revision)
        if upto <= counters.compacted:
            return counters.compacted
        newer = log.alias("newer")
        replaced = exists().where(
            newer.c.kind == log.c.kind,
            newer.c.namespace == log.c.namespace,
            newer.c.name == log.c.name,
            newer.c.revision > log.c.revision,
            newer.c.revision <= upto,
        )
        dead = log.c.type == ChangeType.DELETE.value
        self._connection.execute(delete(log).where(log.c.revision <= upto, dead | replaced))
        replace(counters, compacted=upto).save(self._connection, counters)
        return upto


def _columns(row: Row) -> dict[str, object]:
    return {
        "kind": row.key.kind,
        "namespace": row.key.namespace,
        "name": row.key.name,
        "uid": row.uid,
        "revision": row.revision,
        "created": row.created,
        "value": row.value,
        "checksum": row_checksum(row),
    }


def _entry(change: Change) -> dict[str, object]:
    previous = change.previous.revision if change.previous else 0
    row, entry = change.row, _columns(change.row) | {"type": change.type.value, "previous": previous}
    key = (row.key.kind, row.key.namespace, row.key.name)
    entry["checksum"] = checksum(row.revision, *key, row.uid, change.type.value, row.created, previous, value=row.value)
    return entry
