"""`copepod lab run` as a user runs it: the ready scenarios on real hub, broker and agents; only the VMs are pretended.

All that a run asks for are played at the same time, each on a cluster of its own: most of their time is waiting.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from edgelab import scenario
from tests.support import libvirtd

QUICK = ("cut-and-heal", "broker-forgets", "hub-dies", "half-open", "names-come-back")
LONG = ("agents-die-offline", "made-while-away", "give-up", "thin-link")
ROOT = ("disk-full", "hub-disk-full")
INVARIANTS = 10
STATE = Path(os.environ.get("COPEPOD_TEST_STATE", "/var/lib/copepod-test"))

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]


@dataclass
class Runs:
    """Scenarios being played, by name."""

    directory: Path
    running: dict[str, asyncio.Task[tuple[int, str, str]]] = field(default_factory=dict)

    def begin(self, *names: str) -> None:
        for name in names:
            if name not in self.running:
                self.running[name] = asyncio.create_task(self._play(name))

    async def _play(self, name: str) -> tuple[int, str, str]:
        return await copepod("lab", "run", name, "--fake-vms", "--state", str(self.directory / name))

    async def holds(self, name: str, *, invariants: int = INVARIANTS) -> None:
        """The scenario ends well: every invariant is there, and holds."""
        self.begin(name)
        code, out, err = await self.running[name]
        lines = out.splitlines()
        assert code == 0, f"{out}\n{err}"
        assert len(lines) == invariants
        assert all(line.startswith("ok ") for line in lines)
        assert not (self.directory / name).exists(), "a run that ends well leaves nothing"


async def copepod(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edgelab", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runs]:
    found = Runs(tmp_path_factory.mktemp("labs"))
    try:
        yield found
    finally:
        for task in found.running.values():
            task.cancel()
        await asyncio.gather(*found.running.values(), return_exceptions=True)


async def test_every_ready_scenario_is_played_here() -> None:
    assert set(scenario.ready()) == {*QUICK, *LONG, *ROOT}


async def test_s04_s05_s08_s20_what_is_wished_of_a_cut_node_waits_and_is_done_once(runs: Runs) -> None:
    runs.begin(*QUICK)
    await runs.holds("cut-and-heal")


async def test_s21_s22_s24_a_broker_that_forgets_everything_twice_costs_nothing(runs: Runs) -> None:
    runs.begin(*QUICK)
    await runs.holds("broker-forgets")


async def test_s80_s32_a_hub_killed_under_load_keeps_what_it_acknowledged(runs: Runs) -> None:
    runs.begin(*QUICK)
    await runs.holds("hub-dies")


async def test_s20_s21_s24_half_open_reset_and_one_way_links_are_noticed(runs: Runs) -> None:
    runs.begin(*QUICK)
    await runs.holds("half-open")


async def test_s08_s10_s84_a_name_that_comes_back_on_a_silent_node_is_another_pod(runs: Runs) -> None:
    runs.begin(*QUICK)
    await runs.holds("names-come-back")


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
async def test_s01_s07_s09_s23_s25_s32_s41_s84_the_other_scenarios_hold(runs: Runs, name: str) -> None:
    runs.begin(*LONG)
    await runs.holds(name, invariants=INVARIANTS + (name == "thin-link"))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own is a mount, which needs root")
@pytest.mark.parametrize("name", ROOT)
async def test_s31_a_full_disk_loses_nothing_and_stops_no_vm(runs: Runs, name: str) -> None:
    runs.begin(*ROOT)
    await runs.holds(name)


@pytest.mark.vm
@pytest.mark.long
@pytest.mark.skipif(bool(libvirtd.unavailable()), reason=libvirtd.unavailable() or "-")
async def test_s21_s22_s24_the_same_with_real_vms() -> None:
    code, out, err = await copepod("lab", "run", "broker-forgets", "--state", str(STATE / "lab"))
    assert code == 0, f"{out}\n{err}"
    assert [line.split()[0] for line in out.splitlines()] == ["ok"] * INVARIANTS


async def test_a_wait_that_is_not_reached_ends_with_1_and_says_what_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "hopeless.yaml"
    file.write_text(
        "name: hopeless\ntitle: t\nsteps:\n  - create: {}\n  - wait: {pods: all, are: Terminating, within: 0.5}\n"
    )
    code, out, err = await copepod("lab", "run", str(file), "--fake-vms", "--state", str(tmp_path / "lab"))
    assert (code, out) == (1, "")
    assert "Error: step 2 (wait): pods Terminating: not within 0 s (pod-1 is" in err
    assert (tmp_path / "lab" / "log" / "hub.log").exists(), "what it left is there to look at"


async def test_a_users_own_box_gets_a_bad_link_that_obeys() -> None:
    """`copepod lab proxy`: a port to put between, orders on stdin, an orderly end."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        target = server.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "edgelab", "lab", "proxy", "--listen", "127.0.0.1:0"),
            *("--target", f"127.0.0.1:{target}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        port = int((await process.stdout.readline()).decode().strip().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        process.stdin.write(b"cut\ndance\n")
        assert (await process.stderr.readline()).startswith(b"cut: done; 3 bytes up, 3 down")
        assert b"unknown order 'dance'" in await process.stderr.readline()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await reader.read(3)
        process.stdin.write(b"heal\n")
        assert await reader.readexactly(3) == b"two"
        process.terminate()
        assert await process.wait() == 0
        await process.communicate()
        writer.close()
