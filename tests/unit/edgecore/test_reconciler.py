"""Workers, desk and book together on the in-memory runtime, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgecore.admission import Amounts
from edgecore.spec import vm_uuid
from edgelink.api import Cursor, ViewChange
from tests.support.node import MIB, Node, pod, running_node
from vmruntime.api import VmState
from vmruntime.fake import FakeHost

pytestmark = pytest.mark.looptime

VM = vm_uuid("u1", "vm")


@pytest.fixture
async def host() -> FakeHost:
    return FakeHost(cpus=4, memory_mib=8192, boot_delay=2.0)


@pytest.fixture
async def node(tmp_path: Path, host: FakeHost) -> AsyncIterator[Node]:
    async with running_node(tmp_path / "store.db", host) as made:
        yield made


async def test_a_pod_becomes_a_ready_vm(node: Node) -> None:
    await node.wish(pod())
    await node.until(node.ready)
    status = node.status()
    assert status.phase == "Running"
    assert status.observed_generation == 1
    container = status.container_statuses[0]
    assert container.state is not None
    assert container.state.running is not None
    assert container.restart_count == 0
    assert container.resources is not None
    assert container.resources.limits == {"cpu": "500m", "memory": "96Mi"}
    assert "Started" in await node.events()


async def test_s72_cpu_memory_and_request_only_resizes_complete_in_place(node: Node) -> None:
    """S-72."""
    await node.wish(pod())
    await node.until(node.ready)
    boot = node.host.vms[VM].boot_id
    for generation, (cpu, memory) in enumerate([("700m", "96Mi"), ("2", "224Mi"), ("2", "128Mi")], start=2):
        await node.wish(pod(cpu=cpu, memory=memory, generation=generation))
        await node.until(node.settled)
        container = node.status().container_statuses[0]
        assert container.resources is not None
        assert container.resources.limits == {"cpu": cpu, "memory": memory}
        assert container.allocated_resources == {"cpu": cpu, "memory": memory}
    vm = node.host.vms[VM]
    assert (vm.vcpus_online, vm.actual_mib, vm.cpu_limit_millicores) == (2, 128, 2000)
    assert vm.boot_id == boot
    events = await node.events()
    assert events.count("ResizeStarted") == events.count("ResizeCompleted") == 3


async def test_s69_a_wish_beyond_the_vm_or_the_node_is_infeasible(node: Node) -> None:
    """S-69: the limit is in the message; what runs goes on; a later possible wish is taken."""
    await node.wish(pod())
    await node.until(node.ready)
    await node.wish(pod(memory="1Gi", generation=2))
    await node.until(lambda: node.condition("PodResizePending") == "True" and node.settled())
    pending = node.status().condition("PodResizePending")
    assert pending is not None
    assert pending.reason == "Infeasible"
    assert "512Mi" in (pending.message or "")
    await node.wish(pod(cpu="8", generation=3))
    await node.until(lambda: "8" in (node.status().condition("PodResizePending") or pending).message and node.settled())
    assert node.host.vms[VM].actual_mib == 96
    await node.wish(pod(memory="128Mi", generation=4))
    await node.until(node.settled)
    assert node.condition("PodResizePending") is None
    assert node.host.vms[VM].actual_mib == 128


async def test_s69_a_wish_that_is_taken_back_waits_no_longer(node: Node) -> None:
    """S-69: back to what is in force, after a wish that could not be: nothing is pending."""
    await node.wish(pod())
    await node.until(node.ready)
    await node.wish(pod(memory="1Gi", generation=2))
    await node.until(lambda: node.condition("PodResizePending") == "True")
    await node.wish(pod(generation=3))
    await node.until(lambda: node.settled(generation=3))
    assert node.condition("PodResizePending") is None


async def test_s68_a_deferred_wish_is_taken_when_room_appears(tmp_path: Path, host: FakeHost) -> None:
    """S-68: one deferred pod does not block another, and gets its turn when one leaves."""
    async with running_node(tmp_path / "s.db", host, allocatable=Amounts(1000, 4096 * MIB, 10)) as node:
        await node.wish(pod("a", "u1", cpu="400m"), pod("b", "u2", cpu="400m"), pod("c", "u3", cpu="100m"))
        await node.until(lambda: all(node.ready(uid) for uid in ("u1", "u2", "u3")))
        await node.wish(pod("a", "u1", cpu="600m", generation=2))
        await node.until(lambda: node.condition("PodResizePending", "u1") == "True" and node.settled("u1"))
        pending = node.status("u1").condition("PodResizePending")
        assert pending is not None
        assert (pending.reason, pending.message) == (
            "Deferred",
            "Node didn't have enough resource: cpu, requested: 600, used: 500, capacity: 1000",
        )
        await node.wish(pod("c", "u3", cpu="200m", generation=2))
        await node.until(lambda: node.settled("u3"))
        assert node.condition("PodResizePending", "u3") is None
        await node.wish(removed=(pod("b", "u2"),))
        await node.until(lambda: node.settled("u1") and node.condition("PodResizePending", "u1") is None)
        assert node.host.vms[VM].cpu_limit_millicores == 600


async def test_a_pod_that_does_not_fit_is_rejected(tmp_path: Path, host: FakeHost) -> None:
    async with running_node(tmp_path / "s.db", host, allocatable=Amounts(1000, 4096 * MIB, 10)) as node:
        await node.wish(pod(cpu="1500m"))
        await node.until(lambda: node.status().phase == "Failed")
        assert node.status().reason == "OutOfcpu"
        assert "requested: 1500, used: 0, capacity: 1000" in (node.status().message or "")
        assert node.host.vms == {}


async def test_s61_a_shrink_below_use_is_refused_and_the_guest_survives(node: Node) -> None:
    """S-61."""
    await node.wish(pod(memory="256Mi"))
    await node.until(node.ready)
    node.host.use_memory(VM, 200)
    await node.wish(pod(memory="128Mi", generation=2))
    await node.until(
        lambda: (node.status().condition("PodResizeInProgress") or pod()).to_dict().get("reason") == "Error"
    )
    container = node.status().container_statuses[0]
    assert container.resources is not None
    assert container.resources.limits["memory"] == "256Mi"
    assert node.host.vms[VM].state is VmState.RUNNING
    node.host.use_memory(VM, 40)
    await node.until(node.settled)
    assert node.host.vms[VM].actual_mib == 128


async def test_s41_a_new_agent_adopts_running_vms(tmp_path: Path, host: FakeHost) -> None:
    """S-41: nothing is restarted, and nothing is said twice."""
    async with running_node(tmp_path / "s.db", host) as node:
        await node.wish(pod())
        await node.until(lambda: node.ready() and node.settled())
        sequence = node.book.records["u1"].sequence
    boots = host.vms[VM].boots
    async with running_node(tmp_path / "s.db", host) as node:
        await node.until(lambda: "u1" in node.desk.seen)
        await node.until(node.ready)
        assert host.vms[VM].boots == boots
        assert node.book.records["u1"].sequence == sequence


async def test_s01_after_a_host_reboot_vms_run_again_from_the_store_alone(tmp_path: Path, host: FakeHost) -> None:
    """S-01, S-06: by restart policy, with no hub in sight."""
    async with running_node(tmp_path / "s.db", host) as node:
        await node.wish(pod("a", "u1"), pod("n", "u2", restartPolicy="Never"))
        await node.until(lambda: node.ready("u1") and node.ready("u2"))
    host.reboot_host()
    async with running_node(tmp_path / "s.db", host) as node:
        await node.until(lambda: node.ready("u1") and node.status("u2").phase == "Failed")
        assert node.status("u1").container_statuses[0].restart_count == 1


async def test_s42_a_killed_vm_is_restarted_with_back_off(node: Node) -> None:
    """S-42: noticed by event; at once the first time, then later and later."""
    await node.wish(pod())
    await node.until(node.ready)
    node.host.crash(VM)
    await node.until(lambda: node.status().container_statuses[0].restart_count == 1 and node.ready(), within=5)
    container = node.status().container_statuses[0]
    assert container.last_state is not None
    assert container.last_state.terminated is not None
    assert (container.last_state.terminated.reason, container.last_state.terminated.exit_code) == ("Killed", 137)
    node.host.crash(VM)
    await node.until(lambda: not node.ready())
    waiting = node.status().container_statuses[0].state
    assert waiting is not None
    assert waiting.waiting is not None
    assert waiting.waiting.reason == "CrashLoopBackOff"
    await node.until(node.ready, within=20)


async def test_restart_policies_decide_after_a_clean_exit(node: Node) -> None:
    await node.wish(pod("never", "u1", restartPolicy="Never"), pod("onfail", "u2", restartPolicy="OnFailure"))
    await node.until(lambda: node.ready("u1") and node.ready("u2"))
    node.host.power_off(VM)
    node.host.power_off(vm_uuid("u2", "vm"), 3)
    await node.until(lambda: node.status("u1").phase == "Succeeded")
    await node.until(lambda: node.ready("u2") and node.status("u2").container_statuses[0].restart_count == 1)


async def test_s44_a_guest_reboot_is_not_an_exit(node: Node) -> None:
    """S-44: the same VM; CPUs that the kernel did not bring up come back."""
    await node.wish(pod(cpu="2"))
    await node.until(lambda: node.ready() and node.settled() and node.host.vms[VM].vcpus_online == 2)
    node.host.reboot_guest(VM)
    node.host.vms[VM].vcpus_online = 1
    await node.until(lambda: node.host.vms[VM].vcpus_online == 2)
    assert node.status().container_statuses[0].restart_count == 0


async def test_deletion_stops_the_vm_and_tells_the_hub(node: Node) -> None:
    """S-08, the node's half: torn down once, and said."""
    await node.wish(pod())
    await node.until(node.ready)
    dying = pod()
    dying.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    dying.metadata.deletion_grace_period_seconds = 5
    await node.wish(dying)
    await node.until(lambda: node.host.vms == {} and node.book.records["u1"].torn_down)
    assert [item["kind"] for item in await node.outgoing() if item.get("uid") == "u1"] == ["PodGone"]
    await node.wish(removed=(dying,))
    await node.until(lambda: node.book.records == {})


async def test_a_name_that_comes_back_is_another_pod(node: Node) -> None:
    """Identity is the UID: the old VM is torn down, the new one is made."""
    await node.wish(pod(uid="u1"))
    await node.until(node.ready)
    await node.wish(pod(uid="u2"))
    await node.until(lambda: node.ready("u2") and list(node.host.vms) == [vm_uuid("u2", "vm")])


async def test_s86_a_foreign_hub_deletes_nothing(node: Node) -> None:
    """S-86: an empty hub's snapshot leaves every VM; the pod is Unclaimed until it is claimed by UID."""
    await node.wish(pod())
    await node.until(node.ready)
    await node.book.apply(ViewChange(Cursor("another", 3), (), (), complete=True, absence_deletes=False))
    assert [item.key.name for item in node.book.unclaimed.values()] == ["web"]
    assert node.book.held() == {}
    await node.until(node.ready)
    assert node.host.vms[VM].state is VmState.RUNNING
    node.hub = "another"
    await node.wish(pod(cpu="700m", generation=2))
    assert node.book.unclaimed == {}
    await node.until(lambda: node.settled(generation=2))
    assert node.host.vms[VM].boots == 1
    await node.book.apply(ViewChange(Cursor("another", 9), (), (), complete=True, absence_deletes=True))
    await node.until(lambda: node.host.vms == {})


async def test_s30_a_lost_store_is_rebuilt_from_the_vms(tmp_path: Path, host: FakeHost) -> None:
    """S-30, in part: VMs of ours whose pods the store does not know are kept as Unclaimed and go on unrestarted."""
    async with running_node(tmp_path / "a.db", host) as node:
        await node.wish(pod())
        await node.until(lambda: node.ready() and node.settled())
    async with running_node(tmp_path / "b.db", host) as node:
        await node.until(lambda: node.ready())
        assert list(node.book.unclaimed) == ["u1"]
        assert host.vms[VM].boots == 1


async def test_unknown_image_is_said_and_retried(tmp_path: Path) -> None:
    host = FakeHost(cpus=4, memory_mib=8192, boot_delay=1.0, images={})
    async with running_node(tmp_path / "s.db", host) as node:
        await node.wish(pod(image="nowhere/nothing:1"))
        await node.until(lambda: bool(node.status().container_statuses) and _waiting(node) == "ErrImagePull")
        state = node.status().container_statuses[0].state
        assert state is not None
        assert state.waiting is not None
        assert "nowhere/nothing:1" in (state.waiting.message or "")
        assert host.vms == {}
        host.images = None
        await node.until(node.ready)


async def test_impossible_sizes_and_annotations_are_named(node: Node) -> None:
    await node.wish(
        pod("small", "u1", memory="16Mi"),
        pod("bad", "u2", annotations={"copepod.dev/max-memory": "lots"}),
    )
    await node.until(lambda: all(_waiting(node, uid) == "CreateContainerConfigError" for uid in ("u1", "u2")))
    assert "16 MiB" in _message(node, "u1")
    assert "copepod.dev/max-memory" in _message(node, "u2")
    assert node.host.vms == {}


async def test_resize_policy_restarts_where_it_says_so(node: Node) -> None:
    policy = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
    await node.wish(pod(container=policy))
    await node.until(node.ready)
    await node.wish(pod(cpu="600m", generation=2, container=policy))
    await node.until(node.settled)
    assert node.host.vms[VM].boots == 1
    await node.wish(pod(cpu="600m", memory="1Gi", generation=3, container=policy))
    await node.until(lambda: node.settled() and node.ready())
    assert node.host.vms[VM].actual_mib == 1024
    assert node.status().container_statuses[0].restart_count == 1


async def test_s40_a_runtime_that_is_down_changes_nothing(node: Node) -> None:
    """S-40: while libvirtd is away nothing is restarted or torn down; afterwards the newest wish is met."""
    await node.wish(pod())
    await node.until(node.ready)
    node.host.set_down(True)
    await node.wish(pod(cpu="700m", generation=2))
    await node.until(lambda: True)
    node.host.set_down(False)
    await node.until(lambda: node.settled(generation=2))
    assert node.host.vms[VM].boots == 1
    assert node.host.vms[VM].cpu_limit_millicores == 700


async def test_s63_a_guest_that_does_not_follow_is_never_called_done(node: Node) -> None:
    """S-63: plugged but not onlined stays in progress, with the reason."""
    await node.wish(pod())
    await node.until(node.ready)
    node.host.faults.guest_ignores = True
    await node.wish(pod(cpu="2", generation=2))
    await node.until(
        lambda: (node.status().condition("PodResizeInProgress") or pod()).to_dict().get("reason") == "Error"
    )
    assert "ResizeCompleted" not in await node.events()
    node.host.faults.guest_ignores = False
    await node.until(node.settled)
    assert node.host.vms[VM].vcpus_online == 2


async def test_s63_a_silent_guest_is_named_as_what_a_resize_waits_for(node: Node) -> None:
    """S-63: without the guest's agent nothing can be confirmed: never done, and the condition says so."""
    await node.wish(pod())
    await node.until(node.ready)
    node.host.faults.boot_hangs = True
    await node.wish(pod(cpu="2", generation=2))

    def message() -> str:
        found = node.status().condition("PodResizeInProgress")
        return (found.message or "") if found else ""

    await node.until(lambda: "container 'vm': waiting for the guest's agent to connect" in message())
    assert "ResizeCompleted" not in await node.events()
    node.host.faults.boot_hangs = False
    node.reconciler.wake_all()
    await node.until(node.settled)
    assert node.host.vms[VM].vcpus_online == 2


async def test_s63_a_deaf_guest_does_not_keep_a_cpu_limit_that_was_lowered(node: Node) -> None:
    """S-63: what falls is enforced outside at once, and still not called done; what rises waits for the guest."""
    await node.wish(pod(cpu="2"))
    await node.until(node.ready)
    node.host.faults.boot_hangs = True
    await node.wish(pod(cpu="500m", generation=2))
    await node.until(lambda: node.host.vms[VM].cpu_limit_millicores == 500)
    await node.until(lambda: node.condition("PodResizeInProgress") == "True")
    await node.wish(pod(cpu="1", generation=3))
    await node.until(lambda: node.book.records["u1"].allocated["vm"].limits["cpu"] == "1")
    await asyncio.sleep(60)
    assert node.host.vms[VM].cpu_limit_millicores == 500
    assert not {"ResizeCompleted", "ResizeError"} & set(await node.events())
    node.host.faults.boot_hangs = False
    node.reconciler.wake_all()
    await node.until(node.settled)
    assert (node.host.vms[VM].cpu_limit_millicores, node.host.vms[VM].vcpus_online) == (1000, 1)


def _waiting(node: Node, uid: str = "u1") -> str | None:
    statuses = node.status(uid).container_statuses
    state = statuses[0].state if statuses else None
    return state.waiting.reason if state and state.waiting else None


def _message(node: Node, uid: str) -> str:
    state = node.status(uid).container_statuses[0].state
    assert state is not None
    assert state.waiting is not None
    return state.waiting.message or ""
