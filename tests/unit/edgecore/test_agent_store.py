"""The agent's store on a box that nobody tends for years: it stays bounded, and its damages are mended (S-30)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kubeapi.core import Event, Pod
from kubeapi.resources import REGISTRY
from metastore.api import Damaged
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


# What happens to the file of a node that is off → how its Event begins.
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "garbage": (lambda file: file.write_bytes(b"not a database " * 4096), "cannot open the store"),
    "truncated": (lambda file: os.truncate(file, file.stat().st_size // 2), "cannot open the store"),
    "a page": (lambda file: _overwrite(file, 3 * 1024, b"\xff" * 1024), "cannot open the store"),
    "a pod": (lambda file: _change(file, "value = substr(value, 2) WHERE kind = 'pods'"), "the store has lost pods"),
    "a record": (lambda file: _change(file, "value = '{}' WHERE kind = 'podrecords'"), "the store has lost podrecords"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_s30_a_damaged_store_is_set_aside_and_rebuilt(tmp_path: Path, damage: str) -> None:
    """S-30: VMs run on, both sides agree again, an Event says what happened, and what was there is kept."""
    run_virtual(_damaged(tmp_path, *DAMAGES[damage]))


async def _damaged(directory: Path, harm: Callable[[Path], None], begins: str) -> None:
    system = System(2, directory, nodes=1)
    system.broker.faults = type(system.broker.faults)()
    (machine,) = system.machines
    file = directory / "n0" / "metastore.db"
    try:
        await system.start_hub()
        system.start_agent(machine)
        await asyncio.sleep(5)
        await system.create()
        await system.create()
        await asyncio.sleep(20)
        boots = {uuid: vm.boots for uuid, vm in machine.host.vms.items()}
        await system.kill_agent(machine)
        harm(file)
        system.start_agent(machine)
        await asyncio.sleep(60)
        assert await system.complaint() is None
        assert {uuid: vm.boots for uuid, vm in machine.host.vms.items()} == boots
        assert system.hub is not None
        (event,) = [item for item in (await system.hub.objects.list(Event)).items if item.reason == "StoreDamaged"]
        assert event.involved_object.kind == "Node"
        assert (event.message or "").startswith(begins)
        assert (len(list(file.parent.glob("metastore.db.bad-*[0-9]"))) == 1) == begins.startswith("cannot")
    finally:
        await system.close()


def test_s30_an_agent_whose_store_goes_bad_under_it_ends(tmp_path: Path) -> None:
    """It is started again by whoever watches it, and then looks at everything."""
    run_virtual(_goes_bad(tmp_path))


async def _goes_bad(directory: Path) -> None:
    system = System(3, directory, nodes=1)
    (machine,) = system.machines
    try:
        await system.start_hub()
        system.start_agent(machine)
        await asyncio.sleep(5)
        await system.create()
        await asyncio.sleep(20)
        _change(directory / "n0" / "metastore.db", "uid = 'x' WHERE kind = 'pods'")
        await _resize(system, "333m")
        assert machine.agent is not None
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.timeout(60):
                await machine.agent
        assert ended.group_contains(Damaged, match="the store is damaged")
        machine.agent = None
        system.start_agent(machine)
        await asyncio.sleep(60)
        assert await system.complaint() is None
    finally:
        await system.close()


def _overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def _change(file: Path, what: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        assert store.execute(f"UPDATE objects SET {what}").rowcount


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
