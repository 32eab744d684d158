"""`copepod lab`: scenarios that do to a small cluster what the world does, and say what still holds; and the bad link.

Exit codes of `run`: 0 every invariant holds, 1 one is violated or a step could not be done, 2 wrong usage or no such
scenario.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from edgelab import clean, scenario, state
from edgelab.box import Box, BoxConfig, Links
from edgelab.cli import plain_errors, say, until_signalled
from edgelab.invariants import Verdict
from edgelab.player import Player
from edgelab.proxy import Flow, ProxyLink
from edgelab.scenario import Scenario, ScenarioError

_SHOWN = 5
"""Complaints of one invariant that are printed."""


@click.group()
def lab() -> None:
    """Scenarios to test a cluster by: links that are cut, slow or half open, parts that are killed."""


@lab.command("list")
def lab_list() -> None:
    """Print the ready scenarios, one a line: name, nodes, what it does, what of docs/scenarios.md it proves."""
    with plain_errors(), _usage():
        for name, found in scenario.ready().items():
            click.echo(f"{name:24} {found.nodes:>3}  {found.title} ({', '.join(found.proves)})")


EXAMPLES_RUN = """
\b
Examples:
  copepod lab run cut-and-heal --fake-vms
  sudo copepod lab run broker-forgets
  copepod lab run ./mine.yaml --fake-vms --nodes 20
\b
Prints a line for each invariant on stdout, ok or violated, with what it was judged from; progress goes to stderr.
"""


@lab.command("run", epilog=EXAMPLES_RUN)
@click.argument("name")
@click.option("--fake-vms", is_flag=True, help="Simulate the VMs: no root, no libvirt. Everything else is real.")
@click.option("--nodes", type=click.IntRange(1, 200), help="Number of nodes. Default: what the scenario says.")
@click.option(
    "--state",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: state.default_state().with_name("copepod-lab-run"),
    show_default="copepod-lab-run beside the directory of `copepod up`",
    help="Directory for this lab alone. What an earlier run left there is removed first.",
)
@click.option("--keep", is_flag=True, help="Leave logs and stores there, as a run that fails does anyway.")
def lab_run(name: str, fake_vms: bool, nodes: int | None, root: Path, keep: bool) -> None:
    """Play the scenario NAME, one of `copepod lab list` or a YAML file, on a cluster of its own."""
    with _usage(), plain_errors():
        wanted = scenario.find(name)
        if nodes is not None:
            wanted = scenario.resized(wanted, nodes)
    root, verdicts = root.absolute(), list[Verdict]()

    async def work() -> None:
        verdicts.extend(await run(wanted, root, fake_vms=fake_vms))

    with plain_errors():
        asyncio.run(until_signalled(work))
        for verdict in verdicts:
            _print(verdict)
        violated = [verdict.name for verdict in verdicts if not verdict.ok]
        if violated or not verdicts:
            say(f"logs and stores are left in {root}; to remove them: copepod clean --state {root}")
            sys.exit(1)
        if not keep:
            asyncio.run(clean.clean(root, lambda _: None))


async def run(wanted: Scenario, root: Path, *, fake_vms: bool) -> list[Verdict]:
    """On a fresh box in `root`. Raises what a Box and a Player raise."""
    await clean.clean(root, lambda _: None)
    config = BoxConfig(
        root,
        nodes=wanted.nodes,
        fake_vms=fake_vms,
        links=Links.PROXY,
        supervise=False,
        lease=wanted.lease,
        disk_mib=wanted.disk,
    )
    async with Box(config, say) as box:
        return await Player(box, wanted, say).play()


def _print(verdict: Verdict) -> None:
    if verdict.ok:
        click.echo(f"ok        {verdict.name:28} {verdict.evidence}")
        return
    for complaint in verdict.complaints[:_SHOWN]:
        click.echo(f"violated  {verdict.name:28} {complaint}")
    if len(verdict.complaints) > _SHOWN:
        click.echo(f"violated  {verdict.name:28} and {len(verdict.complaints) - _SHOWN} more")


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    """A file that is no scenario is wrong usage."""
    try:
        yield
    except ScenarioError as error:
        raise click.UsageError(str(error)) from error


EXAMPLES_PROXY = """
\b
Examples: a box that is configured to find its broker on port 1884 of this machine
  copepod lab proxy --listen 0.0.0.0:1884 --target broker.example:1883
  copepod lab proxy --listen 127.0.0.1:1884 --target 127.0.0.1:1883 --delay 0.3 --jitter 0.2 --bytes-per-second 4000
\b
While it runs it obeys lines on stdin:  cut  heal  reset  half-open  up-only  down-only
"""


@lab.command("proxy", epilog=EXAMPLES_PROXY)
@click.option("--listen", required=True, metavar="ADDRESS:PORT", help="Where boxes connect to. Port 0: a free one.")
@click.option("--target", required=True, metavar="HOST:PORT", help="The broker.")
@click.option("--delay", type=click.FloatRange(0, 60), default=0.0, help="Seconds, each way.")
@click.option("--jitter", type=click.FloatRange(0, 60), default=0.0, help="Up to so many seconds more.")
@click.option("--bytes-per-second", type=click.IntRange(100), help="Of each connection, each way.")
def lab_proxy(listen: str, target: str, delay: float, jitter: float, bytes_per_second: int | None) -> None:
    """A bad link to put between your own box and its broker, in the foreground until Ctrl-C."""
    here, there = _endpoint(listen, "--listen"), _endpoint(target, "--target")
    usual = Flow(delay=delay, jitter=jitter, bytes_per_second=bytes_per_second)
    with plain_errors():
        try:
            asyncio.run(until_signalled(lambda: _proxy(here, there, usual)))
        except OSError as error:
            raise click.ClickException(f"cannot listen on {listen}: {error.strerror}") from error


def _endpoint(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{option} must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


async def _proxy(here: tuple[str, int], there: tuple[str, int], usual: Flow) -> None:
    proxy = ProxyLink(there[1], target_host=there[0], address=here[0], port=here[1])
    async with proxy as link:
        await link.shape(usual)
        click.echo(f"LISTENING={here[0]}:{link.port}")
        sys.stdout.flush()
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(PermissionError, ValueError):  # a stdin that is a file, or closed, says nothing
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
            while line := await lines.readline():
                await _obey(link, line.decode(errors="replace").strip(), usual)
        await asyncio.Event().wait()


async def _obey(link: ProxyLink, order: str, usual: Flow) -> None:
    match order:
        case "cut":
            await link.cut()
        case "heal":
            await link.restore()
            await link.shape(usual)
        case "reset":
            await link.reset()
        case "half-open":
            await link.half_open()
        case "up-only":
            await link.shape(Flow(down=False))
        case "down-only":
            await link.shape(Flow(up=False))
        case "":
            return
        case _:
            say(f"unknown order {order!r}; there are: cut heal reset half-open up-only down-only")
            return
    say(f"{order}: done; {link.bytes_up} bytes up, {link.bytes_down} down so far")
