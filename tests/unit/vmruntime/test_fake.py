"""The pretended host: outlives processes, fails when told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.vms import INSTALLATION, make_spec
from vmruntime.api import ExitReason, GuestUnavailable, ResizeIncomplete, StartFailed, VmState
from vmruntime.fake import FakeHost, FakeRuntime, Faults
from vmruntime.fake_host import command_lasts


async def test_s01_vms_outlive_the_process(tmp_path: Path) -> None:
    """S-01, S-41: what a new process finds in the file is what the old one left."""
    path, spec = tmp_path / "vms.json", make_spec("kept", document=b"\xff", env=(("A", "b"),))
    runtime = FakeRuntime(FakeHost(boot_delay=0, path=path), INSTALLATION)
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    await runtime.set_memory(spec.uuid, 128)
    before = await runtime.inspect(spec.uuid)
    host = FakeHost(path=path)
    assert host.vms[spec.uuid].spec == spec
    assert await FakeRuntime(host, INSTALLATION).inspect(spec.uuid) == before
    host.reboot_host()
    after = await FakeRuntime(FakeHost(path=path), INSTALLATION).inspect(spec.uuid)
    assert after.state is VmState.STOPPED
    assert after.exit
    assert after.exit.reason is ExitReason.HOST


async def test_s43_a_start_fails_as_often_as_told() -> None:
    """S-43: the failed start leaves nothing running."""
    host, spec = FakeHost(boot_delay=0), make_spec("fails")
    host.faults = Faults(start="no tap", start_times=1)
    runtime = FakeRuntime(host, INSTALLATION)
    await runtime.create(spec)
    with pytest.raises(StartFailed, match="no tap"):
        await runtime.start(spec.uuid)
    assert (await runtime.inspect(spec.uuid)).state is VmState.DEFINED
    await runtime.start(spec.uuid)


async def test_guest_faults() -> None:
    host, spec = FakeHost(boot_delay=0), make_spec("sick")
    runtime = FakeRuntime(host, INSTALLATION)
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    host.vm_faults[spec.uuid] = Faults(plug_short_mib=32)
    with pytest.raises(ResizeIncomplete) as caught:
        await runtime.set_memory(spec.uuid, 256, deadline=0.01)
    assert caught.value.observed == 224
    host.vm_faults[spec.uuid] = Faults(agent_refuses=True)
    with pytest.raises(GuestUnavailable):
        await runtime.exec(spec.uuid, ["true"])
    assert (await runtime.inspect(spec.uuid)).boot_id is None


@pytest.mark.looptime
async def test_s46_a_guest_that_still_boots_obeys_once_it_hears() -> None:
    """S-46: requests are resent, so a VM deleted right after its creation does not cost the whole grace."""
    host, spec = FakeHost(boot_delay=2.0), make_spec("young")
    runtime = FakeRuntime(host, INSTALLATION)
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await runtime.stop(spec.uuid, 30.0)
    assert loop.time() - begun == pytest.approx(2.5)
    ended = (await runtime.inspect(spec.uuid)).exit
    assert ended is not None
    assert ended.code == 143


def test_commands_that_end() -> None:
    assert command_lasts(("sh", "-c", "echo hi; sleep 1.5; exit 3")) == (1.5, 3)
    assert command_lasts(("false",)) == (0.0, 1)
    assert command_lasts(()) is None
    assert command_lasts(("httpd", "-f")) is None
