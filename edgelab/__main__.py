"""The `copepod` command. Output for scripts goes to stdout; all that is for people goes to stderr.

Exit codes: 0 done (also `up` ended by SIGTERM or Ctrl-C), 1 it failed and said why, 2 wrong usage.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version as package_version
from pathlib import Path

import click

from edgelab import clean as cleaning
from edgelab import faults, images, realhost, state
from edgelab.box import Box, BoxConfig
from edgelab.cli import plain_errors, say, state_option, until_signalled
from edgelab.demo import DEMO_STATE, narrate
from edgelab.labcommands import lab
from edgelab.storecommands import metastore

EXAMPLES_UP = """
\b
Examples:
  copepod up --fake-vms --nodes 3        simulated nodes; needs no root and no libvirt
  sudo copepod up                        one node with real virtual machines
  sudo copepod up --state /srv/lab --api-port 6443 --nodes 2
\b
In another terminal, with the line that it printed:
  export KUBECONFIG=…
  kubectl get nodes
  kubectl create -f configs/examples/micro-vm.yaml
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_version("copepod"), "--version", message="copepod %(version)s")
def main() -> None:
    """Copepod: extra-small virtual machines for edge nodes, resized in place, tolerant of being offline.

    \b
    copepod up --fake-vms     a whole cluster on this machine, simulated
    sudo copepod up           the same with real virtual machines
    sudo copepod demo         the main job, narrated step by step
    copepod lab list          scenarios to test a cluster by: links cut, parts killed
    copepod metastore check   whether a store is whole; export and import save and restore it
    """


@main.command(epilog=EXAMPLES_UP)
@state_option
@click.option(
    "--api-port", type=click.IntRange(1, 65535), help="Port of the Kubernetes API. Default: a free one, then kept."
)
@click.option("--nodes", type=click.IntRange(1, 10000), help="Number of edge nodes. Default: as before, else 1.")
@click.option("--fake-vms", is_flag=True, help="Simulate the nodes, all in one process: no root, no libvirt.")
def up(state_dir: Path, api_port: int | None, nodes: int | None, fake_vms: bool) -> None:
    """Run broker, hub and edge agents in the foreground.

    Prints one line KUBECONFIG=<file> when every node is Ready; all else goes to stderr. SIGTERM or Ctrl-C ends all
    processes. The VMs themselves run on, as they would on an edge box: the next `up` finds them; `copepod clean`
    removes them.
    """
    config = BoxConfig(state_dir, nodes=nodes, fake_vms=fake_vms, api_port=api_port)
    with plain_errors():
        asyncio.run(until_signalled(lambda: _up(config)))


async def _up(config: BoxConfig) -> None:
    async with Box(config, say) as box:
        click.echo(f"KUBECONFIG={box.kubeconfig}")
        sys.stdout.flush()
        say(f"running; logs are in {box.layout.root / 'log'}; Ctrl-C ends it")
        await asyncio.Event().wait()


@main.command()
@state_option
@click.option("--installation", help="Instead of a lab: remove the VMs that carry this installation id.")
def clean(state_dir: Path, installation: str | None) -> None:
    """Remove a lab: its VMs, taps, processes, cgroups, link cuts and files.

    Only what the lab in that directory made is touched; an installed node on the same machine never is. Tests and
    benchmarks run VMs without a lab, under an installation id of their own.
    """
    with plain_errors():
        if installation is None:
            asyncio.run(cleaning.clean(state_dir.absolute(), say))
        else:
            asyncio.run(cleaning.clean_installation(installation, say))


@main.command()
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEMO_STATE,
    show_default=True,
    help="Directory for the demo's own lab. What an earlier demo left there is removed first.",
)
@click.option("--keep", is_flag=True, help="Leave the lab running at the end, to play with it.")
def demo(state_dir: Path, keep: bool) -> None:
    """The main job on real virtual machines, narrated. Ends with 1 at the first claim that is not true."""
    with plain_errors():
        asyncio.run(until_signalled(lambda: narrate(state_dir.absolute(), say, keep=keep)))


main.add_command(lab)
main.add_command(metastore)


@main.group()
def link() -> None:
    """Cut and restore a node's link to the broker, in a lab that is up (root)."""


@link.command("cut")
@state_option
@click.argument("node")
def link_cut(state_dir: Path, node: str) -> None:
    """Drop every packet between NODE and the broker; nobody is told."""
    with plain_errors():
        asyncio.run(_packets(state_dir, node).cut())
    say(f"the link of {node} is cut; restore it with: copepod link restore --state {state_dir} {node}")


@link.command("restore")
@state_option
@click.argument("node")
def link_restore(state_dir: Path, node: str) -> None:
    """Let the packets of NODE pass again."""
    with plain_errors():
        asyncio.run(_packets(state_dir, node).restore())
    say(f"the link of {node} is whole again")


def _packets(state_dir: Path, node: str) -> faults.NftLink:
    facts = state.load(state.Layout(state_dir.absolute()))
    if facts is None:
        raise state.StateError(f"there is no lab in {state_dir}: start one with `copepod up --state {state_dir}`")
    if node not in facts.node_names:
        raise click.UsageError(f"there is no node {node}; nodes are {', '.join(facts.node_names[:5])}")
    return faults.NftLink(faults.table_name(facts.lab_pid), facts.address(node), facts.broker_port)


@main.group()
def image() -> None:
    """Guest images on this machine."""


@image.command("build")
def image_build() -> None:
    """Build the extra-small guest (kernel and initramfs) from distribution packages. Prints its digest."""
    with plain_errors():
        click.echo(images.build(say))


@image.command("list")
def image_list() -> None:
    """Print the images on this machine, one a line: reference, digest, smallest memory."""
    with plain_errors():
        for line in images.listing():
            click.echo(line)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"copepod {package_version('copepod')}")


@main.command(hidden=True)
def prepare() -> None:
    """Make this machine able to run real VMs, and leave it at that (used by tests and benchmarks)."""
    with plain_errors():
        asyncio.run(realhost.prepare(say))


if __name__ == "__main__":
    main()
