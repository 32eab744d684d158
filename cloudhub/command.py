"""`cloudhub --config FILE`: runs the hub in the foreground until SIGTERM or SIGINT.

Exit codes: 0 stopped as asked, 1 cannot start or a part failed, 2 unusable configuration or command line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import resource
import signal
import sys
from contextlib import suppress

import click

from cloudhub import daemon, settings
from kubeapi.config import SettingsError
from kubeapi.sdnotify import notify
from kubeapi.server import process


@click.command()
@click.option("--config", "path", required=True, type=click.Path(), help="Settings, as in configs/cloudhub.toml.")
@click.version_option(package_name="copepod", prog_name="cloudhub")
def main(path: str) -> None:
    """The Copepod hub: a Kubernetes API in front of extra-small VMs on edge nodes."""
    try:
        config = settings.load(path)
        config.broker.password()
        config.broker.check_tls()
    except SettingsError as error:
        click.echo(f"cloudhub: {error}", err=True)
        sys.exit(2)
    os.umask(0o077)  # the store holds Secrets
    _allow_connections()
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    process.tune()
    try:
        asyncio.run(_run(config))
    except daemon.StartError as error:
        click.echo(f"cloudhub: {error}", err=True)
        sys.exit(1)
    except Exception:
        logging.getLogger("cloudhub").exception("the hub failed")
        sys.exit(1)


def _allow_connections() -> None:
    """A connection is a file, and the usual soft limit (1024) is kept for programs that still use select(2)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(config: settings.Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with daemon.running(config, daemon.World(random.SystemRandom())) as hub:
        notify("READY=1", f"STATUS=serving on port {hub.port}")
        await stop.wait()
        notify("STOPPING=1")
