"""The tables, schema version 1. What is changed here needs a new SCHEMA_VERSION and a migration from the old one.

The variants are about where bytes lie, not about what is stored: files that were made without them work the same.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table

SCHEMA_VERSION = 1

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""As a primary key on SQLite this is the row's own number: no second B-tree, a page less to write a commit."""
_PART = String().with_variant(String(collation="C"), "postgresql")
"""A part of a key: ordered by bytes whatever the database's locale, as Kubernetes orders lists."""

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
    Index("log_by_key", "kind", "namespace", "name", "revision"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("lane", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("value", LargeBinary, nullable=False),
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
)
