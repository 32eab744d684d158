"""`copepod demo`: the main job, narrated. Every claim is checked; the first false one ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from edgelab import clean, mainjob, realhost, state
from edgelab.box import Box, BoxConfig, Links
from edgelab.mainjob import Step
from edgelab.process import Say
from edgelab.world import World, opened

DEMO_STATE = Path("/var/lib/copepod-demo")
"""Not the directory of `copepod up`: a demo empties its own before and after."""


async def narrate(root: Path, say: Say, *, keep: bool) -> None:
    """Raises FalseClaim, and what a Box raises. A demo begins on an empty state, so that what it shows is its own."""
    realhost.require_root()
    loop = asyncio.get_running_loop()
    began = loop.time()
    say(_heading("Copepod: the main job on real virtual machines"))
    await clean.clean(root, _indented(say))
    async with Box(BoxConfig(root, nodes=1, links=Links.PACKETS), _indented(say)) as box:
        say(f"  ready after {loop.time() - began:.1f} s. To follow along, in another root shell (sudo -s):")
        say(f"    export KUBECONFIG={box.kubeconfig} PATH={box.kubectl().binary.parent}:$PATH")
        async with opened(box, manifests()) as world:
            for number, step in enumerate(mainjob.STEPS, 1):
                await _tell(world, number, step, say)
        say(_heading(f"All {len(mainjob.STEPS)} claims hold ({loop.time() - began:.0f} s)"))
        if keep:
            say("The lab runs on, for you to play with; Ctrl-C ends it.")
            await asyncio.Event().wait()
    await clean.clean(root, _indented(say))


async def _tell(world: World, number: int, step: Step, say: Say) -> None:
    loop = asyncio.get_running_loop()
    say(f"\n[{number}/{len(mainjob.STEPS)}] {step.title}")
    if step.hint:
        say(f"    $ {step.typed(world.box.layout.root)}")
    began = loop.time()
    try:
        seen = await step.run(world)
    except BaseException:
        say(f"  ✗ after {loop.time() - began:.1f} s. VMs and state are left as they are, to look at; to remove them:")
        say(f"    copepod clean --state {world.box.layout.root}")
        raise
    say(f"  ✓ {seen} ({loop.time() - began:.1f} s)")


def manifests() -> Path:
    """The examples, which a checkout has beside the package. Raises StateError."""
    found = Path(__file__).resolve().parent.parent / "configs" / "examples"
    if not found.is_dir():
        raise state.StateError(f"the demo runs from a checkout of the sources: {found} is not there")
    return found


def _heading(text: str) -> str:
    return f"\n{text}\n{'─' * len(text)}"


def _indented(say: Say) -> Say:
    return lambda line: say(f"  {line}")
