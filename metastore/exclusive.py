"""One process alone writes a PostgreSQL store, as SQLite has it by a lock on the file: here an advisory lock that the
writing connection holds. Whoever loses the connection loses the lock, and takes it again before writing again.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from sqlalchemy import Connection, Engine, event, select

from metastore.api import InUse

_LOCK = 0x636F706F
_WAIT = "3s"
"""For a predecessor whose end the database has not noticed yet."""
_NOTICE = (("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3"))
"""A host that died holds the lock no longer than this."""
KEY = f"{_LOCK}, hashtext(coalesce(current_schema(), ''))"
_HOLDER = f"""
    SELECT application_name, to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND classid = {_LOCK} AND objsubid = 2
        AND objid::bigint = hashtext(coalesce(current_schema(), ''))::bigint & 4294967295
        AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def hold(engine: Engine, label: str) -> None:
    """Every connection that `engine` makes takes the lock first. Raises InUse, then and later, where another has it."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                _take(cursor, label)
        except BaseException:
            connection.close()
            raise
        connection.autocommit = False


def touch(connection: Connection) -> None:
    """Notices a connection that is gone, and makes another. Raises InUse, SQLAlchemyError."""
    with connection.begin():
        connection.execute(select(1))


def _take(cursor: Any, label: str) -> None:
    from psycopg.errors import LockNotAvailable

    cursor.execute(
        "SELECT set_config('application_name', %s, false)", [f"copepod {socket.gethostname()}/{os.getpid()}"]
    )
    for name, value in _NOTICE:
        cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
    cursor.execute("SELECT set_config('lock_timeout', %s, false)", [_WAIT])
    try:
        cursor.execute(f"SELECT pg_advisory_lock({KEY})")
    except LockNotAvailable as error:
        cursor.execute(_HOLDER)
        name, since = cursor.fetchone() or ("somebody", "just now")
        raise InUse(
            f"the store {label} is in use by {name} since {since}: a database serves one hub at a time"
        ) from error
    cursor.execute("SELECT set_config('lock_timeout', '0', false)")
