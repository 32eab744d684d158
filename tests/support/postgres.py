"""A private PostgreSQL cluster of the distribution's package: own directory, a unix socket, no network, no root."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg

VERSION = "15"
BIN = Path(f"/usr/lib/postgresql/{VERSION}/bin")
MISSING = f"PostgreSQL {VERSION} is not installed (apt-get install postgresql-{VERSION}): NOT TESTED on it"
_USER = "copepod"


def installed() -> bool:
    return (BIN / "initdb").exists()


@dataclass
class Postgres:
    directory: Path
    durable: bool
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@/postgres?host={quote(str(self.directory), safe='')}"

    def fresh(self) -> str:
        """URL of an empty store: a schema of its own, which is quicker to make than a database."""
        name = f"store{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url}&options={quote(f'-csearch_path={name}', safe='')}"

    def start(self) -> None:
        settings = f"-c listen_addresses= -c unix_socket_directories={self.directory}"
        if not self.durable:
            settings += " -c fsync=off"
        log = str(self.directory / "log")
        self._run("pg_ctl", "start", "--wait", "--silent", "--log", log, "--options", settings)

    def stop(self) -> None:
        """As by a crash of the machine that forgot nothing: clients are cut off."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode", "immediate")

    def make(self) -> None:
        self._run("initdb", "--no-sync", "--auth=trust", f"--username={_USER}", "--encoding=UTF8", "--locale=C.UTF-8")

    def _run(self, program: str, *arguments: str) -> None:
        # PostgreSQL refuses to run as root; the package has made a user for it.
        user = "postgres" if os.geteuid() == 0 else None
        command = [str(BIN / program), "--pgdata", str(self.directory / "data"), *arguments]
        subprocess.run(
            command,
            check=True,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """`durable`: with fsync, as in production; without it tests are quicker."""
    directory = Path(tempfile.mkdtemp(prefix="copepod-postgres-"))
    try:
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(directory, owner.pw_uid, owner.pw_gid)
        postgres = Postgres(directory, durable)
        postgres.make()
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
    finally:
        shutil.rmtree(directory)
