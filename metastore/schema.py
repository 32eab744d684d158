"""The tables, schema version 1. What is changed here needs a new SCHEMA_VERSION and a migration from the old one."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table

SCHEMA_VERSION = 1

metadata = MetaData()

scalars = Table(
    "scalars",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)
"""Named scalars; the store's own are `store_id`, `schema_version`, `revision`, `compacted`, `outbox_high`,
`outbox_dropped`."""

objects = Table(
    "objects",
    metadata,
    Column("kind", String, primary_key=True),
    Column("namespace", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("uid", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("value", LargeBinary, nullable=False),
)

log = Table(
    "log",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("name", String, nullable=False),
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
    Column("number", BigInteger, primary_key=True, autoincrement=False),
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
