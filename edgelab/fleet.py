"""Simulated nodes: many agents in one process, the same class that runs alone in production, over pretended VMs.

Each has its own store, credential, connection and source address; only the process is shared. It is ready (ready.json)
when all are. A lab starts it as `python -m edgelab.fleet --config FILE`; the file lists the nodes' own settings files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from edgecore.agent import READY_FILE, Agent
from edgecore.compose import real_parts
from edgecore.settings import Settings, load
from kubeapi.config import SettingsError
from metastore.api import StoreError
from metastore.files import write_whole


@dataclass(frozen=True, slots=True)
class FleetSettings:
    state_dir: Path
    nodes: tuple[Settings, ...]


def load_fleet(path: Path) -> FleetSettings:
    """Raises SettingsError."""
    try:
        document = tomllib.loads(path.read_text())
        return FleetSettings(Path(document["state_dir"]), tuple(load(node) for node in document["nodes"]))
    except (OSError, ValueError, KeyError) as error:
        raise SettingsError(f"{path}: {error!r}") from error


async def run(fleet: FleetSettings) -> None:
    """Until cancelled, or until one of the agents fails: the lab then starts the fleet again."""
    chance = random.Random()
    async with asyncio.TaskGroup() as tasks:
        agents = [Agent(settings, real_parts(settings, chance)) for settings in fleet.nodes]
        for agent, settings in zip(agents, fleet.nodes, strict=True):
            tasks.create_task(agent.run(), name=settings.node.name)
        for agent in agents:
            await agent.ready.wait()
        say_ready(fleet.state_dir / READY_FILE, [settings.node.name for settings in fleet.nodes])


def say_ready(path: Path, nodes: Sequence[str]) -> None:
    write_whole(path, json.dumps({"nodes": list(nodes)}))


@click.command()
@click.option("--config", "path", required=True, type=click.Path(path_type=Path, dir_okay=False))
def main(path: Path) -> None:
    """Run simulated nodes. Exit codes: 0 ended by SIGTERM or SIGINT, 1 an agent failed, 2 bad configuration."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        fleet = load_fleet(path)
    except SettingsError as error:
        click.echo(f"fleet: {error}", err=True)
        sys.exit(2)
    sys.exit(asyncio.run(_until_ended(fleet)))


async def _until_ended(fleet: FleetSettings) -> int:
    running = asyncio.create_task(run(fleet), name="fleet")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except ExceptionGroup as failures:
        if failures.split((StoreError, OSError))[1] is not None:
            raise
        click.echo(f"fleet: {failures.exceptions}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    main()
