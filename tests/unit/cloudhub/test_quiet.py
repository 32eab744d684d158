"""A fleet's daily noise (status reports) moves neither the scheduler nor the node lifecycle: no walk over all pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cloudhub.mirror import Mirror
from cloudhub.nodes import NodeLifecycle
from cloudhub.scheduler import Scheduler
from cloudhub.workloads.cluster import Cluster
from cloudhub.workloads.controller import Controller
from cloudhub.workloads.kinds import KINDS, OWNED, WATCHED
from kubeapi.core import Namespace, Node, Pod
from kubeapi.objects import WatchEvent, WatchEventType
from kubeapi.workloads import DaemonSet
from tests.support.hub import SettableClock
from tests.support.kube import node, pod
from tests.support.workloads import daemonset

ANYTHING: Any = None


@pytest.fixture
def pods() -> Mirror[Pod]:
    return Mirror(ANYTHING, Pod)


@pytest.fixture
def nodes() -> Mirror[Node]:
    return Mirror(ANYTHING, Node)


def woken(wake: asyncio.Event) -> bool:
    was = wake.is_set()
    wake.clear()
    return was


def takes(mirror: Mirror[Any], changed: Any) -> None:
    mirror._take(WatchEvent(WatchEventType.MODIFIED, changed))


async def test_the_scheduler_wakes_for_what_may_help_only(pods: Mirror[Pod], nodes: Mirror[Node]) -> None:
    scheduler = Scheduler(ANYTHING, SettableClock(), pods, nodes, Mirror(ANYTHING, Namespace))
    wake = scheduler._wake
    takes(nodes, node())
    takes(pods, pod("x", bound="n1"))
    assert not woken(wake)
    takes(pods, pod("new"))
    assert woken(wake)
    waiting = pod("new", status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    scheduler._tried["uid-new"] = (None, {})
    scheduler._fresh.clear()
    heartbeat = node()
    heartbeat.status.conditions[0].last_heartbeat_time = "2026-01-01T00:00:00Z"
    for mirror, noise in (
        (pods, waiting),
        (nodes, heartbeat),
        (pods, pod("x", bound="n1", status={"phase": "Running"})),
    ):
        takes(mirror, noise)
        assert not woken(wake)
    takes(pods, pod("x", bound="n1", status={"phase": "Succeeded"}))
    assert woken(wake)
    takes(nodes, node(allocatable={"cpu": "4", "memory": "1Gi"}))
    assert woken(wake)


async def test_the_node_lifecycle_wakes_for_what_says_otherwise_only(pods: Mirror[Pod], nodes: Mirror[Node]) -> None:
    lifecycle = NodeLifecycle(ANYTHING, SettableClock(), pods, nodes, lease_timeout=60.0)
    takes(nodes, node())
    assert woken(lifecycle._wake)
    await lifecycle.check()
    heartbeat = node()
    heartbeat.status.conditions[0].last_heartbeat_time = "2026-01-01T00:00:00Z"
    takes(nodes, heartbeat)
    running = {"conditions": [{"type": "Ready", "status": "True"}]}
    takes(pods, pod("x", bound="n1", status=running))
    assert not woken(lifecycle._wake)
    wrong = {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}
    takes(pods, pod("x", bound="n1", status=wrong))
    assert woken(lifecycle._wake)


async def test_daemonsets_wake_for_what_decides_about_a_node_only(pods: Mirror[Pod], nodes: Mirror[Node]) -> None:
    mirrors: dict[type[Any], Mirror[Any]] = {model: Mirror(ANYTHING, model) for model in WATCHED}
    cluster = Cluster(mirrors | {Pod: pods, Node: nodes}, OWNED)
    (kind,) = (kind for kind in KINDS if kind.model is DaemonSet)
    controller = Controller(kind, cluster, ANYTHING, SettableClock())
    wake = controller._queue._wake
    takes(mirrors[DaemonSet], daemonset())
    takes(nodes, node())
    assert woken(wake)
    heartbeat = node()
    heartbeat.status.conditions[0].last_heartbeat_time = "2026-01-01T00:00:00Z"
    takes(nodes, heartbeat)
    assert not woken(wake)
    for changed in (node(ready="Unknown"), node(labels={"zone": "a"}), node(spec={"unschedulable": True})):
        takes(nodes, changed)
        assert woken(wake)
    nodes._take(WatchEvent(WatchEventType.DELETED, node()))
    assert woken(wake)
