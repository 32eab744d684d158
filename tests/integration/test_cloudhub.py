"""The hub with everything real but nodes and broker: pods go down to scripted nodes, their word comes up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from cloudhub.logs import LinkLogs
from cloudhub.retention import EventRetention
from cloudhub.settings import EventSettings
from edgelink.api import ItemKey, NodeOffline, StreamRefused, StreamRequest
from kubeapi.core import Event, Node, Pod, Secret
from kubeapi.errors import ApiError
from kubeapi.server.logs import LogOptions
from metastore.api import Compacted
from metastore.upkeep import compact_forever
from tests.support.hub import Lab, in_memory, lab, over_mqtt, until
from tests.support.mosquitto import BINARY, running_mosquitto


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Lab]:
    async with lab(tmp_path / "hub", in_memory()) as running:
        yield running


@pytest.mark.skipif(BINARY is None, reason="mosquitto is not installed")
async def test_the_same_over_a_real_broker_which_is_killed_in_between(tmp_path: Path) -> None:
    """S-21: the broker dies and forgets everything; both sides notice and go on by themselves."""
    with running_mosquitto(tmp_path, ("hub", "n1")) as broker:
        async with lab(tmp_path / "hub", over_mqtt(broker.port)) as hub:
            node = await hub.node()
            await hub.started(node, "before")
            broker.kill()
            await hub.objects.delete(Pod, "default", "before")
            await hub.create("after")
            await until(lambda: hub.ready("n1", "Unknown"))
            broker.start()
            await until(lambda: (held := node.pod("before")) and held.metadata.deletion_timestamp)
            node.gone(await hub.pod("before"))
            node.running(await hub.delivered(node, "after"))
            await until(lambda: hub.pod_ready("after", "True"))
            await until(lambda: _absent(hub, "before"))
            await until(lambda: hub.ready("n1", "True"))


def taints(node: Node) -> list[str]:
    return [f"{taint.key}:{taint.effect}" for taint in node.spec.taints]


async def test_a_pod_goes_down_and_its_status_comes_up(hub: Lab) -> None:
    node = await hub.node()
    await hub.create("web")
    held = await hub.delivered(node, "web")
    assert held.spec.node_name == "n1"
    node.running(held)
    pod = await until(lambda: hub.pod_ready("web", "True"))
    assert pod.status.phase == "Running"
    scheduled = pod.status.condition("PodScheduled")
    assert scheduled
    assert scheduled.status == "True"
    events = (await hub.objects.list(Event, "default")).items
    assert "Successfully assigned default/web to n1" in [event.message for event in events]
    stored = await hub.objects.get(Node, None, "n1")
    assert stored.metadata.labels == {"kubernetes.io/hostname": "n1", "zone": "edge"}


async def test_a_status_is_not_echoed_down(hub: Lab) -> None:
    node = await hub.node()
    await hub.started(node, "web")
    uid = (await hub.pod("web")).metadata.uid
    node.running(await hub.pod("web"), status={"phase": "Running", "message": "two"})
    await until(lambda: _message(hub, "web", "two"))
    await hub.create("other")  # anything later: by then an echo would have come
    await hub.delivered(node, "other")
    assert len(node.backend.order[uid or ""]) == 1


async def _message(hub: Lab, name: str, message: str) -> bool:
    return (await hub.pod(name)).status.message == message


async def test_a_pod_waits_for_room_and_gets_it(hub: Lab) -> None:
    big = [{"name": "vm", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]
    await hub.create("waits", containers=big)
    await until(lambda: _unschedulable(hub, "waits", "no nodes available to schedule pods"))
    node = await hub.node()
    first = await hub.delivered(node, "waits")
    await hub.create("second", containers=big)
    wanted = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    await until(lambda: _unschedulable(hub, "second", wanted))
    await hub.objects.delete(Pod, "default", "waits", uid=first.metadata.uid)
    node.gone(first)
    await hub.delivered(node, "second")


async def _unschedulable(hub: Lab, name: str, message: str) -> bool:
    condition = (await hub.pod(name)).status.condition("PodScheduled")
    return bool(condition and condition.reason == "Unschedulable" and condition.message == message)


async def test_s08_a_pod_deleted_while_offline_is_terminating_until_the_node_confirms(hub: Lab) -> None:
    """S-08."""
    node = await hub.node()
    pod = await hub.started(node, "web")
    await node.disconnect()
    await hub.objects.delete(Pod, "default", "web")
    assert (await hub.pod("web")).metadata.deletion_timestamp
    await until(lambda: hub.ready("n1", "Unknown"))
    assert (await hub.pod("web")).metadata.uid == pod.metadata.uid
    node.connect()
    await until(lambda: (held := node.pod("web")) and held.metadata.deletion_timestamp)
    node.gone(pod)
    await until(lambda: _absent(hub, "web"))
    await until(lambda: node.pod("web") is None)
    assert node.backend.torn[pod.metadata.uid or ""] == 1


async def _absent(hub: Lab, name: str) -> bool:
    return name not in [pod.metadata.name for pod in (await hub.objects.list(Pod, "default")).items]


async def test_a_pod_that_is_not_being_deleted_stays_whatever_the_node_says(hub: Lab) -> None:
    node = await hub.node()
    pod = await hub.started(node, "web")
    node.gone(pod)
    await until(lambda: not node.backend.queue)
    assert (await hub.pod("web")).metadata.uid == pod.metadata.uid


async def test_s85_an_older_status_never_replaces_a_newer_one(hub: Lab) -> None:
    """S-85: sequence and generation decide, not arrival; another UID is another pod."""
    node = await hub.node()
    pod = await hub.started(node, "web")
    node.running(pod, sequence=50, status={"phase": "Running", "message": "newer"})
    await until(lambda: _message(hub, "web", "newer"))
    node.running(pod, sequence=49, status={"phase": "Pending", "message": "older"})
    await until(lambda: not node.backend.queue)
    node.running(pod, sequence=51, observedGeneration=0, status={"phase": "Pending", "message": "older generation"})
    await until(lambda: not node.backend.queue)
    node.running(pod, sequence=52, uid="another", status={"phase": "Failed", "message": "another's"})
    await until(lambda: not node.backend.queue)
    assert (await hub.pod("web")).status.message == "newer"
    assert hub.hub.backend.refused["stale"] == 3


async def test_s84_a_silent_node_keeps_its_pods_and_gets_no_new_ones(hub: Lab) -> None:
    """S-84, hub half: Ready=Unknown and a taint; nothing evicted, nothing bound there; all taken back on return."""
    node = await hub.node()
    before = await hub.started(node, "web")
    await node.disconnect()
    await until(lambda: hub.ready("n1", "Unknown"))
    silent = await until(lambda: hub.pod_ready("web", "False"))
    assert silent.metadata.uid == before.metadata.uid
    assert not silent.metadata.deletion_timestamp
    assert silent.status.phase == "Running"
    condition = (await hub.objects.get(Node, None, "n1")).status.condition("Ready")
    assert condition
    assert condition.reason == "NodeStatusUnknown"
    assert condition.message == "Node agent stopped posting node status."
    await until(lambda: _tainted(hub, ["node.kubernetes.io/unreachable:NoSchedule"]))
    await hub.create("new")
    await until(lambda: _waits(hub, "new", "1 node(s) had untolerated taint(s)"))

    node.connect()  # says nothing but its lease
    back = await until(lambda: hub.ready("n1", "True"))
    assert back.status.condition("Ready").reason == "AgentReady"
    await until(lambda: _tainted(hub, []))
    await until(lambda: hub.pod_ready("web", "True"))
    await hub.delivered(node, "new")


async def _tainted(hub: Lab, wanted: list[str]) -> bool:
    return taints(await hub.objects.get(Node, None, "n1")) == wanted


async def _waits(hub: Lab, name: str, text: str) -> bool:
    condition = (await hub.pod(name)).status.condition("PodScheduled")
    return bool(condition and text in (condition.message or ""))


async def test_s12_a_jump_of_the_wall_clock_decides_nothing(hub: Lab) -> None:
    """S-12: years forward, years back: the node stays Ready, Events stay."""
    node = await hub.node()
    await hub.started(node, "web")
    events = {event.metadata.name for event in (await hub.objects.list(Event, "default")).items}
    for years in (30, -30):
        hub.clock.offset = timedelta(days=365 * years)
        await hub.create(f"at-{years}")
        node.running(await hub.delivered(node, f"at-{years}"))
        await until(partial(hub.pod_ready, f"at-{years}", "True"))
        assert await hub.ready("n1", "True")
    kept = {event.metadata.name for event in (await hub.objects.list(Event, "default")).items}
    assert events <= kept
    assert not [event for event in (await hub.objects.list(Event)).items if event.reason == "NodeNotReady"]


async def test_s87_a_secret_older_than_the_cursor_comes_with_the_pod_and_first(hub: Lab) -> None:
    """S-87."""
    secret = Secret.from_dict({"metadata": {"name": "old", "namespace": "default"}, "data": {"k": "dg=="}})
    await hub.objects.create(secret)
    node = await hub.node()
    await until(lambda: node.backend.cursor)
    source = [{"secretRef": {"name": "old"}}]
    await hub.create("web", containers=[{"name": "vm", "image": "i", "envFrom": source}])
    await hub.delivered(node, "web")
    assert [f"{key.kind}/{key.name}" for key in node.backend.items] == ["secrets/old", "pods/web"]
    assert ItemKey("secrets", "default", "old") in node.backend.items


async def test_a_changed_secret_reaches_the_node(hub: Lab) -> None:
    node = await hub.node()
    made = Secret.from_dict({"metadata": {"name": "s", "namespace": "default"}, "data": {"k": "MQ=="}})
    stored = await hub.objects.create(made)
    source = [{"secretRef": {"name": "s"}}]
    await hub.create("web", containers=[{"name": "vm", "image": "i", "envFrom": source}])
    await hub.delivered(node, "web")
    stored.data = {"k": "Mg=="}
    await hub.objects.update(stored)
    await until(lambda: b"Mg==" in node.backend.items[ItemKey("secrets", "default", "s")].value)


async def test_s10_a_node_removed_while_it_was_off_rejoins_cleanly(hub: Lab) -> None:
    """S-10, hub half: it says everything again; the pods it had are gone, and so they go there as well."""
    node = await hub.node()
    pod = await hub.started(node, "web")
    first = (await hub.objects.get(Node, None, "n1")).metadata.uid
    await node.disconnect()
    await hub.objects.delete(Node, None, "n1")
    await until(lambda: _absent(hub, "web"))
    node.connect()
    again = await until(lambda: hub.ready("n1", "True"))
    assert again.metadata.uid != first
    assert again.status.allocatable["cpu"] == "2"
    await until(lambda: node.pod("web") is None)
    assert node.backend.torn[pod.metadata.uid or ""] == 1


async def test_what_cannot_be_applied_never_blocks_what_can(hub: Lab) -> None:
    node, other = await hub.node("n1"), await hub.node("n2")
    pod = await hub.started(node, "web")
    thief = other if pod.spec.node_name == "n1" else node
    owner = node if thief is other else other
    thief.running(pod, status={"phase": "Failed"})
    thief.say("level", "nodes/elsewhere", {"kind": "Node", "metadata": {"name": "elsewhere"}})
    thief.say("level", "odd", {"kind": "Oddity"})
    thief.say("log", "events", {"kind": "Event", "metadata": {"name": 7}})
    thief.backend.enqueue("level", "rubbish", b"[]")
    thief.say("log", "events", {"kind": "Event", "metadata": {"name": "e1"}, "reason": "Fine"})
    thief.say("log", "events", {"kind": "Event", "metadata": {"name": "e1"}, "reason": "Fine"})
    event = await until(lambda: hub.objects.get(Event, "default", "e1"))
    assert event.reason == "Fine"
    await until(lambda: not thief.backend.queue)
    refused = hub.hub.backend.refused
    assert (refused["foreign"], refused["unknown"], refused["malformed"]) == (2, 1, 2)
    assert (await hub.pod("web")).status.phase == "Running"
    owner.running(await hub.pod("web"), status={"phase": "Running", "message": "still heard"})
    await until(lambda: _message(hub, "web", "still heard"))


class _Streams:
    async def open_stream(self, node: str, request: StreamRequest) -> AsyncIterator[bytes]:
        if node != "n1":
            raise NodeOffline("no session")

        async def lines() -> AsyncIterator[bytes]:
            yield f"{request.container} {request.options['tailLines']}\n".encode()

        return lines()


async def test_logs_come_from_the_node_or_the_error_names_it(hub: Lab) -> None:
    source = LinkLogs(_Streams(), hub.hub.backend.sessions)
    pod = Pod.from_dict({"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n1"}})
    assert [chunk async for chunk in source.logs(pod, "vm", LogOptions(tail_lines=3))] == [b"vm 3\n"]
    node = await hub.node("n2")
    await node.disconnect()
    await until(lambda: not hub.hub.backend.sessions["n2"].connected)
    for name, text in (("n2", "node n2 is offline since 2"), ("n3", "node n3 has not connected since this hub")):
        pod.spec.node_name = name
        with pytest.raises(ApiError, match=text) as caught:
            [chunk async for chunk in source.logs(pod, "vm", LogOptions())]
        assert caught.value.code == 503


class _NotThere:
    async def open_stream(self, node: str, request: StreamRequest) -> AsyncIterator[bytes]:
        raise StreamRefused("the pod is not on this node")


async def test_logs_of_what_has_not_started_or_is_not_kept_say_so() -> None:
    """The first two in the reference's words."""
    started = {"name": "vm", "containerID": "copepod://x", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
    creating = {"name": "vm", "state": {"waiting": {"reason": "ErrImagePull"}}}
    not_found = 'previous terminated container "vm" in pod "p" not found'
    cases: list[tuple[list[object], bool, str]] = [
        ([], False, 'container "vm" in pod "p" is waiting to start: ContainerCreating'),
        ([creating], False, 'container "vm" in pod "p" is waiting to start: ErrImagePull'),
        ([started], False, "the pod is not on this node"),
        ([started], True, not_found),
        ([{**started, "restartCount": 1}], True, "what was before is not kept"),
    ]
    for statuses, previous, text in cases:
        pod = Pod.from_dict(
            {
                "metadata": {"name": "p", "uid": "u"},
                "spec": {"nodeName": "n1"},
                "status": {"containerStatuses": statuses},
            }
        )
        with pytest.raises(ApiError, match=text) as caught:
            [chunk async for chunk in LinkLogs(_NotThere(), {}).logs(pod, "vm", LogOptions(previous=previous))]
        assert caught.value.code == 400


async def test_events_and_history_are_bounded(hub: Lab) -> None:
    store = hub.hub.objects.store
    retention = EventRetention(hub.objects, EventSettings(max_per_namespace=2))
    following = asyncio.create_task(retention.run())
    compacting = asyncio.create_task(compact_forever(store, 100, 0.05))
    try:
        about = {"namespace": "default", "name": "x"}
        for number in range(120):
            meta = {"name": f"e{number:03}", "namespace": "default"}
            await hub.objects.create(Event.from_dict({"metadata": meta, "involvedObject": about, "reason": "R"}))
        await until(lambda: len(retention.known) == 120)
        await retention.sweep()
        kept = [event.metadata.name for event in (await hub.objects.list(Event, "default")).items]
        assert kept == ["e118", "e119"]

        def compacted() -> bool:
            try:
                store.watch(1).close()
            except Compacted:
                return True
            return False

        await until(compacted)
        store.watch(store.revision - 100).close()
    finally:
        for task in (following, compacting):
            task.cancel()
        await asyncio.gather(following, compacting, return_exceptions=True)
