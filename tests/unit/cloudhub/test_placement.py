"""Which node a pod goes to, and the reference scheduler's words when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.placement import Placement, Unschedulable, choose, place
from cloudhub.placement_room import OVERHEAD_ANNOTATION, Stage, Wish, counts_against_node
from cloudhub.preemption import Hopeless, Ineligible, preempt
from kubeapi.core import Node, Pod
from tests.support.kube import node, pod

NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


def message(wanted: Pod, *nodes: Node, present: dict[str, list[Pod]] | None = None) -> str:
    """As FailedScheduling has it."""
    wish, stage = Wish.of(wanted), Stage.of(nodes, present or {})
    result = choose(wish, stage)
    assert isinstance(result, Unschedulable)
    if not nodes:
        return result.message
    outcome = preempt(wish, stage, result, ())
    assert isinstance(outcome, Hopeless | Ineligible)
    return f"{result.message} preemption: {outcome.message}"


def test_a_pod_that_fits_is_placed_where_most_stays_free() -> None:
    nodes = [node("a"), node("b")]
    assert place(pod(), nodes, {}) == Placement("a")
    assert place(pod(), nodes, {"a": [pod("x", bound="a")]}) == Placement("b")


def test_no_nodes_at_all() -> None:
    assert message(pod()) == "no nodes available to schedule pods"


def test_larger_than_the_node_ever_was() -> None:
    assert message(pod(cpu="3", memory="2Gi"), node()) == (
        f"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. {NOT_HELPFUL}"
    )


def test_no_room_left_now() -> None:
    present = {"n1": [pod("x", cpu="1950m", bound="n1")]}
    assert message(pod(), node(), present=present) == (f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}")


def test_too_many_pods() -> None:
    small = node(allocatable={"cpu": "2", "memory": "1Gi", "pods": "1"})
    assert message(pod(), small, present={"n1": [pod("x", bound="n1")]}) == (
        f"0/1 nodes are available: 1 Too many pods. {NO_VICTIMS}"
    )


def test_reasons_are_counted_over_nodes_and_sorted() -> None:
    nodes = [
        node("a", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}),
        node("b"),
        node("c", spec={"unschedulable": True}),
    ]
    present = {"b": [pod("x", cpu="2", bound="b")]}
    assert message(pod(), *nodes, present=present) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_never_preempts_says_so() -> None:
    assert message(pod(cpu="3", spec={"preemptionPolicy": "Never"}), node()).endswith(
        "1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.parametrize(("ready", "key"), [("False", "not-ready"), ("Unknown", "unreachable"), (None, "unreachable")])
def test_s84_nothing_new_goes_to_a_node_that_is_not_ready(ready: str | None, key: str) -> None:
    """S-84 (hub half): not even before the lifecycle controller has written the taint."""
    gone = node(ready=ready)
    assert "node(s) had untolerated taint(s)" in message(pod(), gone)
    tolerant = pod(spec={"tolerations": [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"}]})
    assert place(tolerant, [gone], {}) == Placement("n1")


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"value": "v"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], fits: bool) -> None:
    tainted = node(spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    result = place(pod(spec={"tolerations": [toleration]}), [tainted], {})
    assert isinstance(result, Placement) is fits


def test_a_soft_taint_does_not_exclude() -> None:
    soft = node(spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    assert place(pod(), [soft], {}) == Placement("n1")


def test_node_selector() -> None:
    nodes = [node("a"), node("b", labels={"disk": "ssd"})]
    assert place(pod(spec={"nodeSelector": {"disk": "ssd"}}), nodes, {}) == Placement("b")
    assert message(pod(spec={"nodeSelector": {"disk": "hdd"}}), *nodes).startswith(
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: "
    )


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "n", "operator": "In", "values": ["1", "5"]}, True),
        ({"key": "n", "operator": "NotIn", "values": ["5"]}, False),
        ({"key": "x", "operator": "NotIn", "values": ["5"]}, True),
        ({"key": "n", "operator": "Exists"}, True),
        ({"key": "n", "operator": "DoesNotExist"}, False),
        ({"key": "n", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "n", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "x", "operator": "Gt", "values": ["4"]}, False),
    ],
)
def test_required_node_affinity(expression: dict[str, Any], fits: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    result = place(pod(spec={"affinity": affinity}), [node(labels={"n": "5"})], {})
    assert isinstance(result, Placement) is fits


def test_affinity_by_node_name_and_the_empty_term() -> None:
    def wants(*terms: dict[str, Any]) -> Pod:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return pod(spec={"affinity": {"nodeAffinity": required}})

    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    assert place(wants(by_name), [node("a"), node("b")], {}) == Placement("b")
    assert isinstance(place(wants({}), [node("a")], {}), Unschedulable)


def test_the_pods_own_overhead_counts() -> None:
    overhead = {"overhead": {"memory": "512Mi"}}
    assert place(pod(memory="512Mi", spec=overhead), [node()], {}) == Placement("n1")
    assert "Insufficient memory" in message(pod(memory="513Mi", spec=overhead), node())


def test_else_the_nodes_advertised_overhead_counts_for_each_vm() -> None:
    measured = node(annotations={OVERHEAD_ANNOTATION: "200Mi"})
    assert place(pod(memory="824Mi"), [measured], {}) == Placement("n1")
    assert "Insufficient memory" in message(pod(memory="825Mi"), measured)
    assert "Insufficient memory" in message(pod(), measured, present={"n1": [pod("x", memory="700Mi", bound="n1")]})
    with_sidecar = pod(memory="1Mi", spec={"initContainers": [{"name": "s", "restartPolicy": "Always"}] * 5})
    assert "Insufficient memory" in message(with_sidecar, measured)


def test_a_malformed_overhead_is_ignored() -> None:
    assert place(pod(), [node(annotations={OVERHEAD_ANNOTATION: "lots"})], {}) == Placement("n1")


def test_what_a_resize_holds_counts_until_it_is_done() -> None:
    """max(spec, allocated, actual): a shrink that is not done yet still holds its room, a growth already does."""
    shrinking = pod(
        "x",
        cpu="100m",
        bound="n1",
        status={"containerStatuses": [{"name": "vm", "allocatedResources": {"cpu": "2", "memory": "64Mi"}}]},
    )
    assert "Insufficient cpu" in message(pod(), node(), present={"n1": [shrinking]})
    growing = pod(
        "x",
        cpu="2",
        bound="n1",
        status={"containerStatuses": [{"name": "vm", "allocatedResources": {"cpu": "100m", "memory": "64Mi"}}]},
    )
    assert "Insufficient cpu" in message(pod(), node(), present={"n1": [growing]})
    growing.status.conditions = Pod.from_dict(
        {"status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}}
    ).status.conditions
    assert place(pod(), [node()], {"n1": [growing]}) == Placement("n1")


def test_other_resources_are_counted_too() -> None:
    gpus = node(allocatable={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"})

    def wants(name: str, bound: str = "") -> Pod:
        container = {"name": "vm", "resources": {"requests": {"example.com/gpu": "1"}}}
        return pod(name, bound=bound, spec={"containers": [container]})

    assert place(wants("p"), [gpus], {}) == Placement("n1")
    assert "1 Insufficient example.com/gpu." in message(wants("p"), gpus, present={"n1": [wants("x", "n1")]})
    assert "1 Insufficient example.com/gpu." in message(wants("p"), node())


def test_finished_pods_hold_nothing() -> None:
    assert counts_against_node(pod(bound="n1"))
    assert not counts_against_node(pod(bound="n1", status={"phase": "Succeeded"}))
    assert not counts_against_node(pod())


def test_in_a_large_cluster_enough_nodes_are_compared_the_same_ones_each_time() -> None:
    """And every node is looked at before a pod is refused."""
    nodes = [node(f"n{index:03}") for index in range(400)]
    first = place(pod("p"), nodes, {})
    assert first == place(pod("p"), nodes, {})
    assert len({place(pod(f"p{index}"), nodes, {}) for index in range(5)}) > 1
    last = [item if index else node("n000", labels={"only": "here"}) for index, item in enumerate(nodes)]
    assert place(pod("p", spec={"nodeSelector": {"only": "here"}}), last, {}) == Placement("n000")
    assert message(pod(cpu="9"), *nodes).startswith("0/400 nodes are available: 400 Insufficient cpu.")
