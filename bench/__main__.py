"""`python -m bench [NAME…]`: runs the measurements, prints a table, writes build/bench.json."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from bench.result import Result
from edgelab.exits import EXPECTED

OUT = Path("build/bench.json")


async def _boot() -> list[Result]:
    from bench import vms

    return await vms.boot()


async def _resize() -> list[Result]:
    from bench import vms

    return await vms.resize()


async def _agent() -> list[Result]:
    from bench import daemons

    return await daemons.agent()


async def _traffic() -> list[Result]:
    from bench import daemons

    return await daemons.traffic()


async def _api() -> list[Result]:
    from bench import api

    return await api.api()


BENCHES: dict[str, tuple[Callable[[], Awaitable[list[Result]]], bool]] = {
    "boot": (_boot, True),
    "resize": (_resize, True),
    "agent": (_agent, True),
    "traffic": (_traffic, False),
    "api": (_api, False),
}
"""Name → (what to run, whether it needs real VMs)."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=OUT, show_default=True)
def main(names: tuple[str, ...], out: Path) -> None:
    """Measure, print a table with the peer's row beside ours, write JSON ({name: {value, unit, peer}}).

    Judge by the ratios of one run: absolute figures are this machine's.
    """
    results: list[Result] = []
    for name in names or BENCHES:
        run, real = BENCHES[name]
        if real and os.geteuid() != 0:
            click.echo(f"{name}: skipped, real VMs need root", err=True)
            continue
        click.echo(f"measuring {name} …", err=True)
        try:
            results += asyncio.run(_prepared(run, real))
        except EXPECTED as error:
            raise click.ClickException(f"{name}: {error}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({item.name: _entry(item) for item in results}, indent=2) + "\n")
    _print(results)
    click.echo(f"written to {out}", err=True)


async def _prepared(run: Callable[[], Awaitable[list[Result]]], real: bool) -> list[Result]:
    if real:
        from edgelab import realhost

        await realhost.prepare(lambda line: click.echo(f"  {line}", err=True))
    return await run()


def _entry(item: Result) -> dict[str, object]:
    return {
        "value": round(item.value, 3),
        "unit": item.unit,
        "peer": None if item.peer is None else round(item.peer, 3),
        "peer_is": item.peer_is,
        "note": item.note,
    }


def _print(results: list[Result]) -> None:
    click.echo(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}")
    rows = [("what", "ours", "peer", "unit", "ratio", "peer is; notes")]
    for item in results:
        peer = "" if item.peer is None else f"{item.peer:.2f}"
        ratio = "" if not item.peer else f"{item.value / item.peer:.2f}"
        notes = "; ".join(part for part in (item.peer_is, item.note) if part)
        rows.append((item.name, f"{item.value:.2f}", peer, item.unit, ratio, notes))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        left, *numbers = row[:5]
        cells = [left.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        click.echo("  ".join([*cells, row[5]]))


if __name__ == "__main__":
    main()
