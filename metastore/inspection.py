"""Looking into a store from outside, and carrying one elsewhere: what `copepod metastore check|export|import` do.

A store that is in use may be looked at: nothing is written, and what is seen is one snapshot. An export is JSON lines:
a head, then every row. It carries what is now; of history only the numbers, so whoever watches or follows lists again.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Table, create_engine, func, insert, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from metastore import postgres
from metastore.api import STORE_ID, Incompatible, Unavailable
from metastore.database import failure, reason
from metastore.integrity import CHECKED, bad_rows, checksum_of
from metastore.postgres import PostgresDatabase
from metastore.schema import SCHEMA_VERSION, journal, metadata, objects, outbox, scalars
from metastore.sql import VERSION, version_of
from metastore.sqlite import SqliteDatabase

FORMAT = 1
"""Of an export."""
_CARRIED = (scalars, objects, outbox, journal)
_PORTION = 500

Progress = Callable[[int], None]
"""Told the number of rows so far, now and then."""


@dataclass
class Findings:
    version: int = 0
    store_id: str = ""
    revision: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    """Of objects by kind, of other tables by their name."""
    problems: list[str] = field(default_factory=list)
    """Empty: it is whole."""


def check(where: str) -> Findings:
    """Read everything. Raises Incompatible for what is no store, Unavailable where it cannot be read at all."""
    found = Findings()
    try:
        with _reading(where) as connection:
            found.version = _known_version(connection, where)
            found.problems += _file_problems(connection)
            numbers = {row.name: row.value for row in connection.execute(select(scalars))}
            found.store_id, found.revision = numbers.get(STORE_ID, ""), int(numbers.get("revision") or 0)
            kinds = select(objects.c.kind, func.count().label("rows")).group_by(objects.c.kind)
            found.rows.update({row.kind: row.rows for row in connection.execute(kinds)})
            for table in (outbox, journal):
                found.rows[table.name] = connection.execute(select(func.count()).select_from(table)).scalar_one()
            if found.version == SCHEMA_VERSION:
                for table in CHECKED:
                    found.problems += [f"{bad.label}: its checksum is wrong" for bad in bad_rows(connection, table)]
    except SQLAlchemyError as error:
        found.problems.append(f"it cannot be read to its end: {reason(error)}")
    return found


def export(where: str, write: Callable[[bytes], object], progress: Progress = lambda _rows: None) -> list[str]:
    """Lines go to `write`. Returns what could not be read, in words: the rest is exported all the same. Raises
    Incompatible, Unavailable."""
    lost: list[str] = []
    rows = 0
    with _reading(where) as connection:
        version = _known_version(connection, where)
        write(orjson.dumps({"copepodMetastore": FORMAT, "schema": version}) + b"\n")
        for table in _CARRIED:
            try:
                for row in _rows(connection, table, version, lost):
                    write(orjson.dumps({"table": table.name, "row": _shown(row)}) + b"\n")
                    rows += 1
                    if rows % 1000 == 0:
                        progress(rows)
            except SQLAlchemyError as error:
                lost.append(f"{table.name}: {reason(error)}")
        write(orjson.dumps({"end": rows}) + b"\n")
    progress(rows)
    return lost


def restore(where: str, lines: Iterable[bytes], progress: Progress = lambda _rows: None) -> int:
    """Make a store of an export, in one transaction: all of it or nothing. Returns the number of rows. Raises
    Incompatible for what is no export, or not all of one; Unavailable where a store is already, InUse."""
    database = (
        PostgresDatabase(where, alone=True) if where.startswith(postgres.SCHEMES) else SqliteDatabase(where)
    )  # fmt: skip
    try:
        with database.writer.begin():
            database.lock_tables()
            if inspect(database.writer).has_table(scalars.name):
                raise Unavailable(f"{database.label} is a store already, and would be lost: name a place for a new one")
            metadata.create_all(database.writer)
            return _fill(database.writer, lines, progress)
    except SQLAlchemyError as error:
        raise failure(f"cannot write the store {database.label}", error) from error
    finally:
        database.close()


def _fill(connection: Connection, lines: Iterable[bytes], progress: Progress) -> int:
    tables = {table.name: table for table in _CARRIED}
    waiting: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    count, head, end = 0, False, None
    for number, line in enumerate(lines, 1):
        try:
            found = orjson.loads(line)
            if not head:
                _check_head(found)
                head = True
            elif "end" in found:
                end = found["end"]
            else:
                name = found["table"]
                waiting[name].append(_read(tables[name], found["row"]))
                count += 1
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Incompatible(f"line {number} is not of an export: {type(error).__name__}: {error}") from error
        if count % _PORTION == 0:
            _flush(connection, tables, waiting)
            progress(count)
    if not head or end != count:
        raise Incompatible(f"the export is not whole: {count} rows came, and it says it has {end or 'more'}")
    _flush(connection, tables, waiting)
    revision = select(scalars.c.value).where(scalars.c.name == "revision").scalar_subquery()
    for name, value in ((VERSION, str(SCHEMA_VERSION)), ("compacted", revision)):
        connection.execute(update(scalars).where(scalars.c.name == name).values(value=value))
    progress(count)
    return count


def _check_head(found: Any) -> None:
    if found.get("copepodMetastore") != FORMAT:
        raise Incompatible("the first line is not the head of an export of a metastore that this Copepod reads")
    if found.get("schema", 0) > SCHEMA_VERSION:
        raise Incompatible(
            f"the export has schema version {found['schema']}; this Copepod reads up to {SCHEMA_VERSION}"
        )


def _flush(connection: Connection, tables: dict[str, Table], waiting: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in waiting.items():
        if rows:
            connection.execute(insert(tables[name]), rows)
            rows.clear()


def _read(table: Table, shown: dict[str, Any]) -> dict[str, Any]:
    row = {name: b64decode(value["base64"]) if isinstance(value, dict) else value for name, value in shown.items()}
    for column in table.columns:
        text = row.get(column.name)
        if column.type.python_type is bytes and isinstance(text, str):
            row[column.name] = text.encode()
    if table in CHECKED:
        row["checksum"] = checksum_of(table, row)
    if row.keys() != {column.name for column in table.columns}:
        raise KeyError(f"a row of {table.name} with {', '.join(sorted(row))}")
    return row


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {str(name): _text(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _text(value: bytes) -> Any:
    """As people can read it, where it comes back as the same bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _rows(connection: Connection, table: Table, version: int, lost: list[str]) -> Iterator[dict[str, Any]]:
    """Without their checksums; those that are wrong are left out, and said."""
    checked = table in CHECKED and version == SCHEMA_VERSION
    bad = set()
    if checked:
        for found in bad_rows(connection, table):
            lost.append(f"{found.label}: its checksum is wrong")
            bad.add(tuple(found.found[column.name] for column in table.primary_key.columns))
    columns = [column for column in table.columns if column.name != "checksum"]
    query = select(*columns).execution_options(yield_per=_PORTION)
    for row in connection.execute(query).mappings():
        if tuple(row[column.name] for column in table.primary_key.columns) not in bad:
            yield dict(row)


@contextmanager
def _reading(where: str) -> Iterator[Connection]:
    """One snapshot, without any lock that a writer would notice. Raises Unavailable."""
    if where.startswith(postgres.SCHEMES):
        database = PostgresDatabase(where)
        try:
            with database.reading() as connection:
                yield connection
        finally:
            database.close()
        return
    if not Path(where).is_file():
        raise Unavailable(f"there is no store {where}")
    engine = create_engine(
        f"sqlite:///file:{os.path.abspath(where)}?mode=ro&uri=true",
        poolclass=NullPool,
        connect_args={"isolation_level": None},
    )
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection
    except SQLAlchemyError as error:
        raise failure(f"cannot read the store {where}", error) from error
    finally:
        engine.dispose()


def _known_version(connection: Connection, where: str) -> int:
    try:
        version = version_of(connection, where)
    except SQLAlchemyError as error:
        raise failure(f"cannot read the store {where}", error) from error
    if version is None:
        raise Incompatible(f"{where} is not a Copepod store: it has none of its tables")
    return version


def _file_problems(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    found = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return [] if found == ["ok"] else [f"the file: {line}" for line in found]
