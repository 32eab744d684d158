"""DaemonSet plans: where, in which order, and what stays alone while nobody hears a node."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.workloads import revisions
from cloudhub.workloads.actions import Plan
from cloudhub.workloads.daemonsets import plan, target
from kubeapi.core import Node, Pod
from kubeapi.workloads import ControllerRevision, DaemonSet
from tests.support.kube import node
from tests.support.workloads import NOW, ago, created, daemonset, pod, status_of, steps

DS = daemonset()
OFFLINE: dict[str, Any] = {
    "ready": "Unknown",
    "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]},
}


def revision(of: DaemonSet, number: int = 1) -> ControllerRevision:
    made = created(Plan(revisions.plan(of, of.spec.template, [], frozenset(), frozenset(), 10).actions))[0]
    made.revision = number
    assert isinstance(made, ControllerRevision)
    return made


NOW_VERSION, OLD_VERSION = revisions.short_hash(revision(DS)), "old"


def on(name: str, where: str, version: str = NOW_VERSION, **more: Any) -> Pod:
    return pod(DS, name, node=where, labels={"controller-revision-hash": version}, **more)


def planned(mine: list[Pod], nodes: list[Node], ds: DaemonSet = DS) -> Plan:
    return plan(ds, mine, nodes, [revision(ds)], frozenset(), NOW)


def test_a_revision_comes_before_pods() -> None:
    result = plan(DS, [], [node("n1")], [], frozenset(), NOW)
    assert steps(result) == [f"+ControllerRevision web-{NOW_VERSION}"]


def test_one_for_every_node_pinned_and_tolerant() -> None:
    result = planned([on("a", "n1")], [node("n1"), node("n2")])
    made = created(result)
    assert [target(item) for item in made] == ["n2"]
    tolerated = {(item.key, item.effect) for item in made[0].spec.tolerations}
    assert ("node.kubernetes.io/unreachable", "NoExecute") in tolerated
    assert made[0].metadata.labels["controller-revision-hash"] == NOW_VERSION


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (node("n1", spec={"unschedulable": True, "taints": []}), ["+Pod web-"]),
        (node("n1", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}), []),
        (node("n1", spec={"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}), ["+Pod web-"]),
        (node("n1", **OFFLINE), []),
        (node("n1", ready="False"), []),
    ],
)
def test_which_nodes_get_one(where: Node, wanted: list[str]) -> None:
    assert steps(planned([], [where])) == wanted


def test_a_node_selector_is_obeyed_and_a_pod_that_does_not_belong_goes() -> None:
    ds = DS.copied()
    ds.spec.template.spec.node_selector = {"zone": "a"}
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    result = planned([on("b", "n2")], nodes, ds)
    assert steps(result) == ["-Pod b", "+Pod web-"] or steps(result) == ["+Pod web-", "-Pod b"]
    assert status_of(result).number_misscheduled == 1


def test_s84_an_offline_node_is_left_alone_and_counted_honestly() -> None:
    """S-84: nothing is deleted on it nor made for it, whatever is wished; the numbers say what is missing."""
    stale = on("a", "n1", OLD_VERSION, ready=False)
    result = planned([stale], [node("n1", **OFFLINE), node("n2", **OFFLINE)])
    assert steps(result) == []
    status = status_of(result)
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (2, 1)
    assert (status.number_ready, status.number_unavailable, status.updated_number_scheduled) == (0, 2, None)


def test_an_offline_node_does_not_stop_the_rollout_of_the_others() -> None:
    mine = [on("a", "n1", OLD_VERSION, ready=False), on("b", "n2", OLD_VERSION), on("c", "n3", OLD_VERSION)]
    nodes = [node("n1", **OFFLINE), node("n2"), node("n3")]
    assert steps(planned(mine, nodes)) == ["-Pod b"]


def test_back_again_it_is_updated() -> None:
    mine = [on("a", "n1", OLD_VERSION), on("b", "n2")]
    assert steps(planned(mine, [node("n1"), node("n2")])) == ["-Pod a"]


@pytest.mark.parametrize(
    ("most", "wanted"),
    [(1, ["-Pod a"]), (2, ["-Pod a", "-Pod b"]), ("50%", ["-Pod a", "-Pod b"])],
)
def test_so_many_at_a_time(most: Any, wanted: list[str]) -> None:
    ds = daemonset(spec={"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}})
    mine = [on(name, f"n{index}", OLD_VERSION) for index, name in enumerate("abcd")]
    assert steps(planned(mine, [node(f"n{index}") for index in range(4)], ds)) == wanted


def test_the_next_waits_until_the_last_is_available_but_what_is_broken_goes_at_once() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    fresh = on("a", "n1", ready=False)
    assert steps(planned([fresh, on("b", "n2", OLD_VERSION), on("c", "n3", OLD_VERSION)], nodes)) == []
    broken = on("c", "n3", OLD_VERSION, ready=False)
    assert steps(planned([fresh, on("b", "n2", OLD_VERSION), broken], nodes)) == ["-Pod c"]


def test_on_delete_leaves_old_pods_until_somebody_deletes_them() -> None:
    ds = daemonset(spec={"updateStrategy": {"type": "OnDelete"}})
    assert steps(planned([on("a", "n1", OLD_VERSION)], [node("n1")], ds)) == []
    leaving = on("a", "n1", OLD_VERSION, deleted=True)
    assert steps(planned([leaving], [node("n1")], ds)) == []
    assert steps(planned([], [node("n1")], ds)) == ["+Pod web-"]


def test_with_a_surge_the_new_one_comes_first() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    ds = daemonset(spec={"updateStrategy": update})
    nodes = [node("n1"), node("n2")]
    old = [on("a", "n1", OLD_VERSION), on("b", "n2", OLD_VERSION)]
    assert [target(item) for item in created(planned(old, nodes, ds))] == ["n1"]
    coming = on("new", "n1", ready=False)
    assert steps(planned([*old, coming], nodes, ds)) == []
    assert steps(planned([*old, on("new", "n1")], nodes, ds)) == ["-Pod a", "+Pod web-"]


def test_a_pod_that_failed_is_made_anew() -> None:
    assert steps(planned([on("a", "n1", phase="Failed", ready=False)], [node("n1")])) == ["-Pod a", "+Pod web-"]
    young = on("a", "n1", phase="Failed", ready=False, metadata={"creationTimestamp": ago(4)})
    assert (steps(planned([young], [node("n1")])), planned([young], [node("n1")]).wake_after) == ([], 6.0)


def test_an_undo_raises_the_old_revision() -> None:
    other = daemonset()
    other.spec.template.spec.containers[0].image = "copepod/micro:2"
    first, second = revision(DS, 1), revision(other, 2)
    result = plan(DS, [], [node("n1")], [first, second], frozenset(), NOW)
    assert steps(result)[0] == f"~ControllerRevision {first.metadata.name}"
    assert second.metadata.name != first.metadata.name
