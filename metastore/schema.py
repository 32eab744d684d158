"""The tables, schema version 2. What is changed here needs a new SCHEMA_VERSION, a step in metastore.migrations, and
the old version frozen in tests/data/metastore.

The variants are about where bytes lie, not about what is stored: files that were made without them work the same.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table

SCHEMA_VERSION = 2

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""As a primary key on SQLite this is the row's own number: no second B-tree, a page less to write a commit."""
_PART = String().with_variant(String(collation="C"), "postgresql")
"""A part of a key: ordered by bytes whatever the database's locale, as Kubernetes orders lists."""


def _checksum() -> Column[int]:
    """CRC-32 of the row's other columns (metastore.integrity). The default: until rows of before have theirs."""
    return Column("checksum", BigInteger, nullable=False, server_default="0")


scalars = Table(
    "scalars",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
    sqlite_with_rowid=False,
)
"""Named scalars; the store's own are `store_id`, `schema_version`, and the counters of metastore.writer, which are
always there."""

objects = Table(
    "objects",
    metadata,
    Column("kind", _PART, primary_key=True),
    Column("namespace", _PART, primary_key=True),
    Column("name", _PART, primary_key=True),
    Column("uid", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("value", LargeBinary, nullable=False),
    _checksum(),
)

log = Table(
    "log",
    metadata,
    Column("revision", _NUMBER, primary_key=True, autoincrement=False),
    Column("kind", _PART, nullable=False),
    Column("namespace", _PART, nullable=False),
    Column("name", _PART, nullable=False),
    Column("uid", String, nullable=False),
    Column("type", String, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("previous", BigInteger, nullable=False),  # revision before this change; 0 for a creation
    Column("value", LargeBinary, nullable=False),
    _checksum(),
    Index("log_by_key", "kind", "namespace", "name", "revision"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("lane", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("value", LargeBinary, nullable=False),
    _checksum(),
    Index("outbox_by_subject", "lane", "subject"),
)

journal = Table(
    "journal",
    metadata,
    Column("id", String, primary_key=True),
    Column("seq", Integer, nullable=False),  # order of opening
    Column("subject", String, nullable=False),
    Column("action", String, nullable=False),
    Column("detail", LargeBinary, nullable=False),
    _checksum(),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("source", String, nullable=False),
    Column("label", String, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
"""Rows whose checksum was wrong, as they were found: the table they were in, what they were called, and all their
columns as JSON (bytes in base64)."""
