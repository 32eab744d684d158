"""A pod in Arktos' form on its node: what is said of it, its power, and what its guest's own power-off means."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edgecore.machine import configured
from edgecore.spec import vm_uuid
from kubeapi.core import Pod, VirtualMachine, VirtualMachineStatus
from tests.support.node import Node, pod, running_node
from vmruntime.fake import FakeHost

pytestmark = pytest.mark.looptime

VM = vm_uuid("u1", "vm")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    host = FakeHost(cpus=4, memory_mib=8192, boot_delay=2.0)
    async with running_node(tmp_path / "store.db", host) as made:
        yield made


def machine(generation: int = 1, *, cpu: str = "500m", **more: Any) -> Pod:
    """As the hub sends it: machine and mirror in step."""
    policy = more.pop("restartPolicy", "Always")
    made = pod(cpu=cpu, generation=generation, restartPolicy=policy)
    mirror = made.spec.containers[0].to_dict()
    shared = {name: mirror[name] for name in ("name", "image", "resources")}
    made.spec.virtual_machine = VirtualMachine.from_dict(
        shared | {"powerSpec": "Running", "shutdownBehavior": "stop"} | more
    )
    return made


def seen(node: Node) -> VirtualMachineStatus:
    return node.status().virtual_machine_status or VirtualMachineStatus()


def waits(node: Node) -> str:
    statuses = node.status().container_statuses
    waiting = statuses[0].state.waiting if statuses and statuses[0].state else None
    return (waiting.reason if waiting else None) or ""


async def test_a_machine_says_what_it_is_given(node: Node) -> None:
    await node.wish(machine())
    await node.until(node.ready)
    said = seen(node)
    assert (said.name, said.virtual_machine_id) == ("vm", VM)
    assert (said.state, said.power_state, said.ready, said.restart_count) == ("active", "running", True, 0)
    assert said.image_id == node.status().container_statuses[0].image_id
    assert node.condition("VirtualMachineConfigured") == "True"
    await node.wish(machine(2, cpu="700m"))
    await node.until(node.settled)
    allocated, in_force = seen(node).allocated_resources, seen(node).resources
    assert allocated is not None
    assert in_force is not None
    assert allocated.limits["cpu"] == in_force.limits["cpu"] == "700m"


async def test_a_pod_of_containers_says_nothing_of_machines(node: Node) -> None:
    await node.wish(pod())
    await node.until(node.ready)
    assert node.status().virtual_machine_status is None
    assert node.condition("VirtualMachineConfigured") is None


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_power_goes_off_and_on_as_it_is_wished(node: Node, policy: str) -> None:
    await node.wish(machine(restartPolicy=policy))
    await node.until(node.ready)
    await node.wish(machine(2, restartPolicy=policy, powerSpec="Shutdown"))
    await node.until(lambda: waits(node) == "PoweredOff")
    await node.until(lambda: node.status().observed_generation == 2)
    assert not node.host.vms[VM].running
    assert (seen(node).state, seen(node).power_state, seen(node).ready) == ("stopped", "shutdown", False)
    assert node.status().phase == "Running", "it is kept, with all that it was allocated"
    last = node.status().container_statuses[0].last_state
    assert last is not None
    assert last.terminated is not None
    assert last.terminated.reason == "PoweredOff"
    await node.wish(machine(3, restartPolicy=policy))
    await node.until(lambda: node.ready() and seen(node).restart_count == 1, within=10)
    assert seen(node).power_state == "running"
    assert node.book.records["u1"].container("vm").crashes == 0


async def test_a_machine_that_is_off_is_resized_when_it_is_switched_on(node: Node) -> None:
    await node.wish(machine())
    await node.until(node.ready)
    await node.wish(machine(2, powerSpec="Shutdown"))
    await node.until(lambda: waits(node) == "PoweredOff")
    await node.wish(machine(3, powerSpec="Shutdown", cpu="1500m"))
    await node.until(lambda: node.book.records["u1"].allocated["vm"].limits["cpu"] == "1500m")
    await node.until(lambda: node.status().observed_generation == 3)
    waiting = node.status().condition("PodResizeInProgress")
    assert waiting is not None
    assert "has its new size when it is switched on" in (waiting.message or "")
    assert not node.host.vms[VM].running
    await node.wish(machine(4, cpu="1500m"))
    await node.until(node.ready)
    await node.until(node.settled)
    assert node.host.vms[VM].cpu_limit_millicores == 1500


async def test_a_machine_may_be_made_switched_off(node: Node) -> None:
    await node.wish(machine(powerSpec="Shutdown"))
    await node.until(lambda: waits(node) == "PoweredOff")
    assert VM not in node.host.vms
    assert (node.status().phase, seen(node).power_state) == ("Pending", "nostate")
    await node.wish(machine(2))
    await node.until(node.ready)
    assert seen(node).restart_count == 0


async def test_a_node_that_dies_while_it_switches_off_goes_on_with_it(tmp_path: Path) -> None:
    host = FakeHost(cpus=4, memory_mib=8192, boot_delay=2.0)
    async with running_node(tmp_path / "store.db", host) as node:
        await node.wish(machine())
        await node.until(node.ready)
    host.power_off(VM)  # as by a stop whose end nobody noted
    async with running_node(tmp_path / "store.db", host) as node:
        await node.wish(machine(2, powerSpec="Shutdown"))
        await node.until(lambda: waits(node) == "PoweredOff")
        assert not node.host.vms[VM].running


async def test_a_guest_that_switches_itself_off(node: Node) -> None:
    """By default the restart policy decides; `terminate` ends the pod."""
    await node.wish(machine())
    await node.until(node.ready)
    node.host.power_off(VM)
    await node.until(lambda: node.ready() and seen(node).restart_count == 1)
    await node.wish(machine(2, shutdownBehavior="terminate"))
    await node.until(node.settled)
    node.host.power_off(VM)
    await node.until(lambda: node.status().phase == "Succeeded")
    assert (seen(node).state, seen(node).power_state) == ("stopped", "shutdown")


def test_what_a_node_does_not_apply_is_said() -> None:
    given = {"name": "vm", "userData": "eA==", "publicKey": "ssh-ed25519 AAAA", "powerSpec": "Paused"}
    assert configured(VirtualMachine.from_dict(given)) == (
        False,
        "NotSupported",
        "this node does not apply: publicKey, userData, powerSpec Paused",
    )
