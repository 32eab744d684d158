"""The one writer: applies batches of commits inside one database transaction (group commit).

Runs on whatever thread the store gives it and owns its connection. Each commit of a batch is a savepoint of its own: a
failed compare-and-swap undoes that commit and no other. What is returned from `write` is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from metastore.api import (
    Change,
    ChangeType,
    CloseEntry,
    Committed,
    Conflict,
    Delete,
    Dequeue,
    Enqueue,
    Key,
    Lane,
    NotFound,
    Op,
    OpenEntry,
    Put,
    Row,
    SetMeta,
    StoreError,
    UidMismatch,
    Unavailable,
)
from metastore.schema import journal, log, objects, outbox, scalars

_BY_KEY = and_(
    objects.c.kind == bindparam("k_kind"),
    objects.c.namespace == bindparam("k_namespace"),
    objects.c.name == bindparam("k_name"),
)
_GET = select(objects.c.uid, objects.c.revision, objects.c.created, objects.c.value).where(_BY_KEY)
_UPDATE = (
    update(objects)
    .where(_BY_KEY)
    .values(
        uid=bindparam("v_uid"),
        revision=bindparam("v_revision"),
        created=bindparam("v_created"),
        value=bindparam("v_value"),
    )
)
_DELETE = delete(objects).where(_BY_KEY)


def _bind(key: Key) -> dict[str, object]:
    return {"k_kind": key.kind, "k_namespace": key.namespace, "k_name": key.name}


def fetch(connection: Connection, key: Key) -> Row | None:
    """The current row under `key`, on any connection."""
    found = connection.execute(_GET, _bind(key)).first()
    return Row(key, found.uid, found.revision, found.created, bytes(found.value)) if found else None


@dataclass
class Counters:
    """What must survive in `scalars`, cached; rolled back with the transaction they belong to."""

    revision: int = 0
    compacted: int = 0
    outbox_high: int = 0
    outbox_dropped: int = 0

    @classmethod
    def load(cls, connection: Connection) -> Counters:
        rows = connection.execute(select(scalars.c.name, scalars.c.value))
        found = {row.name: row.value for row in rows}
        return cls(**{name: int(found.get(name, 0)) for name in cls.__dataclass_fields__})

    def save(self, connection: Connection, before: Counters) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) != getattr(before, name):
                set_scalar(connection, name, str(getattr(self, name)))

    def copy(self) -> Counters:
        return Counters(self.revision, self.compacted, self.outbox_high, self.outbox_dropped)


def set_scalar(connection: Connection, name: str, value: str | None) -> None:
    connection.execute(delete(scalars).where(scalars.c.name == name))
    if value is not None:
        connection.execute(insert(scalars).values(name=name, value=value))


@dataclass
class _Batch:
    """State of the commit being applied."""

    connection: Connection
    counters: Counters
    log_bound: int
    changes: list[Change] = field(default_factory=list)

    def apply(self, op: Op) -> None:
        match op:
            case Put():
                self._put(op)
            case Delete():
                self._delete(op)
            case SetMeta(name, value):
                set_scalar(self.connection, name, value)
            case Enqueue():
                self._enqueue(op)
            case Dequeue(upto):
                self.connection.execute(delete(outbox).where(outbox.c.number <= upto))
            case OpenEntry():
                self._open(op)
            case CloseEntry(id):
                self.connection.execute(delete(journal).where(journal.c.id == id))

    def _put(self, op: Put) -> None:
        old = fetch(self.connection, op.key)
        if op.expect is not None and op.expect != (old.revision if old else 0):
            if old is None:
                raise NotFound(op.key)
            raise Conflict(op.key, op.expect, old.revision)
        if old and old.uid != op.uid and not op.replace:
            raise UidMismatch(op.key, op.uid, old.uid)
        self.counters.revision += 1
        revision = self.counters.revision
        created = old.created if old and old.uid == op.uid else revision
        row = Row(op.key, op.uid, revision, created, op.value)
        if old:
            new = {"v_uid": op.uid, "v_revision": revision, "v_created": created, "v_value": op.value}
            self.connection.execute(_UPDATE, _bind(op.key) | new)
        else:
            self.connection.execute(insert(objects), _columns(row))
        self._log(ChangeType.PUT, row, old)

    def _delete(self, op: Delete) -> None:
        old = fetch(self.connection, op.key)
        if old is None:
            if op.missing_ok:
                return
            raise NotFound(op.key)
        if op.uid is not None and old.uid != op.uid:
            if op.missing_ok:
                return
            raise UidMismatch(op.key, op.uid, old.uid)
        if op.expect is not None and op.expect != old.revision:
            raise Conflict(op.key, op.expect, old.revision)
        self.counters.revision += 1
        self.connection.execute(_DELETE, _bind(op.key))
        gone = Row(op.key, old.uid, self.counters.revision, old.created, old.value)
        self._log(ChangeType.DELETE, gone, old)

    def _log(self, type_: ChangeType, row: Row, old: Row | None) -> None:
        entry = _columns(row) | {"type": type_.value, "previous": old.revision if old else 0}
        self.connection.execute(insert(log), entry)
        self.changes.append(Change(type_, row, old))

    def _enqueue(self, op: Enqueue) -> None:
        if op.lane is Lane.LEVEL:
            same = and_(outbox.c.lane == op.lane.value, outbox.c.subject == op.subject)
            self.connection.execute(delete(outbox).where(same))
        self.counters.outbox_high += 1
        entry = {
            "number": self.counters.outbox_high,
            "lane": op.lane.value,
            "subject": op.subject,
            "value": op.value,
        }
        self.connection.execute(insert(outbox), entry)
        if op.lane is Lane.LOG:
            self._bound_log()

    def _bound_log(self) -> None:
        in_log = outbox.c.lane == Lane.LOG.value
        waiting = self.connection.execute(select(func.count()).select_from(outbox).where(in_log)).scalar_one()
        excess = waiting - self.log_bound
        if excess > 0:
            oldest = select(outbox.c.number).where(in_log).order_by(outbox.c.number).limit(excess)
            self.connection.execute(delete(outbox).where(outbox.c.number.in_(oldest)))
            self.counters.outbox_dropped += excess

    def _open(self, op: OpenEntry) -> None:
        self.connection.execute(delete(journal).where(journal.c.id == op.id))
        last = self.connection.execute(select(func.coalesce(func.max(journal.c.seq), 0))).scalar_one()
        entry = {
            "id": op.id,
            "seq": last + 1,
            "subject": op.subject,
            "action": op.action,
            "detail": op.detail,
        }
        self.connection.execute(insert(journal), entry)


def _columns(row: Row) -> dict[str, object]:
    return {
        "kind": row.key.kind,
        "namespace": row.key.namespace,
        "name": row.key.name,
        "uid": row.uid,
        "revision": row.revision,
        "created": row.created,
        "value": row.value,
    }


class Writer:
    """`write` is called by one thread at a time."""

    def __init__(self, connection: Connection, log_bound: int) -> None:
        self._connection = connection
        self._log_bound = log_bound
        self.counters = Counters.load(connection)
        connection.rollback()

    def write(self, batch: Sequence[Sequence[Op]]) -> list[Committed | StoreError]:
        """One result a commit, in order. Raises Unavailable when the database takes nothing at all."""
        counters = self.counters.copy()
        try:
            with self._connection.begin():
                results = [self._commit(ops, counters) for ops in batch]
                counters.save(self._connection, self.counters)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store cannot write: {_reason(error)}") from error
        self.counters = counters
        return results

    def _commit(self, ops: Sequence[Op], counters: Counters) -> Committed | StoreError:
        before = counters.copy()
        step = _Batch(self._connection, counters, self._log_bound)
        # Plain statements, not begin_nested(): on a full disk SQLite drops the whole transaction, savepoints
        # included, and undoing one then would hide the reason.
        self._connection.exec_driver_sql("SAVEPOINT one")
        try:
            for op in ops:
                step.apply(op)
        except StoreError as error:
            self._connection.exec_driver_sql("ROLLBACK TO one")
            for name in before.__dataclass_fields__:
                setattr(counters, name, getattr(before, name))
            return error
        self._connection.exec_driver_sql("RELEASE one")
        return Committed(counters.revision, tuple(step.changes))

    def compact(self, upto: int) -> None:
        """Forget versions at or below `upto` that a newer version at or below it replaces, and old deletions."""
        upto = min(upto, self.counters.revision)
        if upto <= self.counters.compacted:
            return
        newer = log.alias("newer")
        replaced = exists().where(
            newer.c.kind == log.c.kind,
            newer.c.namespace == log.c.namespace,
            newer.c.name == log.c.name,
            newer.c.revision > log.c.revision,
            newer.c.revision <= upto,
        )
        counters = self.counters.copy()
        counters.compacted = upto
        try:
            with self._connection.begin():
                dead = log.c.type == ChangeType.DELETE.value
                self._connection.execute(delete(log).where(log.c.revision <= upto, dead | replaced))
                counters.save(self._connection, self.counters)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store cannot compact: {_reason(error)}") from error
        self.counters = counters


def _reason(error: SQLAlchemyError) -> str:
    """The database's own words, without the statement and its parameters (which may hold secrets)."""
    return str(getattr(error, "orig", None) or error)
