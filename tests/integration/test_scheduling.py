"""Scheduling as people see it: a real hub with scripted nodes (2 CPUs each), and the words of real kubectl."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edgelab.kubectl import Kubectl, find_kubectl
from kubeapi.core import Event, Pod
from kubeapi.meta import ObjectMeta
from kubeapi.policies import PodDisruptionBudget, PriorityClass
from tests.support.hub import Lab, ScriptedNode, in_memory, lab, until


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Lab]:
    async with lab(tmp_path / "hub", in_memory()) as made:
        classes = {"high": 1000, "low": 10}
        for name, value in classes.items():
            await made.objects.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
        yield made


def kubectl(hub: Lab) -> Kubectl:
    return Kubectl(hub.hub.kubeconfig, find_kubectl())


def manifest(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    container = {"name": "vm", "image": "copepod/micro:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "labels": {"app": name} | more.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]} | more}


async def create(hub: Lab, *manifests: dict[str, Any]) -> None:
    document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    await kubectl(hub).ok("create", "-f", "-", stdin=json.dumps(document))


async def refusal(hub: Lab, name: str) -> str | None:
    condition = (await hub.pod(name)).status.condition("PodScheduled")
    return condition.message if condition and condition.status == "False" else None


async def bound(hub: Lab, name: str) -> str | None:
    return (await hub.pod(name)).spec.node_name


async def ending(hub: Lab, name: str) -> Pod | None:
    found = await hub.pod(name)
    return found if found.metadata.deletion_timestamp else None


async def run(hub: Lab, node: ScriptedNode, name: str) -> None:
    node.running(await hub.delivered(node, name))
    await until(lambda: hub.pod_ready(name, "True"), f"{name} is Ready")


async def test_a_more_important_pod_makes_a_lesser_one_go(hub: Lab) -> None:
    node = await hub.node("n1")
    await create(hub, manifest("small", "1500m", priorityClassName="low"))
    await run(hub, node, "small")
    await create(hub, manifest("great", "1", priorityClassName="high"))
    victim: Pod = await until(lambda: ending(hub, "small"), "the lesser pod has to go")
    target = victim.status.condition("DisruptionTarget")
    assert target
    assert (target.status, target.reason) == ("True", "PreemptionByScheduler")
    assert target.message == "default-scheduler: preempting to accommodate a higher priority pod"
    great = await hub.pod("great")
    assert great.status.nominated_node_name == "n1"
    assert "Preempted by pod " + str(great.metadata.uid) + " on node n1" in await said_of(hub, "small", "Preempted")
    assert "0/1 nodes are available: 1 Insufficient cpu." in await kubectl(hub).ok("describe", "pod", "great")
    # It holds its room until its node says it has ended; meanwhile nobody less takes what is being freed.
    await create(hub, manifest("other", "600m", priorityClassName="low"))
    await until(lambda: refusal(hub, "other"), "the other one waits")
    node.gone(victim)
    assert await until(lambda: bound(hub, "great"), "the great one has its place") == "n1"
    assert (await hub.pod("great")).status.nominated_node_name is None
    await until(lambda: bound(hub, "other"), "and the other one what is left")


async def said_of(hub: Lab, name: str, reason: str) -> list[str]:
    async def found() -> list[str]:
        events = (await hub.objects.list(Event, "default")).items
        return [str(e.message) for e in events if (e.involved_object.name, e.reason) == (name, reason)]

    said: list[str] = await until(found, f"{reason} of {name}")
    return said


async def test_a_budget_turns_the_choice(hub: Lab) -> None:
    node = await hub.node("n1")
    await create(hub, manifest("guarded", "1", priorityClassName="low"), manifest("free", "1", priorityClassName="low"))
    for name in ("guarded", "free"):
        await run(hub, node, name)
    selector = {"matchLabels": {"app": "guarded"}}
    spec = {"minAvailable": 1, "selector": selector}
    budget = PodDisruptionBudget.from_dict({"metadata": {"name": "b", "namespace": "default"}, "spec": spec})
    await hub.objects.create(budget)
    await until(lambda: counted(hub), "the budget is counted")
    await create(hub, manifest("great", "1", priorityClassName="high"))
    await until(lambda: ending(hub, "free"), "who has no budget goes")
    assert not (await hub.pod("guarded")).metadata.deletion_timestamp


async def counted(hub: Lab) -> bool:
    found = await hub.objects.get(PodDisruptionBudget, "default", "b")
    return found.status.expected_pods == 1 and found.status.current_healthy == 1


async def test_s84_no_pod_is_made_to_go_on_a_silent_node(hub: Lab) -> None:
    """S-84: nothing would be freed by it; what runs behind the cut link runs on."""
    node = await hub.node("n1")
    await create(hub, manifest("small", "1500m", priorityClassName="low"))
    await run(hub, node, "small")
    await node.disconnect()
    await until(lambda: hub.ready("n1", "Unknown"), "n1 is missed")
    await create(hub, manifest("great", "1", priorityClassName="high", tolerations=[{"operator": "Exists"}]))
    assert await until(lambda: refusal(hub, "great"), "it waits") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )
    assert not (await hub.pod("small")).metadata.deletion_timestamp


async def test_who_shuns_whom_in_describe_and_who_comes_when_it_may(hub: Lab) -> None:
    await hub.node("n1")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await create(hub, manifest("one", "100m", labels={"tier": "web"}, affinity=affinity))
    await until(lambda: bound(hub, "one"), "the first")
    await create(hub, manifest("two", "100m", labels={"tier": "web"}, affinity=affinity))
    words = (
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. preemption: 0/1 nodes are "
        "available: 1 No preemption victims found for incoming pod."
    )
    assert await until(lambda: refusal(hub, "two"), "the second waits") == words
    assert words in await said_of(hub, "two", "FailedScheduling")
    await hub.node("n2")
    assert await until(lambda: bound(hub, "two"), "a place of its own") == "n2"


async def test_near_by_namespace_labels_which_may_come_later(hub: Lab) -> None:
    await hub.node("n1")
    await kubectl(hub).ok("create", "namespace", "friends")
    await kubectl(hub).ok("-n", "friends", "create", "-f", "-", stdin=json.dumps(manifest("pal", "100m")))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    term |= {"namespaceSelector": {"matchLabels": {"kind": "friendly"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await create(hub, manifest("one", "100m", affinity=affinity))
    assert "pod affinity rules" in await until(lambda: refusal(hub, "one"), "it waits")
    await kubectl(hub).ok("label", "namespace", "friends", "kind=friendly")
    await until(lambda: bound(hub, "one"), "now they are meant")


async def test_a_gate_and_then_none(hub: Lab) -> None:
    await hub.node("n1")
    await create(hub, manifest("one", "100m", schedulingGates=[{"name": "example.com/wait"}]))
    assert "non-empty scheduling gates" in await until(lambda: refusal(hub, "one"), "gated")
    shown = await kubectl(hub).ok("get", "pod", "one")
    assert "SchedulingGated" in shown
    await kubectl(hub).ok(
        "patch", "pod", "one", "--type=json", "-p", '[{"op":"remove","path":"/spec/schedulingGates"}]'
    )
    await until(lambda: bound(hub, "one"), "the gate is open")


async def test_what_makes_no_sense_is_refused_when_it_comes(hub: Lab) -> None:
    item = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Perhaps"}
    term = {"labelSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    odd = manifest("odd", "1", topologySpreadConstraints=[item], affinity=affinity)
    result = await kubectl(hub).run("create", "-f", "-", stdin=json.dumps(odd))
    where = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
    for words in (
        f"{where}: Required value: can not be empty",
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Perhaps": '
        'supported values: "DoNotSchedule", "ScheduleAnyway"',
    ):
        assert words in result.stderr
