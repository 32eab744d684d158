"""What is read, the same SQL on every database. Each function runs inside one transaction, which is one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, select

from metastore.api import STORE_ID, Change, ChangeType, Compacted, Key, Listing, Row
from metastore.integrity import require
from metastore.schema import log, objects, scalars

PAGE = 500
"""Changes read from the log at once."""

BY_KEY = and_(
    objects.c.kind == bindparam("k_kind"),
    objects.c.namespace == bindparam("k_namespace"),
    objects.c.name == bindparam("k_name"),
)
_GET = select(objects).where(BY_KEY)
_GET_MANY = select(objects).where(
    objects.c.kind == bindparam("k_kind"),
    objects.c.namespace == bindparam("k_namespace"),
    objects.c.name.in_(bindparam("k_names", expanding=True)),
)
_NAMES_AT_ONCE = 500
"""Bounds the parameters of one statement."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where the store stands."""

    revision: int
    compacted: int
    store_id: str


def bind(key: Key) -> dict[str, object]:
    return {"k_kind": key.kind, "k_namespace": key.namespace, "k_name": key.name}


def scalar(connection: Connection, name: str) -> str | None:
    return connection.execute(select(scalars.c.value).where(scalars.c.name == name)).scalar_one_or_none()


def head(connection: Connection) -> Head:
    query = select(scalars).where(scalars.c.name.in_(("revision", "compacted", STORE_ID)))
    found = {row.name: row.value for row in connection.execute(query)}
    return Head(int(found["revision"]), int(found["compacted"]), found[STORE_ID])


def fetch(connection: Connection, key: Key) -> Row | None:
    found = connection.execute(_GET, bind(key)).first()
    return _row(found) if found else None


def fetch_many(connection: Connection, keys: Iterable[Key]) -> dict[Key, Row]:
    """The current rows under those of `keys` that exist."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in keys:
        groups[key.kind, key.namespace].append(key.name)
    rows: dict[Key, Row] = {}
    for (kind, namespace), names in groups.items():
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = names[start : start + _NAMES_AT_ONCE]
            values = {"k_kind": kind, "k_namespace": namespace, "k_names": some}
            for row in map(_row, connection.execute(_GET_MANY, values)):
                rows[row.key] = row
    return rows


def current(connection: Connection, kind: str, namespace: str | None) -> Listing:
    query = select(objects).where(objects.c.kind == kind).order_by(objects.c.namespace, objects.c.name)
    if namespace is not None:
        query = query.where(objects.c.namespace == namespace)
    rows = tuple(_row(found) for found in connection.execute(query))
    return Listing(rows, int(scalar(connection, "revision") or 0))


def past(connection: Connection, kind: str, namespace: str | None, at: int) -> Listing:
    """Raises Compacted."""
    require_history(connection, at)
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
    return Listing(tuple(_logged(found) for found in connection.execute(query)), at)


def require_history(connection: Connection, after: int) -> None:
    """Raises Compacted when not every change after `after` is in the log."""
    oldest = int(scalar(connection, "compacted") or 0)
    if after < oldest:
        raise Compacted(after, oldest)


def history(connection: Connection, after: int, upto: int, kinds: frozenset[str] | None) -> list[Change]:
    """The first PAGE changes in (after, upto]. Raises Compacted."""
    require_history(connection, after)
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
        .limit(PAGE)
    )
    if kinds is not None:
        query = query.where(log.c.kind.in_(kinds))
    return [_change(found) for found in connection.execute(query)]


def _row(found: Any) -> Row:
    """Raises Damaged."""
    row = Row(Key(found.kind, found.namespace, found.name), found.uid, found.revision, found.created, found.value)
    return require(row, found.checksum)


def _logged(found: Any) -> Row:
    key = Key(found.kind, found.namespace, found.name)
    return Row(key, found.uid, found.revision, found.created, found.value)


def _change(found: Any) -> Change:
    row = _logged(found)
    old = None
    if found.old_value is not None:
        old = Row(row.key, found.old_uid, found.previous, found.old_created, found.old_value)
    return Change(ChangeType(found.type), row, old)
