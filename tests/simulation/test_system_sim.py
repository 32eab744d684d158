"""Random lives of a whole system (tests/simulation/system.py): whatever happened, at rest both sides agree.

`make sim SEEDS=n SEED=first` runs more; a failing seed prints what was done and how to replay it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.simulation.system import System
from tests.support.virtualtime import run_virtual

STEPS = 80
PATIENCE = 3600.0
"""Simulated seconds until everything has settled: crash back-off reaches five minutes, leases take their time."""
FIRST = int(os.environ.get("SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SEEDS", "10")))


@pytest.mark.parametrize("seed", SEEDS)
def test_s04_s05_s08_s12_s20_s21_s32_whatever_happens_both_sides_agree_in_the_end(seed: int, tmp_path: Path) -> None:
    """S-04, S-05, S-08, S-12, S-20, S-21, S-32, S-40, S-41, S-42, S-80: nothing lost, nothing doubled, nothing left."""
    run_virtual(_life(seed, tmp_path))


async def _life(seed: int, directory: Path) -> None:
    system = System(seed, directory)
    try:
        await system.start_hub()
        for machine in system.machines:
            system.start_agent(machine)
        for _ in range(STEPS):
            await system.act()
            _check(system, system.doubled())
        system.note("heal all")
        await system.heal_all()
        await _settle(system)
    finally:
        await system.close()


async def _settle(system: System) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while (complaint := await system.complaint()) is not None:
        if loop.time() >= deadline:
            _check(system, f"not settled: {complaint}")
        await asyncio.sleep(5.0)
    _check(system, system.doubled())


def _check(system: System, complaint: str | None) -> None:
    if complaint is not None:
        history = "\n".join(system.log)
        raise AssertionError(f"{complaint}\nreplay: make sim SEEDS=1 SEED={system.seed}\n{history}")
