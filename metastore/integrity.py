"""Whether rows are what was written: a checksum in each, and a quarantine for those that are not.

A CRC-32 finds what flash and memory do to bytes; it does not defend against anybody.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import orjson
from sqlalchemy import Connection, RowMapping, Table, and_, delete, func, insert, select, update

from metastore.api import QUARANTINED, Damaged, Key, Row
from metastore.database import key_names
from metastore.schema import journal, log, objects, outbox, quarantine, scalars

CHECKED = (objects, log, outbox, journal)
"""The tables whose rows carry a checksum."""
_KEPT = 100
"""Rows in quarantine at most: the oldest make room."""
_PORTION = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BadRow:
    table: Table
    found: Mapping[str, Any]

    @property
    def label(self) -> str:
        """As people call it; its parts may be what was damaged."""
        row = self.found
        if self.table in (objects, log):
            return f"{Key(row['kind'], row['namespace'], row['name'])} at revision {row['revision']}"
        return f"{self.table.name} entry {row[key_names(self.table)[0]]}"


def checksum(*parts: str | int, value: bytes) -> int:
    """Of a row: its columns but the value, in the table's order, then the value."""
    if not isinstance(value, bytes):  # a database that keeps no types, or one that was tampered with
        value = str(value).encode() + b"\0"
    return crc32(value, crc32("\0".join(map(str, parts)).encode()))


def row_checksum(row: Row) -> int:
    key = row.key
    return checksum(key.kind, key.namespace, key.name, row.uid, row.revision, row.created, value=row.value)


def require(row: Row, found: int) -> Row:
    """The row. Raises Damaged."""
    if row_checksum(row) != found:
        raise Damaged(f"{row.key} at revision {row.revision} is not what was written (its checksum is wrong)")
    return row


def checksum_of(table: Table, row: Mapping[str, Any] | RowMapping) -> int:
    """Of any row of CHECKED, from its columns by name."""
    value = "detail" if table is journal else "value"
    return checksum(*(row[c.name] for c in table.columns if c.name not in (value, "checksum")), value=row[value])


def bad_rows(connection: Connection, table: Table) -> Iterator[BadRow]:
    for portion in connection.execution_options(yield_per=_PORTION).execute(select(table)).mappings().partitions():
        for row in portion:
            if checksum_of(table, row) != row["checksum"]:
                yield BadRow(table, dict(row))


def put_aside(connection: Connection) -> None:
    """Inside a transaction of the writer: move every bad row into quarantine, and name it in the scalar QUARANTINED.
    Where history has lost one, all of it is forgotten: whoever watches lists again."""
    found = [row for table in CHECKED for row in bad_rows(connection, table)]
    if not found:
        return
    number = connection.execute(select(func.coalesce(func.max(quarantine.c.number), 0))).scalar_one()
    for bad in found:
        number += 1
        _log.error("%s is not what was written: it is put into quarantine", bad.label)
        content = orjson.dumps({str(name): _shown(value) for name, value in bad.found.items()})
        entry = {"number": number, "source": bad.table.name, "label": bad.label, "content": content}
        connection.execute(insert(quarantine), entry)
        same = (bad.table.c[name] == bad.found[name] for name in key_names(bad.table))
        connection.execute(delete(bad.table).where(and_(*same)))
    connection.execute(delete(quarantine).where(quarantine.c.number <= number - _KEPT))
    if any(bad.table is log for bad in found):
        revision = select(scalars.c.value).where(scalars.c.name == "revision").scalar_subquery()
        connection.execute(update(scalars).where(scalars.c.name == "compacted").values(value=revision))
    named = select(scalars.c.value).where(scalars.c.name == QUARANTINED)
    labels = orjson.loads(connection.execute(named).scalar_one_or_none() or "[]") + [bad.label for bad in found]
    connection.execute(delete(scalars).where(scalars.c.name == QUARANTINED))
    entry = {"name": QUARANTINED, "value": orjson.dumps(labels[-_KEPT:]).decode()}
    connection.execute(insert(scalars), entry)


def fill(connection: Connection, table: Table) -> None:
    """Give every row the checksum of what it is now."""
    rows = connection.execute(select(table)).mappings().all()
    for row in rows:
        same = (table.c[name] == row[name] for name in key_names(table))
        connection.execute(update(table).where(and_(*same)).values(checksum=checksum_of(table, row)))


def _shown(value: Any) -> Any:
    return b64encode(value).decode() if isinstance(value, bytes) else value
