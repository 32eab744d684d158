"""A hub whose store is not what it wrote: what it lost was not deleted by anybody."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cloudhub import daemon
from kubeapi.core import Pod
from tests.simulation.system import System
from tests.support.virtualtime import run_virtual
from vmruntime.api import VmState


def test_s86_a_pod_that_the_hub_has_lost_runs_on(tmp_path: Path) -> None:
    """S-86, by a damaged row: its VM is Unclaimed, the other pod is the hub's as before, and nothing restarts."""
    run_virtual(_lost(tmp_path))


async def _lost(directory: Path) -> None:
    system = System(4, directory, nodes=1)
    system.broker.faults = type(system.broker.faults)()
    (machine,) = system.machines
    try:
        await system.start_hub()
        system.start_agent(machine)
        await asyncio.sleep(5)
        await system.create()
        await system.create()
        await asyncio.sleep(20)
        assert system.hub is not None
        lost, kept = (await system.hub.objects.list(Pod)).items
        await system.kill_hub()
        with closing(sqlite3.connect(directory / "hub" / "hub.db", isolation_level=None)) as store:
            harm = "UPDATE objects SET value = substr(value, 2) WHERE kind = 'pods' AND name = ?"
            assert store.execute(harm, (lost.metadata.name,)).rowcount == 1
        await system.start_hub()
        await asyncio.sleep(120)
        assert system.hub is not None
        left = (await system.hub.objects.list(Pod)).items
        assert [pod.metadata.name for pod in left] == [kept.metadata.name]
        ready = left[0].status.condition("Ready")
        assert ready is not None
        assert ready.status == "True"
        assert {(vm.state, vm.boots) for vm in machine.host.vms.values()} == {(VmState.RUNNING, 1)}
        assert len(machine.host.vms) == 2
    finally:
        await system.close()


def test_a_hub_whose_file_is_broken_says_so_and_leaves_it(tmp_path: Path) -> None:
    file = tmp_path / "hub" / "hub.db"
    file.parent.mkdir()
    file.write_bytes(b"not a database " * 4096)

    async def start() -> None:
        system = System(5, tmp_path, nodes=0)
        with pytest.raises(daemon.StartError, match="file is not a database; it is left as it is"):
            await system._run_hub()

    run_virtual(start())
    assert file.read_bytes() == b"not a database " * 4096
