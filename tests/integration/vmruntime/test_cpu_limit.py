"""S-70 on a real guest: a busy guest gets what its limit says, measured at the VMM's process from outside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import libvirtd
from tests.support.rigs import booted
from tests.support.vms import INSTALLATION, make_spec
from vmruntime.api import Runtime
from vmruntime.connect import open_runtime

pytestmark = pytest.mark.vm
SPEC = make_spec("integration-busy", vcpus_online=2)
WINDOW_SECONDS = 2.0


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    if reason := libvirtd.unavailable():
        pytest.skip(f"no real guests: {reason}")
    await asyncio.to_thread(libvirtd.ensure)
    runtime = open_runtime("libvirt", installation=INSTALLATION)
    await booted(runtime, SPEC)
    yield runtime
    await runtime.delete(SPEC.uuid)
    await runtime.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_s70_a_limit_holds_over_all_cpus_of_the_guest(runtime: Runtime) -> None:
    """S-70: 250m on two busy vCPUs is a quarter of one CPU, not of each."""
    await runtime.exec(SPEC.uuid, ["sh", "-c", "for i in 1 2; do (while :; do :; done) >/dev/null 2>&1 & done"])
    await runtime.set_cpu(SPEC.uuid, 250, 2)
    pid, loop = libvirtd.qemu_pid(SPEC.name), asyncio.get_running_loop()
    begun, used = loop.time(), cpu_seconds(pid)
    await asyncio.sleep(WINDOW_SECONDS)
    rate = (cpu_seconds(pid) - used) / (loop.time() - begun)
    assert 0.15 < rate < 0.25 * 1.15
