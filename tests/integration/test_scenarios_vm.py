"""Scenarios on the real parts: libvirt, QEMU, mosquitto, kubectl, dropped packets and killed processes.

One lab serves the whole file. Each test makes pods of its own and removes them; what it breaks, it mends. What the
main job (test_main_job.py) asserts already is not asserted again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from edgelab import faults, hostservices
from edgelab.box import Box, BoxConfig, Links
from edgelab.clean import clean
from edgelab.demo import manifests
from edgelab.faults import severed
from edgelab.kubectl import KubectlFailed
from edgelab.waiting import until, until_none
from edgelab.world import World, by_type, opened
from tests.support import libvirtd
from vmruntime.api import VmError, VmState, VmStatus
from vmruntime.probe import probe
from vmruntime.sizing import BASE_FOR_MAXIMUM

STATE = Path(os.environ.get("COPEPOD_TEST_STATE", "/var/lib/copepod-test")) / "scenarios"
BOOT = 90.0
"""Seconds for an emulated guest on a busy machine."""
SOON = 60.0

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(libvirtd.unavailable()), reason=libvirtd.unavailable() or "-"),
    pytest.mark.skipif(not faults.can_cut(), reason="dropping packets needs root and nftables"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    await clean(STATE, lambda _: None)
    said: list[str] = []
    async with (
        Box(BoxConfig(STATE, nodes=1, links=Links.PACKETS), said.append) as box,
        opened(box, manifests()) as lab,
    ):
        yield lab
    await clean(STATE, lambda _: None)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def mended(world: World) -> AsyncIterator[None]:
    """What a failed test left broken or behind does not fail the next ones too."""
    yield
    for child in (world.box.broker, world.box.hub, *world.box.agents):
        await child.start()
    with suppress(KubectlFailed):  # it reports itself: the last test looks for what was left
        await world.kubectl.ok("delete", "pods", "--all", "--grace-period=1", "--timeout=60s", timeout=70)


# -- how tests speak ------------------------------------------------------------------------------------------------


def manifest(name: str, *, limits: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The smallest VM, unless told otherwise."""
    amounts = {"cpu": "250m", "memory": "96Mi"} | dict(limits or {})
    requests = {"cpu": "50m", "memory": amounts["memory"]} | more.pop("requests", {})
    container = {
        "name": "vm",
        "image": more.pop("image", "copepod/micro:latest"),
        "resources": {"limits": amounts, "requests": requests},
    }
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]} | more}


async def create(world: World, *pods: Mapping[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(pods)})
    await world.kubectl.ok("create", "-f", "-", stdin=text)


@asynccontextmanager
async def pods(world: World, *wanted: Mapping[str, Any]) -> AsyncIterator[None]:
    """Created and Ready in the block, gone after it, on both sides."""
    names = [pod["metadata"]["name"] for pod in wanted]
    await create(world, *wanted)
    for name in names:
        await ready(world, name)
    try:
        yield
    except BaseException:
        with suppress(KubectlFailed, TimeoutError):  # the failure is what counts; the next test begins clean if it can
            await delete(world, *names)
        raise
    await delete(world, *names)


async def delete(world: World, *names: str) -> None:
    await world.kubectl.ok("delete", "pod", *names, "--grace-period=1", "--timeout=60s", timeout=70)

    async def look() -> str | None:
        left = [vm.name for vm in await world.runtime.list() if vm.owner.pod in names]
        return f"{left} are left" if left else None

    await until_none(look, "no VM of a deleted pod", SOON)


async def ready(world: World, name: str, timeout: float = BOOT) -> None:
    await world.kubectl.ok(
        "wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={timeout:.0f}s", timeout=timeout + 10
    )


async def container(world: World, name: str) -> Mapping[str, Any]:
    """status.containerStatuses[0]; empty until there is one."""
    statuses = (await world.pod(name))["status"].get("containerStatuses") or [{}]
    found: Mapping[str, Any] = statuses[0]
    return found


async def shows(world: World, name: str, wanted: str, timeout: float = SOON) -> None:
    """Wait until the pod's status, as JSON text, contains what is wanted."""

    async def look() -> str | None:
        text = json.dumps((await world.pod(name))["status"])
        return None if wanted in text else text

    await until_none(look, f"pod {name} shows {wanted!r}", timeout)


async def node_shows(world: World, uid: str, *wanted: str, timeout: float = SOON) -> None:
    """Wait until the pod's status in the node's own store contains all that is wanted."""

    async def look() -> str | None:
        text = json.dumps(await world.node_status(uid))
        return None if all(part in text for part in wanted) else text

    await until_none(look, f"the node itself shows {wanted}", timeout)


async def restarts(world: World, name: str, count: int, timeout: float = BOOT) -> None:
    """Wait until the hub shows so many restarts, and the pod Ready."""

    async def look() -> str | None:
        seen = await container(world, name)
        return None if seen.get("restartCount") == count and seen.get("ready") else str(seen)

    await until_none(look, f"pod {name}: {count} restarts and Ready", timeout)


async def answering(world: World, name: str, timeout: float = BOOT) -> VmStatus:
    """The pod's VM once its guest answers."""

    seen: list[VmStatus] = []

    async def look() -> str | None:
        seen.append(await world.vm(name))
        return None if seen[-1].boot_id else "it does not"

    await until_none(look, f"{name}: the guest answers", timeout)
    return seen[-1]


async def events(world: World, name: str) -> list[str]:
    """Reasons, oldest first."""
    items = json.loads(
        await world.kubectl.ok("get", "events", "-o", "json", "--field-selector", f"involvedObject.name={name}")
    )["items"]
    return [item["reason"] for item in sorted(items, key=_time_order)]


def _time_order(event: Mapping[str, Any]) -> tuple[str, str]:
    """Times are whole seconds; the names of one second's events are in order."""
    return event["lastTimestamp"] or "", event["metadata"]["name"]


async def node_condition(world: World, kind: str) -> Mapping[str, Any]:
    """Empty where the hub has no such condition, or not yet the node."""
    node = await world.kubectl.get("node", world.box.node_names[0])
    found: Mapping[str, Any] = by_type(node["status"].get("conditions", ()) if node else ()).get(kind, {})
    return found


async def node_says(world: World, kind: str, status: str, message: str = "", timeout: float = 60) -> Mapping[str, Any]:
    async def look() -> str | None:
        seen = await node_condition(world, kind)
        return None if seen.get("status") == status and message in seen.get("message", "") else str(seen)

    await until_none(look, f"node condition {kind} is {status} {message}", timeout)
    return await node_condition(world, kind)


def kill_qemu(vm: VmStatus) -> None:
    os.kill(libvirtd.qemu_pid(vm.name), signal.SIGKILL)


def cut_power(vms: Sequence[VmStatus]) -> None:
    """libvirtd and these VMs end at once, and with them what lives in memory only: /run and the cgroups."""
    libvirtd.stop_libvirtd()
    try:
        for vm in vms:
            kill_qemu(vm)
        for vm in vms:
            libvirtd.wait_for(lambda name=vm.name: no_cgroup(name), f"the end of {vm.name}")  # type: ignore[misc]
            for file in Path("/run/libvirt/qemu").glob(f"{vm.name}.*"):
                file.unlink()
    finally:
        libvirtd.start("libvirtd")


def no_cgroup(name: str) -> bool:
    """Remove the VM's cgroups, parts first; False while a thread of it is left."""
    for root in Path("/sys/fs/cgroup").glob(f"*/machine*/qemu-*-{name}.libvirt-qemu"):
        try:
            for part in [*root.glob("*/"), root]:
                part.rmdir()
        except OSError:
            return False
    return True


def reset(vm: VmStatus) -> None:
    """The guest's reset button."""
    subprocess.run(["virsh", "-c", "qemu:///system", "reset", vm.name], check=True, capture_output=True)


# -- the scenarios --------------------------------------------------------------------------------------------------


async def test_s45_the_probes_verdict_is_a_node_condition(world: World) -> None:
    """S-45: what a guest that really ran showed, whatever /dev/kvm pretends; where emulation is not allowed, the node
    is not Ready, says why, and starts nothing.
    """
    verdict = await asyncio.to_thread(probe)
    accelerated = await node_condition(world, "HardwareAcceleration")
    assert accelerated["status"] == str(verdict.kvm_usable)
    assert verdict.reason in accelerated["message"]
    if verdict.kvm_usable:
        pytest.skip("guests run under KVM here: nothing to forbid")
    agent = world.box.agents[0]
    config = world.box.node_state(0) / "edgecore.toml"
    allowed = config.read_text()
    async with pods(world, manifest("emulated")):
        before = await world.vm("emulated")
        await agent.stop()
        config.write_text(allowed.replace('driver = "libvirt"', 'driver = "libvirt"\nallow_emulation = false'))
        await agent.start()
        says = await node_says(world, "Ready", "False")
        assert says["reason"] == "NoAcceleration"
        assert "emulation is not allowed" in says["message"]
        assert (await node_condition(world, "HardwareAcceleration"))["message"] == verdict.reason
        await create(world, manifest("forbidden", nodeName=world.box.node_names[0]))
        await shows(world, "forbidden", "CreateContainerConfigError")
        await shows(world, "forbidden", "the configuration forbids emulation")
        assert [vm.owner.pod for vm in await world.runtime.list()] == ["emulated"]
        assert (await world.vm("emulated")).boot_id == before.boot_id, "what runs already is left alone"
        await agent.stop()
        config.write_text(allowed)
        await agent.start()
        await node_says(world, "Ready", "True")
        await ready(world, "forbidden")
        await delete(world, "forbidden")


BAD = [
    (manifest("no-image", image="nosuch/guest:1"), "ErrImagePull", "image nosuch/guest:1 is not on this node"),
    (manifest("too-small", limits={"memory": "16Mi"}), "CreateContainerConfigError", "16 MiB is below 96 MiB"),
    (
        manifest("bad-annotation", annotations={"copepod.dev/max-memory": "lots"}),
        "CreateContainerConfigError",
        "annotation copepod.dev/max-memory: 'lots'",
    ),
    (
        manifest("bad-pair", annotations={"copepod.dev/max-memory": "2Gi"}),
        "CreateContainerConfigError",
        "largest maximum for 96 MiB is 512 MiB",
    ),
    (manifest("too-many-cpus", limits={"cpu": "640"}), "CreateContainerConfigError", "640 vCPUs do not boot on a host"),
    (manifest("too-much-memory", limits={"memory": "64Gi"}), "Unschedulable", "Insufficient memory"),
    (manifest("too-much-cpu", requests={"cpu": "64"}, limits={"cpu": "64"}), "Unschedulable", "Insufficient cpu"),
]


async def test_what_can_never_run_says_why_and_makes_nothing(world: World) -> None:
    """Bad input: the reason stands where kubectl users look, in words that say what to do; no domain, no log."""
    await create(world, *(pod for pod, _, _ in BAD))
    for pod, reason, message in BAD:
        name = pod["metadata"]["name"]
        await shows(world, name, reason)
        await shows(world, name, message)
        assert (await world.pod(name))["status"]["phase"] == "Pending"
    await shows(world, "no-image", "copepod image build")
    described = await world.kubectl.ok("describe", "pod", "no-image")
    assert re.search(r"Warning\s+Failed\s.*image nosuch/guest:1 is not on this node", described)
    assert "ErrImagePull" in await world.kubectl.ok("get", "pod", "no-image")
    assert await world.runtime.list() == []
    await delete(world, *(pod["metadata"]["name"] for pod, _, _ in BAD))
    assert await world.runtime.list() == []


async def test_s60_each_base_boots_with_its_largest_maximum_and_fills_it(world: World) -> None:
    """S-60: neither the bounce buffer nor the page structures of a large maximum sink a small guest."""
    smallest = {f"base-{base}": (base, most) for base, most in BASE_FOR_MAXIMUM[:2]}
    wanted = [
        manifest(name, limits={"memory": f"{base}Mi", "cpu": "1"}, annotations={"copepod.dev/max-memory": f"{most}Mi"})
        for name, (base, most) in smallest.items()
    ]
    async with pods(world, *wanted):
        for name, (base, most) in smallest.items():
            vm = await answering(world, name)
            assert (vm.memory_base_mib, vm.memory_max_mib, vm.memory_actual_mib) == (base, most, base)
            await world.patch_resources(name, "vm", {"limits": {"memory": f"{most}Mi"}})
            await world.resized(name, timeout=60)
            grown = await world.vm(name)
            assert grown.boot_id == vm.boot_id
            assert grown.guest_total_kib is not None
            assert vm.guest_total_kib is not None
            assert abs(grown.guest_total_kib - vm.guest_total_kib - (most - base) * 1024) <= 2048


async def test_resize_policies_restart_for_memory_and_not_for_cpu(world: World) -> None:
    """The example of resize policies does what it says."""
    await world.kubectl.ok("create", "-f", str(manifests() / "resize-policies.yaml"))
    await ready(world, "resize-policies")
    first = await answering(world, "resize-policies")
    await world.patch_resources("resize-policies", "vm", {"limits": {"cpu": "500m"}})
    await world.resized("resize-policies")
    assert (await world.vm("resize-policies")).boot_id == first.boot_id
    amounts = {"memory": "160Mi"}
    await world.patch_resources("resize-policies", "vm", {"limits": amounts, "requests": amounts})
    await restarts(world, "resize-policies", 1)
    await world.resized("resize-policies")
    second = await answering(world, "resize-policies")
    assert (second.memory_actual_mib, second.uuid) == (160, first.uuid)
    assert second.boot_id != first.boot_id
    await delete(world, "resize-policies")


SILENT_SECONDS = 15


async def test_s63_without_the_guests_word_a_cpu_resize_is_never_done(world: World) -> None:
    """S-63: the guest's agent is gone, so nobody can say how many CPUs are online: the condition stays and says why,
    until the agent is back, or the guest has rebooted.
    """
    async with pods(world, manifest("silent", limits={"cpu": "1"}, annotations={"copepod.dev/max-cpu": "2"})):
        first = await answering(world, "silent")
        again = (
            f"sleep {SILENT_SECONDS}; port=$(cd /dev; ls -d vport*p1); qemu-ga -m virtio-serial -p /dev/$port -t /run"
        )
        await _silence(world, first, f"({again}) </dev/null >/dev/null 2>&1 &")
        await _never_done_while_silent(world, "silent", "2")
        await world.resized("silent", timeout=SILENT_SECONDS + SOON)
        back = await world.vm("silent")
        assert (back.vcpus_online, back.boot_id) == (2, first.boot_id)

        await _silence(world, first, "")
        await _never_done_while_silent(world, "silent", "1")
        await asyncio.to_thread(reset, first)
        await world.resized("silent", timeout=BOOT)
        rebooted = await answering(world, "silent")
        assert rebooted.vcpus_online == 1
        assert rebooted.boot_id != first.boot_id
        assert (await container(world, "silent"))["restartCount"] == 0, "a guest's reboot is not an exit (S-44)"


async def _silence(world: World, vm: VmStatus, and_then: str) -> None:
    """End the guest's agent, through itself; it cannot say that it did."""
    command = f"{and_then}\nkill -9 $(pidof qemu-ga | tr ' ' '\\n' | head -n 1)"
    with suppress(VmError):
        await world.runtime.exec(vm.uuid, ["/bin/sh", "-c", command], timeout=3)

    async def look() -> str | None:
        return "it is still there" if (await world.vm(vm.owner.pod)).agent_ready else None

    await until_none(look, "the guest's agent is gone", SOON)


async def _never_done_while_silent(world: World, name: str, cpus: str) -> None:
    done = (await events(world, name)).count("ResizeCompleted")
    await world.patch_resources(name, "vm", {"limits": {"cpu": cpus}})

    async def look() -> str | None:
        assert (await events(world, name)).count("ResizeCompleted") == done
        condition = by_type((await world.pod(name))["status"]["conditions"]).get("PodResizeInProgress", {})
        return None if "agent" in condition.get("message", "") else str(condition)

    await until_none(look, "the condition names the guest's agent", SOON)


async def test_s04_s06_s07_what_happened_offline_arrives_in_order(world: World) -> None:
    """S-04, S-06, S-07: while the link is cut a VM dies and is restarted from local data, and a pod is created at the
    hub. After it: the same VMs, the restart counted once, its events in order, the new pod started.
    """
    async with pods(world, manifest("steady"), manifest("shaken")):
        steady, shaken = await answering(world, "steady"), await answering(world, "shaken")
        async with severed(world.box.links[0]):
            await create(world, manifest("waiting", nodeName=world.box.node_names[0]))
            kill_qemu(shaken)
            await until(lambda: len(world.recorder.of(shaken.uuid, "started")) == 1, "it is restarted", SOON)
            reborn = await answering(world, "shaken")
            assert reborn.boot_id != shaken.boot_id
            assert (await container(world, "shaken"))["restartCount"] == 0, "the hub cannot know yet"
        await node_says(world, "Ready", "True")
        await restarts(world, "shaken", 1)
        await restarts(world, "waiting", 0)
        assert (await world.vm("steady")).boot_id == steady.boot_id
        assert (await world.vm("shaken")).boot_id == reborn.boot_id
        last = (await container(world, "shaken"))["lastState"]["terminated"]
        assert (last["reason"], last["exitCode"]) == ("Killed", 137)

        async def in_order() -> str | None:
            seen = [reason for reason in await events(world, "shaken") if reason in ("Started", "Exited")]
            return None if seen == ["Started", "Exited", "Started"] else str(seen)

        await until_none(in_order, "events in order", SOON)
        await world.sides_agree("shaken")
        await delete(world, "waiting")


async def test_s40_s41_s42_a_dead_vm_is_noticed_after_libvirtds_restart_and_counted_once(world: World) -> None:
    """S-40, S-42: after libvirtd was killed and started, VMs are untouched and events work: a QEMU killed then is
    noticed within seconds. S-41: an agent killed, and one replaced, adopt the VM with its boot id and restart count.
    """
    async with pods(world, manifest("kept"), manifest("struck")):
        kept, struck = await answering(world, "kept"), await answering(world, "struck")
        pids = [libvirtd.qemu_pid(vm.name) for vm in (kept, struck)]
        await hostservices.restart_libvirtd(kill=True)
        await node_says(world, "Ready", "True")
        assert [libvirtd.qemu_pid(vm.name) for vm in (kept, struck)] == pids
        assert (await answering(world, "kept")).boot_id == kept.boot_id
        kill_qemu(struck)
        await shows(world, "struck", '"reason": "Killed"')
        await restarts(world, "struck", 1)
        struck = await answering(world, "struck")

        agent = world.box.agents[0]
        for end in (agent.kill, agent.stop):  # a crash; an upgrade's restart
            await end()
            await agent.start()
            await world.kubectl.ok("annotate", "pod", "struck", "kept", f"seen={end.__name__}", "--overwrite")
            await node_says(world, "Ready", "True")
            for before, count in ((kept, 0), (struck, 1)):
                now = await answering(world, before.owner.pod)
                assert (now.boot_id, now.uuid) == (before.boot_id, before.uuid)
                assert (await container(world, before.owner.pod))["restartCount"] == count


async def test_s01_after_a_power_cut_the_node_starts_its_vms_alone(world: World) -> None:
    """S-01: agent, libvirtd, all QEMUs, hub and broker die at once. The agent alone starts what its policy says, and
    counts; Never stays down. Hub and broker, back later, hear the same.
    """
    box, agent = world.box, world.box.agents[0]
    policies = {"always": "Always", "on-failure": "OnFailure", "never": "Never"}
    await create(world, *(manifest(name, restartPolicy=policy) for name, policy in policies.items()))
    for name in policies:
        await ready(world, name)
    before = {name: await answering(world, name) for name in policies}
    uids = {name: (await world.pod(name))["metadata"]["uid"] for name in policies}
    await asyncio.gather(agent.kill(), box.hub.kill(), box.broker.kill())
    await asyncio.to_thread(cut_power, list(before.values()))
    assert {vm.state for vm in await world.runtime.list()} == {VmState.STOPPED}

    await agent.start()
    for name in ("always", "on-failure"):
        now = await answering(world, name)
        assert now.boot_id != before[name].boot_id
        assert now.uuid == before[name].uuid
        await node_shows(world, uids[name], '"restartCount": 1', '"reason": "HostReboot"')
    await node_shows(world, uids["never"], '"phase": "Failed"')
    assert [
        vm.owner.pod for vm in await world.runtime.list() if vm.state is VmState.RUNNING and vm.owner.pod == "never"
    ] == []

    await box.broker.start()
    await box.hub.start()
    await node_says(world, "Ready", "True")
    for name in ("always", "on-failure"):
        await restarts(world, name, 1)
    for name in policies:
        await world.sides_agree(name)
    assert (await world.pod("never"))["status"]["phase"] == "Failed"
    await delete(world, *policies)


async def test_s86_an_empty_hub_deletes_nothing_and_the_old_one_claims_by_uid(world: World) -> None:
    """S-86: another hub store on the same broker knows none of the pods. They run on, named by a node condition; a pod
    created anew under an old name is another pod; the hub that knew them claims them again, unchanged.
    """
    hub, directory = world.box.hub, world.box.layout.hub
    kept = directory.with_name("hub-kept")
    async with pods(world, manifest("first"), manifest("second")):
        first, second = await answering(world, "first"), await answering(world, "second")
        await hub.stop()
        directory.rename(kept)
        directory.mkdir(mode=0o700)
        for file in ("cloudhub.toml", "broker-password"):
            shutil.copy2(kept / file, directory)
        await hub.start()
        says = await node_says(world, "UnclaimedPods", "True", "default/second")
        assert "default/first" in says["message"]
        assert await world.kubectl.get("pod", "first") is None
        await node_says(world, "Ready", "True")

        await create(world, manifest("first"))
        await ready(world, "first")
        twins = [vm for vm in await world.runtime.list() if vm.owner.pod == "first"]
        assert len(twins) == 2, "another UID is another pod"
        assert "default/first" in (await node_condition(world, "UnclaimedPods"))["message"]
        await world.kubectl.ok("delete", "pod", "first", "--grace-period=1", "--timeout=60s")

        await hub.stop()
        shutil.rmtree(directory)
        kept.rename(directory)
        await hub.start()
        await node_says(world, "UnclaimedPods", "False")
        for before in (first, second):
            name = before.owner.pod
            await ready(world, name)
            now = await answering(world, name)
            assert (now.uuid, now.boot_id, now.state) == (before.uuid, before.boot_id, VmState.RUNNING)
            line = (await world.kubectl.ok("get", "pods", name, "--no-headers")).split()
            assert line[:4] == [name, "1/1", "Running", "0"]
            await world.sides_agree(name)
        for vm in (first, second):
            assert not world.recorder.of(vm.uuid, "gone")
            assert not world.recorder.of(vm.uuid, "stopped")


async def test_arktos_form_boots_is_resized_by_a_plain_patch_and_switched_off_and_on(world: World) -> None:
    """`spec.virtualMachine`: the same VM as of a container, and its power as it is wished."""
    wanted = manifest("machine", requests={"cpu": "250m"})
    wanted["spec"]["virtualMachine"] = wanted["spec"].pop("containers")[0]

    async def wish(**change: Any) -> None:
        text = json.dumps({"spec": {"virtualMachine": change}})
        await world.kubectl.ok("patch", "pod", "machine", "--patch", text)

    async with pods(world, wanted):
        before = await answering(world, "machine")
        status = (await world.pod("machine"))["status"]["virtualMachineStatus"]
        assert (status["virtualMachineId"], status["powerState"]) == (before.uuid, "running")
        sizes = {"cpu": "700m", "memory": "160Mi"}
        await wish(resources={"limits": sizes, "requests": sizes})
        await world.resized("machine")
        grown = await world.vm("machine")
        assert (grown.boot_id, grown.cpu_limit_millicores, grown.memory_actual_mib) == (before.boot_id, 700, 160)
        await wish(powerSpec="Shutdown")
        await shows(world, "machine", "PoweredOff")
        assert (await world.vm("machine")).state is VmState.STOPPED
        await wish(powerSpec="Running")
        await restarts(world, "machine", 1)
        again = await answering(world, "machine")
        assert again.uuid == before.uuid
        assert again.boot_id != before.boot_id
        assert again.cpu_limit_millicores == 700


async def test_nothing_is_left_behind(world: World) -> None:
    """Last: every pod of this file is gone, so nothing of their VMs may be: domain, process, socket, cgroup, log."""
    uuids = {effect.uuid for effect in world.recorder.effects}
    assert uuids, "this test is about the others' VMs"
    assert await world.runtime.list() == []
    assert await asyncio.to_thread(leftovers, uuids) == []


def leftovers(uuids: set[str]) -> list[str]:
    """A VM's name ends with the first group of its UUID, and so does what libvirt makes for it."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    found = [f"process of {uuid}" for uuid in uuids if f"-uuid {uuid}" in processes]
    tails = {f"-{uuid.split('-')[0]}" for uuid in uuids}
    for root in (
        "/var/log/copepod/console",
        "/var/log/libvirt/qemu",
        "/run/libvirt",
        "/var/lib/libvirt",
        "/sys/fs/cgroup",
    ):
        for place, directories, files in os.walk(root):  # unlike rglob, it does not mind what others remove meanwhile
            for name in (*directories, *files):
                if name[:36] in uuids or any(tail in name for tail in tails):
                    found.append(f"{place}/{name}")
    return found
