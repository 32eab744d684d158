"""The agent keeps its store bounded on a box that nobody tends for years."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from kubeapi.core import Pod
from kubeapi.resources import REGISTRY
from tests.simulation.system import System
from tests.support.virtualtime import run_virtual

CHANGES = 25


def test_the_nodes_history_does_not_grow_with_its_changes(tmp_path: Path) -> None:
    """Invariant 10, bounded everything: what is left of many changes is what there is, not what there was."""
    run_virtual(_life(tmp_path))


async def _life(directory: Path) -> None:
    system = System(1, directory, nodes=1)
    system.broker.faults = type(system.broker.faults)()
    try:
        await system.start_hub()
        system.start_agent(system.machines[0])
        await asyncio.sleep(5)
        await system.create()
        for number in range(CHANGES):
            await _resize(system, f"{200 + number}m")
            await asyncio.sleep(5)
        file = directory / "n0" / "metastore.db"
        assert _rows(file, "log") > CHANGES  # so that there is something to forget
        await asyncio.sleep(700)
        assert _rows(file, "log") <= _rows(file, "objects") + 5
        assert await system.complaint() is None
    finally:
        await system.close()


async def _resize(system: System, cpu: str) -> None:
    assert system.hub is not None

    def wish(pod: Pod) -> Pod:
        resources = pod.spec.containers[0].resources
        assert resources is not None
        resources.limits = resources.limits | {"cpu": cpu}
        return pod

    (pod,) = (await system.hub.objects.list(Pod)).items
    await system.hub.objects.change(REGISTRY.of(Pod), "default", pod.metadata.name, wish, "resize")


def _rows(file: Path, table: str) -> int:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as store:
        (count,) = store.execute(f"SELECT count(*) FROM {table}").fetchone()
    store.close()
    return int(count)
