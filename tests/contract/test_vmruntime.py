"""What every VM runtime promises (vmruntime/api.py), on the in-memory fake and on real guests of libvirt and QEMU."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial

import pytest

from tests.support import libvirtd
from tests.support.rigs import FakeRig, LibvirtRig, Rig, booted, remove_leftovers, until
from tests.support.vms import INSTALLATION, make_spec
from vmruntime.api import (
    EventType,
    ExitReason,
    GuestUnavailable,
    ImageNotFound,
    InvalidSpec,
    ResizeIncomplete,
    ResizeInfeasible,
    ResizeRefused,
    Runtime,
    RuntimeUnavailable,
    VmEvent,
    VmNotFound,
    VmSpec,
    VmState,
)

SHARED = make_spec("contract-shared", document=b'{"a": 1}')
"""Booted once for the real runtime; each test finds it running and adopts it by a runtime of its own."""


@pytest.fixture(scope="session")
def real_host() -> Iterator[None]:
    if reason := libvirtd.unavailable():
        pytest.skip(f"no real guests: {reason}")
    libvirtd.ensure()
    remove_leftovers("contract-")
    yield
    remove_leftovers("contract-")


@pytest.fixture(params=["fake", pytest.param("libvirt", marks=pytest.mark.vm)])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    if request.param == "libvirt":
        request.getfixturevalue("real_host")
    rig: Rig = FakeRig() if request.param == "fake" else LibvirtRig()
    yield rig
    await rig.close()


@pytest.fixture
async def runtime(rig: Rig) -> Runtime:
    return rig.open()


@pytest.fixture
async def shared(runtime: Runtime) -> VmSpec:
    """96 MiB, one CPU online, no limit."""
    await booted(runtime, SHARED)
    await runtime.set_memory(SHARED.uuid, 96)
    await runtime.set_cpu(SHARED.uuid, None, 1)
    return SHARED


@pytest.fixture
async def fresh(runtime: Runtime) -> AsyncIterator[list[VmSpec]]:
    """Append the specs of VMs that the test makes: they are removed whatever happens."""
    specs: list[VmSpec] = []
    yield specs
    for spec in specs:
        await runtime.delete(spec.uuid)


async def see(events: AsyncIterator[VmEvent], type: EventType, uuid: str) -> None:
    async with asyncio.timeout(60):
        async for event in events:
            if (event.type, event.uuid) == (type, uuid):
                return


# -- refusals: nothing is half made ----------------------------------------------------------------------


async def test_unknown_image_names_the_reference_and_the_remedy(rig: Rig, runtime: Runtime) -> None:
    if isinstance(rig, FakeRig):
        rig.host.images = {}
    spec = make_spec("contract-noimage", image="nobody/nothing:7")
    with pytest.raises(ImageNotFound, match=r"nobody/nothing:7.*copepod image build"):
        await runtime.create(spec)
    with pytest.raises(VmNotFound):
        await runtime.inspect(spec.uuid)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_base_mib": 64, "memory_mib": 64},
        {"memory_max_mib": 1024},
        {"memory_mib": 97},
        {"memory_mib": 600},
        {"vcpus_online": 3},
        {"vcpus_max": 0},
        {"cpu_limit_millicores": 5},
        {"name": "no spaces please"},
        {"uuid": "7"},
    ],
    ids=str,
)
async def test_impossible_specs_are_refused(runtime: Runtime, changes: dict[str, object]) -> None:
    spec = replace(make_spec("contract-bad"), **changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpec):
        await runtime.create(spec)
    assert spec.uuid not in [status.uuid for status in await runtime.list()]


async def test_what_does_not_exist(runtime: Runtime) -> None:
    uuid = make_spec("contract-never").uuid
    for act in (
        runtime.inspect(uuid),
        runtime.start(uuid),
        runtime.stop(uuid, 1),
        runtime.set_memory(uuid, 128),
        runtime.set_cpu(uuid, 100, 1),
        runtime.set_document(uuid, b"{}"),
        runtime.exec(uuid, ["true"]),
    ):
        with pytest.raises(VmNotFound):
            await act
    with pytest.raises(VmNotFound):
        await anext(aiter(runtime.console(uuid)))
    await runtime.delete(uuid)


async def test_a_defined_vm_is_not_running_and_can_be_redefined(runtime: Runtime, fresh: list[VmSpec]) -> None:
    spec = make_spec("contract-defined")
    fresh.append(spec)
    await runtime.create(spec)
    await runtime.create(spec)
    await runtime.create(replace(spec, attempt=3, memory_mib=128))
    status = await runtime.inspect(spec.uuid)
    assert (status.state, status.exit, status.attempt) == (VmState.DEFINED, None, 3)
    assert (status.memory_requested_mib, status.guest_total_kib, status.agent_ready) == (128, None, False)
    for act in (
        runtime.exec(spec.uuid, ["true"]),
        runtime.set_memory(spec.uuid, 130),
        runtime.set_cpu(spec.uuid, 99, 1),
    ):
        with pytest.raises(GuestUnavailable):
            await act
    with pytest.raises(InvalidSpec, match="taken"):
        await runtime.create(replace(make_spec("contract-other"), name=spec.name))


# -- a running VM ----------------------------------------------------------------------------------------


async def test_s41_a_second_runtime_finds_the_vm_as_it_is(rig: Rig, runtime: Runtime, shared: VmSpec) -> None:
    """S-41: adopted by its metadata, not restarted; creating and starting it again changes nothing."""
    before = await runtime.inspect(shared.uuid)
    other = rig.open()
    await other.create(shared)
    await other.start(shared.uuid)
    after = await other.inspect(shared.uuid)
    assert after == before
    assert (after.owner, after.document, after.image) == (shared.owner, shared.document, shared.image)
    assert after.agent_ready
    assert after.boot_id
    listed = {status.uuid: status for status in await other.list()}
    assert listed[shared.uuid].boot_id is None
    assert listed[shared.uuid].state is VmState.RUNNING
    with pytest.raises(InvalidSpec, match="stop it"):
        await other.create(replace(shared, attempt=9))


async def test_document_is_replaced(runtime: Runtime, shared: VmSpec) -> None:
    await runtime.set_document(shared.uuid, b'{"b": "\xc3\xa4<&>"}')
    assert (await runtime.inspect(shared.uuid)).document == b'{"b": "\xc3\xa4<&>"}'
    await runtime.set_document(shared.uuid, shared.document)


async def test_exec(runtime: Runtime, shared: VmSpec) -> None:
    assert (await runtime.exec(shared.uuid, ["hostname"])).stdout == b"contract-shared\n"
    assert (await runtime.exec(shared.uuid, ["cat"], stdin=b"\0\xff")).stdout == b"\0\xff"
    assert (await runtime.exec(shared.uuid, ["false"])).code == 1
    missing = await runtime.exec(shared.uuid, ["no-such-program"])
    assert missing.code == 127
    assert b"no-such-program" in missing.stderr


async def test_console(runtime: Runtime, shared: VmSpec) -> None:
    whole = b"".join([chunk async for chunk in runtime.console(shared.uuid)])
    assert b"copepod: ready" in whole
    last = b"".join([chunk async for chunk in runtime.console(shared.uuid, tail=1)])
    assert last.count(b"\n") == 1
    assert whole.endswith(last)


async def test_memory_grows_and_shrinks_in_place(runtime: Runtime, shared: VmSpec) -> None:
    """S-62, S-63: done means that the guest's total (growing) or the device (shrinking) shows it."""
    before = await runtime.inspect(shared.uuid)
    assert before.guest_total_kib
    for size in (224, 128, 512, 130):
        await runtime.set_memory(shared.uuid, size)
        status = await until(runtime, shared.uuid, partial(_shows, size), 5.0)
        assert status.guest_total_kib == before.guest_total_kib + (size - 96) * 1024
    await runtime.set_memory(shared.uuid, 130)
    assert (await runtime.inspect(shared.uuid)).boot_id == before.boot_id
    with pytest.raises(ResizeInfeasible, match="512"):
        await runtime.set_memory(shared.uuid, 514)
    with pytest.raises(ResizeInfeasible, match="96"):
        await runtime.set_memory(shared.uuid, 94)
    with pytest.raises(InvalidSpec):
        await runtime.set_memory(shared.uuid, 131)


def _shows(size: int, status: object) -> bool:
    return getattr(status, "memory_actual_mib", 0) == size == getattr(status, "memory_requested_mib", 0)


async def test_s61_shrink_below_use_is_refused(rig: Rig, runtime: Runtime, shared: VmSpec) -> None:
    """S-61: before anything changes, saying by how much; the guest survives, and can shrink once memory is free."""
    await runtime.set_memory(shared.uuid, 256)
    await rig.use_memory(shared, 120)
    boot = (await runtime.inspect(shared.uuid)).boot_id
    with pytest.raises(ResizeRefused, match=r"\d+ MiB more"):
        await runtime.set_memory(shared.uuid, 128)
    status = await until(runtime, shared.uuid, partial(_shows, 256), 3.0)
    assert status.boot_id == boot
    await rig.free_memory(shared)
    await runtime.set_memory(shared.uuid, 128)


async def test_cpu_limit_and_online_count(runtime: Runtime, shared: VmSpec) -> None:
    """S-63, S-70: the quota is what the host enforces, the count is what the guest shows."""
    for limit, online in ((700, 2), (250, 1), (10, 1), (None, 2)):
        await runtime.set_cpu(shared.uuid, limit, online)
        status = await runtime.inspect(shared.uuid)
        if limit is None or limit >= 100:
            assert status.vcpus_online == online
        assert status.cpu_limit_millicores == limit
        # A throttled guest answers late; it is not taken for one that does not answer.
        assert (await runtime.exec(shared.uuid, ["true"])).code == 0
    with pytest.raises(ResizeInfeasible, match="2 vCPUs"):
        await runtime.set_cpu(shared.uuid, None, 3)
    with pytest.raises(InvalidSpec):
        await runtime.set_cpu(shared.uuid, 9, 1)


async def test_usage(runtime: Runtime, shared: VmSpec) -> None:
    """CPU time is what was spent and only rises; memory is what the guest uses of what it has."""
    first = await runtime.usage(shared.uuid)
    assert first.cpu_seconds > 0
    await runtime.exec(shared.uuid, ["true"])
    second = await runtime.usage(shared.uuid)
    assert second.cpu_seconds > first.cpu_seconds
    given = (await runtime.inspect(shared.uuid)).memory_actual_mib << 20
    for usage in (first, second):
        assert 4 << 20 < usage.memory_bytes < given
    with pytest.raises(VmNotFound):
        await runtime.usage("00000000-0000-0000-0000-000000000000")


async def test_s44_a_guest_that_reboots_stays_the_same_vm(rig: Rig, runtime: Runtime, shared: VmSpec) -> None:
    """S-44: not an exit; and CPUs and memory come back to what was set since the first boot."""
    await runtime.set_memory(shared.uuid, 160)
    await runtime.set_cpu(shared.uuid, None, 2)
    before = await runtime.inspect(shared.uuid)
    events = runtime.events()
    await rig.reboot_guest(shared)
    await see(events, EventType.REBOOTED, shared.uuid)
    after = await until(
        runtime,
        shared.uuid,
        lambda status: (
            status.boot_id not in (None, before.boot_id) and status.vcpus_online == 2 and _shows(160, status)
        ),
    )
    assert after.state is VmState.RUNNING
    assert (after.attempt, after.exit) == (before.attempt, None)


async def test_s40_the_service_restarts(rig: Rig, runtime: Runtime, shared: VmSpec) -> None:
    """S-40: calls say RuntimeUnavailable meanwhile; then a RESYNC, working events, and the VM untouched."""
    before = await runtime.inspect(shared.uuid)
    events = runtime.events()
    await rig.service_down()
    with pytest.raises(RuntimeUnavailable):
        await runtime.inspect(shared.uuid)
    with pytest.raises(RuntimeUnavailable):
        await runtime.list()
    await rig.service_up()
    await see(events, EventType.RESYNC, "")
    async with asyncio.timeout(10):
        while True:
            try:
                after = await runtime.inspect(shared.uuid)
            except RuntimeUnavailable:
                after = None
            if after is not None and after.boot_id == before.boot_id:
                break
            await asyncio.sleep(0.1)
    await runtime.set_memory(shared.uuid, 128)
    await see(events, EventType.RESIZED, shared.uuid)


async def test_s48_what_is_not_ours_is_never_touched(rig: Rig, runtime: Runtime, fresh: list[VmSpec]) -> None:
    """S-48: another installation's VM is neither seen nor changed."""
    theirs = make_spec("contract-theirs", installation="someone-else")
    other = rig.open("someone-else")
    await other.create(theirs)
    try:
        assert theirs.uuid not in [status.uuid for status in await runtime.list()]
        for act in (runtime.start(theirs.uuid), runtime.inspect(theirs.uuid), runtime.set_document(theirs.uuid, b"")):
            with pytest.raises(VmNotFound):
                await act
        with pytest.raises(InvalidSpec, match="not ours"):
            await runtime.create(replace(theirs, owner=replace(theirs.owner, installation=INSTALLATION)))
        await runtime.delete(theirs.uuid)
        assert (await other.inspect(theirs.uuid)).state is VmState.DEFINED
    finally:
        await other.delete(theirs.uuid)


# -- ends ------------------------------------------------------------------------------------------------


async def test_a_command_ends_with_its_code(runtime: Runtime, fresh: list[VmSpec]) -> None:
    spec = make_spec("contract-job", command=("sh", "-c", "sleep 1; exit 3"), env=(("WHO", "it's $me"),))
    fresh.append(spec)
    events = runtime.events()
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    await see(events, EventType.STARTED, spec.uuid)
    await see(events, EventType.STOPPED, spec.uuid)
    status = await runtime.inspect(spec.uuid)
    assert status.state is VmState.STOPPED
    assert status.exit
    assert (status.exit.reason, status.exit.code) == (ExitReason.SHUTDOWN, 3)
    await runtime.create(replace(spec, attempt=1))
    again = await runtime.inspect(spec.uuid)
    assert (again.state, again.exit, again.attempt) == (VmState.DEFINED, None, 1)


async def test_s46_a_guest_that_hears_nothing_is_destroyed_at_the_deadline(
    rig: Rig, runtime: Runtime, fresh: list[VmSpec]
) -> None:
    """S-46: at the deadline, not before. A guest in its first second has neither agent nor button."""
    spec = make_spec("contract-deaf")
    fresh.append(spec)
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    loop = asyncio.get_running_loop()
    grace = 0.2 if isinstance(rig, FakeRig) else 1.0
    begun = loop.time()
    async with asyncio.timeout(60):  # libvirt waits until the process has been collected, too
        await runtime.stop(spec.uuid, grace)
    assert loop.time() - begun >= grace - 0.05
    status = await runtime.inspect(spec.uuid)
    assert status.exit
    assert (status.state, status.exit.reason, status.exit.code) == (VmState.STOPPED, ExitReason.STOPPED, 137)
    await runtime.stop(spec.uuid, grace)


async def test_s60_a_large_maximum_does_not_sink_a_small_guest(runtime: Runtime, fresh: list[VmSpec]) -> None:
    """S-60: base 128 MiB carries 2048 (and the shared VM shows that 96 carries 512): boots, and grows all the way."""
    spec = make_spec("contract-large", memory_base_mib=128, memory_mib=256, memory_max_mib=2048)
    fresh.append(spec)
    await booted(runtime, spec)
    await runtime.set_memory(spec.uuid, 2048)
    assert (await runtime.exec(spec.uuid, ["true"])).code == 0
    await runtime.set_memory(spec.uuid, 128)


async def test_s42_a_killed_vmm_is_noticed_by_an_event(rig: Rig, runtime: Runtime, shared: VmSpec) -> None:
    """S-42: nothing asks meanwhile; with the reason; a fresh start works."""
    events = runtime.events()
    await runtime.list()
    await rig.kill_vmm(shared)
    await see(events, EventType.STOPPED, shared.uuid)
    status = await runtime.inspect(shared.uuid)
    assert status.exit
    assert (status.state, status.exit.reason, status.exit.code) == (VmState.STOPPED, ExitReason.KILLED, 137)
    await booted(runtime, replace(shared, attempt=1))
    await runtime.stop(shared.uuid, 20)
    status = await runtime.inspect(shared.uuid)
    assert status.exit
    assert (status.exit.reason, status.exit.code, status.attempt) == (ExitReason.STOPPED, 143, 1)
    await runtime.delete(shared.uuid)


async def test_s63_plugged_but_not_onlined_is_not_done(rig: Rig, runtime: Runtime, fresh: list[VmSpec]) -> None:
    """S-63: the device has it, the guest does not: incomplete, with what the guest shows."""
    spec = make_spec("contract-offline")
    fresh.append(spec)
    await booted(runtime, spec)
    await rig.stop_onlining(spec)
    with pytest.raises(ResizeIncomplete, match="224 MiB") as caught:
        await runtime.set_memory(spec.uuid, 224, deadline=1.5)
    assert caught.value.observed == 96


async def test_deleting_a_running_vm_removes_it(runtime: Runtime, fresh: list[VmSpec]) -> None:
    spec = make_spec("contract-brief")
    fresh.append(spec)
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    events = runtime.events()
    await runtime.list()
    await runtime.delete(spec.uuid)
    await see(events, EventType.REMOVED, spec.uuid)
    await runtime.delete(spec.uuid)
    with pytest.raises(VmNotFound):
        await runtime.inspect(spec.uuid)
