"""`copepod metastore check|export|import`: looks after a hub's or a node's store."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from cloudhub.settings import STORE_FILE as HUB_STORE
from edgecore.agent import STORE_FILE as NODE_STORE
from edgelab.cli import plain_errors, say
from metastore import inspection

_WHERE = """
\b
WHERE is a store's file, the directory that holds it (a hub's or a node's state_dir), or the URL of a hub's PostgreSQL
database (postgresql://user@host:5432/name).
"""


@click.group(epilog=_WHERE)
def metastore() -> None:
    """Check a store, save it, and make one anew.

    \b
    copepod metastore check /var/lib/copepod/node
    copepod metastore export /var/lib/copepod/hub --out hub.jsonl
    copepod metastore import hub.jsonl /srv/new-hub/hub.db
    """


@metastore.command(epilog=_WHERE)
@click.argument("where")
def check(where: str) -> None:
    """Read everything, and say what is not what was written.

    The store may be in use: nothing is changed. Exit codes: 0 all is well, 1 something is not, 2 wrong usage.
    """
    with plain_errors():
        found = inspection.check(located(where))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.rows.items()) if count) or "nothing"
    click.echo(f"store {found.store_id}, schema {found.version}, revision {found.revision}: {kinds}")
    for problem in found.problems:
        click.echo(f"DAMAGED {problem}")
    if found.problems:
        sys.exit(1)
    click.echo("ok")


@metastore.command(epilog=_WHERE)
@click.argument("where")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A new file. Default: standard output.")
def export(where: str, out: Path | None) -> None:
    """Write all that a store holds now as JSON lines, for `import`.

    The store may be in use: what is written is one moment of it. What is damaged is left out, and said; the exit
    code is then 1. An export holds Secrets: keep it as you keep them.
    """
    with plain_errors():
        if out is None:
            lost = inspection.export(located(where), sys.stdout.buffer.write, _progress("exported"))
        else:
            try:
                with open(out, "xb", opener=_private) as file:
                    lost = inspection.export(located(where), file.write, _progress("exported"))
            except OSError as error:
                raise click.ClickException(f"cannot write {out}: {error.strerror}") from error
    for line in lost:
        say(f"LOST {line}")
    if lost:
        sys.exit(1)


@metastore.command("import", epilog=_WHERE)
@click.argument("source", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True))
@click.argument("where")
def import_(source: Path, where: str) -> None:
    """Make a new store from an export (`-`: standard input). Whole, or not at all; never over a store that is there.

    It keeps the exported store's identity: nodes and hub see that it has gone back in time, and nothing is deleted for
    it. Two stores of one identity must not both be used.
    """
    with plain_errors():
        place = located(where, must_exist=False)
        if str(source) == "-":
            rows = inspection.restore(place, sys.stdin.buffer, _progress("imported"))
        else:
            with source.open("rb") as lines:
                rows = inspection.restore(place, lines, _progress("imported"))
    say(f"imported {rows} rows into {where}")


def located(where: str, *, must_exist: bool = True) -> str:
    """Of a state directory the store in it. Raises ClickException."""
    if "://" in where or not Path(where).is_dir():
        return where
    found = [Path(where) / name for name in (HUB_STORE, NODE_STORE) if (Path(where) / name).exists()]
    if len(found) == 1:
        return str(found[0])
    if must_exist or found:
        raise click.ClickException(
            f"{where} holds no one store ({HUB_STORE}: a hub's, {NODE_STORE}: a node's); name the file"
        )
    raise click.ClickException(f"{where} is a directory: name the file that the new store shall be")


def _progress(done: str) -> Callable[[int], None]:
    def tell(rows: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done} {rows} rows", err=True, nl=False)

    return tell


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
