"""From every released schema to this one, forward, by Alembic's operations, in the transaction that opens the store.

A store of version N is what tests/data/metastore/N.*.sql makes. A step says only what changes; the tables as they are
now are in metastore.schema, which later versions will have changed again: a step must not lean on it for structure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Connection, Integer, LargeBinary, String

from metastore import integrity
from metastore.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from alembic.operations import Operations

_log = logging.getLogger(__name__)


def migrate(connection: Connection, version: int, label: str) -> None:
    """Inside a transaction of the writer, from `version` (1 or more) to SCHEMA_VERSION."""
    # Here, since only a store that is older than the program needs it.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    operations = Operations(MigrationContext.configure(connection))
    for step in range(version, SCHEMA_VERSION):
        _log.warning("the store %s is brought from schema %d to %d", label, step, step + 1)
        _STEPS[step](operations, connection)


def _checksums(op: Operations, connection: Connection) -> None:
    for name in ("objects", "log", "outbox", "journal"):
        op.add_column(name, Column("checksum", BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "quarantine",
        Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
        Column("source", String, nullable=False),
        Column("label", String, nullable=False),
        Column("content", LargeBinary, nullable=False),
    )
    for table in integrity.CHECKED:
        integrity.fill(connection, table)


_STEPS: dict[int, Callable[[Operations, Connection], None]] = {1: _checksums}
"""Version → what leads to the next."""
