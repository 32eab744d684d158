"""From first start to the end for good: what a node says of a pod, and what a pod holds of its node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgecore.admission import Amounts
from edgecore.spec import vm_uuid
from kubeapi.core import PodStatus
from tests.support.node import MIB, Node, pod, running_node
from vmruntime.fake import FakeHost

pytestmark = pytest.mark.looptime

VM = vm_uuid("u1", "vm")
ROOM = Amounts(1000, 4096 * MIB, 10)


@pytest.fixture
async def host() -> FakeHost:
    return FakeHost(cpus=4, memory_mib=8192, boot_delay=2.0)


@pytest.fixture
async def node(tmp_path: Path, host: FakeHost) -> AsyncIterator[Node]:
    async with running_node(tmp_path / "store.db", host, allocatable=ROOM) as made:
        yield made


def said(node: Node) -> list[PodStatus]:
    """Every status the node sends from now on."""
    statuses: list[PodStatus] = []
    node.book.outgoing = lambda: statuses.append(node.status())
    return statuses


def words(statuses: list[PodStatus]) -> list[str]:
    """Phase and container state of each, doubles in a row left out."""
    found: list[str] = []
    for status in statuses:
        for item in status.container_statuses:
            state = next(name for name, value in (item.state.to_dict() if item.state else {}).items() if value)
            if not found or found[-1] != f"{status.phase} {state}":
                found.append(f"{status.phase} {state}")
    return found


async def test_a_pod_never_goes_back_to_pending(node: Node) -> None:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase"""
    statuses = said(node)
    await node.wish(pod(restartPolicy="Never"))
    await node.until(node.ready)
    node.host.power_off(VM)
    await node.until(lambda: node.status().phase == "Succeeded")
    assert words(statuses) == ["Pending waiting", "Running running", "Succeeded terminated"]
    ready = node.status().condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "PodCompleted", None)


async def test_a_pod_that_is_deleted_keeps_its_phase(node: Node) -> None:
    await node.wish(pod())
    await node.until(node.ready)
    statuses = said(node)
    going = pod(generation=2)
    going.metadata.deletion_timestamp, going.metadata.deletion_grace_period_seconds = "2026-01-02T03:04:35Z", 30
    await node.wish(going)
    await node.until(lambda: node.book.records["u1"].torn_down)
    assert set(words(statuses)) <= {"Running running"}


async def test_a_pod_that_has_ended_holds_nothing(node: Node) -> None:
    await node.wish(pod("first", cpu="800m", restartPolicy="Never"))
    await node.until(node.ready)
    await node.wish(pod("wants", "u2", cpu="100m"))
    await node.until(lambda: node.ready("u2"))
    await node.wish(pod("wants", "u2", cpu="900m", generation=2))
    await node.until(lambda: node.condition("PodResizePending", "u2") == "True")
    node.host.power_off(VM, 3)
    await node.until(lambda: node.status().phase == "Failed")
    await node.until(lambda: node.settled("u2") and node.condition("PodResizePending", "u2") is None)
    ready = node.status().condition("Ready")
    assert ready is not None
    assert ready.reason == "PodFailed"
    await node.wish(pod("third", "u3", cpu="100m"))
    await node.until(lambda: node.ready("u3"))


async def test_s73_nothing_brings_back_a_pod_that_has_ended(node: Node) -> None:
    """S-73: neither a resize whose policy restarts, nor another image."""
    policy = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
    await node.wish(pod(restartPolicy="Never", container=policy))
    await node.until(node.ready)
    node.host.power_off(VM)
    await node.until(lambda: node.status().phase == "Succeeded")
    await node.wish(pod(restartPolicy="Never", container=policy, memory="128Mi", image="other", generation=2))
    await node.until(lambda: node.settled() and node.status().observed_generation == 2)
    assert node.status().phase == "Succeeded"
    assert node.status().condition("PodResizeInProgress") is None
    assert not node.host.vms[VM].running


async def test_a_pod_waits_for_those_that_are_leaving(node: Node) -> None:
    """Deleted by force: the hub has forgotten it and sends the next; its VM has its grace yet. Neither is refused."""
    await node.wish(pod("web", "u1", cpu="800m"))
    await node.until(node.ready)
    node.host.faults.hung = True
    await node.wish(pod("web", "u2", cpu="800m"), removed=(pod("web", "u1"),))
    await node.until(lambda: node.ready("u2"))
    assert "u1" not in node.book.records
    await node.wish(pod("too-much", "u3", cpu="800m"))
    await node.until(lambda: node.status("u3").reason == "OutOfcpu")


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_another_image_starts_the_container_again(node: Node, policy: str) -> None:
    """As the kubelet: whatever the restart policy says, at once, and it is no crash."""
    await node.wish(pod(restartPolicy=policy))
    await node.until(node.ready)
    await node.wish(pod(restartPolicy=policy, image="copepod/micro:next", generation=2))
    await node.until(lambda: node.ready() and node.status().container_statuses[0].restart_count == 1, within=10)
    container = node.status().container_statuses[0]
    assert container.image == "copepod/micro:next"
    assert node.host.vms[VM].spec.image == "copepod/micro:next"
    assert node.book.records["u1"].container("vm").crashes == 0
    assert "Killing" in await node.events()
