"""Pods that mind other pods: affinity, anti-affinity, spreading, host ports; and what is better of two nodes."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.placement import Placement, Unschedulable, choose, place
from cloudhub.placement_room import Stage, Wish
from kubeapi.core import Node, Pod
from tests.support.kube import node, pod

WEB = {"matchLabels": {"app": "web"}}
ZONE = "zone"


def zones(*names: str, **more: Any) -> list[Node]:
    """Two nodes in each: a1, a2, b1, …"""
    return [node(f"{zone}{n}", labels={ZONE: zone, "host": f"{zone}{n}"}, **more) for zone in names for n in (1, 2)]


def web(name: str, bound: str = "", **more: Any) -> Pod:
    return pod(name, bound=bound, labels={"app": "web"}, **more)


def term(key: str = ZONE, selector: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": WEB if selector is None else selector} | more


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def preferred(kind: str, weight: int, wanted: dict[str, Any]) -> dict[str, Any]:
    item = {"weight": weight, "podAffinityTerm": wanted}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [item]}}}


def why(wanted: Pod, nodes: list[Node], present: dict[str, list[Pod]] | None = None) -> str:
    result = place(wanted, nodes, present or {})
    assert isinstance(result, Unschedulable)
    return result.message


def test_it_goes_where_such_pods_are() -> None:
    wanted = pod(spec=required("podAffinity", term()))
    assert place(wanted, zones("a", "b"), {"b2": [web("w", "b2")]}) == Placement("b1")
    assert why(wanted, zones("a", "b")) == "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."


def test_the_first_of_pods_that_want_each_other_may_go_anywhere_with_the_label() -> None:
    wanted = web("w", spec=required("podAffinity", term()))
    assert place(wanted, [node("x"), *zones("a")], {}) == Placement("a1")
    assert "1 node(s) didn't match pod affinity rules" in why(wanted, [node("x")])


def test_a_pod_must_meet_all_terms_to_count() -> None:
    wanted = pod(spec=required("podAffinity", term(), term(selector={"matchLabels": {"tier": "db"}})))
    assert "pod affinity rules" in why(wanted, zones("a"), {"a1": [web("w", "a1"), pod("d", labels={"tier": "db"})]})
    both = pod("d", labels={"app": "web", "tier": "db"})
    assert place(wanted, zones("a"), {"a1": [both]}) == Placement("a2")


def test_it_keeps_away_from_such_pods_and_they_from_it() -> None:
    away = required("podAntiAffinity", term())
    assert place(pod(spec=away), zones("a", "b"), {"a1": [web("w", "a1")]}) == Placement("b1")
    assert why(pod(spec=away), zones("a"), {"a1": [web("w", "a1")]}) == (
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    )
    hermit = pod("h", spec=away)
    assert place(web("w"), zones("a", "b"), {"a1": [hermit]}) == Placement("b1")
    assert why(web("w"), zones("a"), {"a1": [hermit]}) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )


@pytest.mark.parametrize(
    ("scope", "meant"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
    ],
)
def test_which_namespaces_are_meant(scope: dict[str, Any], meant: bool) -> None:
    stranger = web("w", "a1")
    stranger.metadata.namespace = "other"
    stage = Stage.of(zones("a"), {"a1": [stranger]})
    stage.spaces |= {"other": {"team": "x"}, "default": {}}
    found = choose(Wish.of(pod(spec=required("podAntiAffinity", term(**scope)))), stage)
    assert isinstance(found, Unschedulable) is meant


def test_match_label_keys_mean_the_same_revision_only() -> None:
    def of(revision: str, name: str = "p") -> Pod:
        keyed = term(matchLabelKeys=["rev"])
        return pod(name, labels={"app": "web", "rev": revision}, spec=required("podAntiAffinity", keyed))

    assert isinstance(place(of("2"), zones("a"), {"a1": [of("1", "old")]}), Placement)
    assert isinstance(place(of("1"), zones("a"), {"a1": [of("1", "old")]}), Unschedulable)


def spread(skew: int = 1, key: str = ZONE, **more: Any) -> dict[str, Any]:
    item = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB} | more
    return {"topologySpreadConstraints": [item]}


def test_spreading_evens_out() -> None:
    present = {"a1": [web("w1", "a1")]}
    assert place(web("w2", spec=spread()), zones("a", "b"), present) == Placement("b1")
    assert place(web("w2", spec=spread(2)), zones("a", "b"), {"a1": [web("w1", "a1", cpu="1")]}) == Placement("a2")
    full = [node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"}, spec={"unschedulable": True}), node("x")]
    assert why(web("w2", spec=spread()), full, present) == (
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label), 1 node(s) were unschedulable."
    )


def test_what_is_not_counted_in_spreading() -> None:
    ending = web("w1", "a1")
    ending.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    stranger = web("w2", "a1")
    stranger.metadata.namespace = "other"
    present = {"a1": [ending, stranger], "a2": [pod("x", bound="a2", cpu="1")]}
    nodes = [*zones("a"), node("b1", labels={ZONE: "b"}, allocatable={"cpu": "10m", "memory": "1Gi"})]
    assert place(web("w", spec=spread()), nodes, present) == Placement("a1")


def test_s84_a_silent_zone_counts_unless_taints_are_honoured() -> None:
    """S-84: pods behind a cut link run on, so their zone is a place like others; nodeTaintsPolicy says otherwise."""
    nodes = [*zones("a"), node("b1", labels={ZONE: "b"}, ready="Unknown")]
    present = {"a1": [web("w1", "a1")]}
    assert "topology spread" in why(web("w2", spec=spread()), nodes, present)
    assert isinstance(place(web("w2", spec=spread(nodeTaintsPolicy="Honor")), nodes, present), Placement)


def test_node_affinity_policy() -> None:
    nodes = zones("a", "b")
    present = {"a1": [web("w1", "a1")]}
    only_a = {"nodeSelector": {ZONE: "a"}}
    assert place(web("w2", spec=only_a | spread()), nodes, present) == Placement("a2")
    assert "topology spread" in why(web("w2", spec=only_a | spread(nodeAffinityPolicy="Ignore")), nodes, present)


def test_min_domains() -> None:
    present = {"a1": [web("w1", "a1")]}
    assert isinstance(place(web("w2", spec=spread(minDomains=1)), zones("a"), present), Placement)
    assert "topology spread" in why(web("w2", spec=spread(minDomains=2)), zones("a"), present)


def test_spreading_by_revision() -> None:
    old = pod("w1", bound="a1", labels={"app": "web", "rev": "1"})
    new = pod("w2", labels={"app": "web", "rev": "2"}, spec=spread(matchLabelKeys=["rev"]), cpu="1")
    assert place(new, zones("a", "b"), {"a1": [old], "b1": [pod("x", cpu="1")], "b2": [pod("y", cpu="1")]}) == (
        Placement("a2")
    )


def test_host_ports() -> None:
    def serves(name: str, port: dict[str, Any], **spec: Any) -> Pod:
        return pod(name, spec={"containers": [{"name": "vm", "ports": [port]}]} | spec)

    taken = {"n1": [serves("x", {"containerPort": 80, "hostPort": 8080})]}
    assert why(serves("p", {"containerPort": 1, "hostPort": 8080}), [node()], taken) == (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    )
    assert "free ports" in why(serves("p", {"containerPort": 8080}, hostNetwork=True), [node()], taken)
    others = ({"hostPort": 8081}, {"hostPort": 8080, "protocol": "UDP"}, {})
    for free in others:
        assert place(serves("p", {"containerPort": 8080} | free), [node()], taken) == Placement("n1")
    by_address = {"n1": [serves("x", {"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"})]}
    own = {"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}
    assert place(serves("p", own), [node()], by_address) == Placement("n1")
    assert "free ports" in why(serves("p", own | {"hostIP": "0.0.0.0"}), [node()], by_address)


def test_a_pod_meant_for_one_node_asks_that_one_only() -> None:
    here = {"key": "metadata.name", "operator": "In", "values": ["a1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    assert place(pod(spec=spec), zones("a"), {}) == Placement("a1")
    assert why(pod(cpu="9", spec=spec), zones("a", "b")) == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


# Which is better


def test_preferences_decide_between_nodes_that_fit() -> None:
    nodes = zones("a", "b")
    crowd = {"b1": [web("w", "b1", cpu="500m")], "b2": [pod("x", bound="b2", cpu="500m")]}
    assert place(pod(spec=preferred("podAffinity", 50, term())), nodes, crowd) == Placement("b1")
    assert place(pod(spec=preferred("podAntiAffinity", 50, term())), nodes, crowd) == Placement("a1")
    fans = {"b1": [pod("fan", spec=preferred("podAffinity", 50, term()))]}
    assert place(web("w"), nodes, fans) == Placement("b2")
    likes_b = [{"weight": 5, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}}]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": likes_b}}}
    assert place(pod(spec=spec), nodes, {}) == Placement("b1")


def test_a_soft_taint_is_avoided() -> None:
    soft = node("a", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    assert place(pod(), [soft, node("b")], {}) == Placement("b")


def test_soft_spreading_prefers_the_emptier_zone() -> None:
    present = {"a1": [web("w1", "a1")], "b1": [pod("x", cpu="900m")], "b2": [pod("y", cpu="900m")]}
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert place(web("w2", spec=soft), zones("a", "b"), present) == Placement("b1")
    assert place(web("w2", spec=soft), zones("a"), present) == Placement("a2")
