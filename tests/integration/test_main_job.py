"""The main job, end to end: real libvirt and QEMU, a real broker, real kubectl, dropped packets and killed daemons."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgelab import faults, mainjob
from edgelab.box import Box, BoxConfig, Links
from edgelab.clean import clean
from edgelab.demo import manifests
from edgelab.world import opened
from tests.support import libvirtd

STATE = Path(os.environ.get("COPEPOD_TEST_STATE", "/var/lib/copepod-test")) / "main-job"

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(libvirtd.unavailable()), reason=libvirtd.unavailable() or "-"),
    pytest.mark.skipif(not faults.can_cut(), reason="dropping packets needs root and nftables"),
]


async def test_s04_s05_s08_s21_s40_s41_the_main_job() -> None:
    """Boot, resize in place, and agree again after every cut: S-04, S-05, S-08, S-21, S-40, S-41.

    Each step checks its own claims (edgelab/mainjob.py) and raises FalseClaim with what was seen instead.
    """
    said: list[str] = []
    await clean(STATE, said.append)
    async with (
        Box(BoxConfig(STATE, nodes=1, links=Links.PACKETS), said.append) as box,
        opened(box, manifests()) as world,
    ):
        for step in mainjob.STEPS:
            try:
                said.append(f"{step.title}: {await step.run(world)}")
            except BaseException as error:
                error.add_note(f"in the step {step.title!r}; before it:\n" + "\n".join(said))
                raise
    await clean(STATE, said.append)
