"""What the commands of `copepod` share: words to people on stderr, expected errors as one sentence, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import click

from edgelab import state
from edgelab.exits import EXPECTED


def say(line: str) -> None:
    click.echo(line, err=True)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What can be expected to go wrong ends with one sentence and exit code 1."""
    try:
        yield
    except EXPECTED as error:
        raise click.ClickException(str(error)) from error


def state_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--state",
        "state_dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=state.default_state,
        show_default="/var/lib/copepod-lab for root, else ~/.local/state/copepod-lab",
        help="Directory that holds the lab. Started again on the same one, the same cluster resumes.",
    )(command)


async def until_signalled(work: Callable[[], Awaitable[None]]) -> None:
    """Do `work`; a signal to end cancels it, and is no failure once all is put away."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work())
    signalled = False

    def end(number: signal.Signals) -> None:
        nonlocal signalled
        if not signalled:  # a second Ctrl-C must not interrupt the putting away
            signalled = True
            say(f"{number.name}: ending")
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise
