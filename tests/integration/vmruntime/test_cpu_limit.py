"""CPU limits on real guests: a busy one gets what its limit says (S-70), and a small limit is enough to boot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import libvirtd
from tests.support.rigs import booted, until
from tests.support.vms import INSTALLATION, make_spec
from vmruntime.api import Runtime
from vmruntime.connect import open_runtime

pytestmark = pytest.mark.vm
BUSY = make_spec("integration-busy", vcpus_online=2)
TENTH = make_spec("integration-tenth", cpu_limit_millicores=100)
WINDOW_SECONDS = 2.0


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    if reason := libvirtd.unavailable():
        pytest.skip(f"no real guests: {reason}")
    await asyncio.to_thread(libvirtd.ensure)
    runtime = open_runtime("libvirt", installation=INSTALLATION)
    yield runtime
    for spec in (BUSY, TENTH):
        await runtime.delete(spec.uuid)
    await runtime.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_s70_a_limit_holds_over_all_cpus_of_the_guest(runtime: Runtime) -> None:
    """S-70: 250m on two busy vCPUs is a quarter of one CPU, not of each."""
    await booted(runtime, BUSY)
    await runtime.exec(BUSY.uuid, ["sh", "-c", "for i in 1 2; do (while :; do :; done) >/dev/null 2>&1 & done"])
    await runtime.set_cpu(BUSY.uuid, 250, 2)
    pid, loop = libvirtd.qemu_pid(BUSY.name), asyncio.get_running_loop()
    rate = 0.0
    async with asyncio.timeout(120):
        while rate < 0.15:  # a busy host gives it less
            begun, used = loop.time(), cpu_seconds(pid)
            await asyncio.sleep(WINDOW_SECONDS)
            rate = (cpu_seconds(pid) - used) / (loop.time() - begun)
            assert rate < 0.25 * 1.15


async def test_a_tenth_of_a_cpu_is_enough_to_boot(runtime: Runtime) -> None:
    """The kernel's boot-time test of its timer fails while the guest waits for its next slice of CPU.

    What the kernel falls back to can leave an interrupt in service for good: one guest in five never got ready.
    """
    await runtime.create(TENTH)
    await runtime.start(TENTH.uuid)
    await until(runtime, TENTH.uuid, lambda status: status.boot_id is not None, seconds=180)
    console = b"".join([chunk async for chunk in runtime.console(TENTH.uuid)]).decode()
    assert "copepod: ready" in console
    assert "timer not connected" not in console
