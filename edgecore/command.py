"""`edgecore --config FILE`: the node daemon. SIGTERM ends it cleanly; its VMs run on."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys

import click

from edgecore.agent import Agent, agent_version
from edgecore.compose import real_parts
from edgecore.settings import Settings, load
from kubeapi.config import SettingsError
from metastore.api import Damaged, StoreError

_BAD_CONFIGURATION, _CANNOT_START = 2, 1


@click.command()
@click.option("--config", "path", required=True, type=click.Path(dir_okay=False), help="Settings (TOML).")
@click.version_option(agent_version().lstrip("v"), prog_name="edgecore")
def main(path: str) -> None:
    """Run this box's VMs as the hub wishes, also while the hub is out of reach.

    \b
    Every setting with its default: configs/edgecore.toml
    Exit codes: 0 stopped by SIGTERM or SIGINT, 1 cannot start, 2 bad configuration.
    """
    try:
        settings = load(path)
        logging.basicConfig(
            level=settings.log_level.upper(),
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
            stream=sys.stderr,
        )
        sys.exit(asyncio.run(_run(settings)))
    except SettingsError as error:
        click.echo(f"edgecore: {error}", err=True)
        sys.exit(_BAD_CONFIGURATION)


async def _run(settings: Settings) -> int:
    agent = Agent(settings, real_parts(settings, random.Random()))
    running = asyncio.create_task(agent.run(), name="agent")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except (StoreError, OSError) as error:
        click.echo(f"edgecore: cannot start: {error}", err=True)
        return _CANNOT_START
    except ExceptionGroup as failures:
        damage, others = failures.split(Damaged)
        if damage is None or others is not None:
            raise
        click.echo(f"edgecore: {damage.exceptions[0]}", err=True)
        return _CANNOT_START
    return 0
