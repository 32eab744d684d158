"""Whatever the cluster: a placement breaks nothing that is required, a refusal counts every node, and counting change
by change is the same as counting anew. Checked by a plain reading of the rules, not by the code under test."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cloudhub.placement import Placement, Unschedulable, choose
from cloudhub.placement_room import Stage, Wish
from cloudhub.preemption import Hopeless, Preemption, preempt
from kubeapi import quantity
from kubeapi.core import Node, Pod
from tests.support.kube import node, pod

_EXAMPLES = 60
_APPS = ("web", "db")
_KEYS = ("zone", "host")
_KINDS = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def some_nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for index in range(draw(st.integers(1, 4))):
        labels = {"host": f"n{index}"}
        zone = draw(st.sampled_from(("a", "b", "")))
        taints = draw(st.sampled_from(([], [{"key": "k", "effect": "NoSchedule"}])))
        allocatable = {"cpu": str(draw(st.integers(1, 4))), "memory": "1Gi", "pods": str(draw(st.integers(1, 5)))}
        labels |= {"zone": zone} if zone else {}
        ready = draw(st.sampled_from(("True", "True", "True", "Unknown")))
        made.append(node(f"n{index}", labels=labels, spec={"taints": taints}, allocatable=allocatable, ready=ready))
    return made


@st.composite
def some_pod(draw: st.DrawFn, name: str) -> Pod:
    selector = {"matchLabels": {"app": draw(st.sampled_from(_APPS))}}
    key = draw(st.sampled_from(_KEYS))
    spec: dict[str, Any] = {"priority": draw(st.integers(0, 2))}
    match draw(st.integers(0, 5)):
        case 0 | 1 as kind:
            term = {"topologyKey": key, "labelSelector": selector}
            spec["affinity"] = {_KINDS[kind]: {_REQUIRED: [term]}}
        case 2:
            item = {"maxSkew": draw(st.integers(1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [item | {"topologyKey": key, "labelSelector": selector}]
    if draw(st.booleans()):
        spec["tolerations"] = [{"operator": "Exists"}]
    cpu = f"{draw(st.integers(1, 30)) * 100}m"
    made = pod(name, cpu=cpu, labels={"app": draw(st.sampled_from(_APPS))}, spec=spec)
    if draw(st.booleans()):
        port = {"containerPort": 1, "hostPort": draw(st.integers(80, 81))}
        made = Pod.from_dict(made.to_dict() | {"spec": _with_port(made, port)})
    return made


def _with_port(made: Pod, port: dict[str, Any]) -> dict[str, Any]:
    spec = made.spec.to_dict()
    spec["containers"][0]["ports"] = [port]
    return spec


pods_in_turn = st.integers(1, 8).flatmap(lambda count: st.tuples(*(some_pod(f"p{index}") for index in range(count))))


@settings(max_examples=_EXAMPLES, deadline=None)
@given(some_nodes(), pods_in_turn)
def test_what_is_placed_breaks_nothing(nodes: list[Node], pods: tuple[Pod, ...]) -> None:
    stage = Stage.of(nodes, {})
    placed: dict[str, list[Pod]] = {item.metadata.name: [] for item in nodes}
    for wanted in pods:
        wish = Wish.of(wanted)
        found = choose(wish, stage)
        afresh = choose(wish, Stage.of(nodes, placed))
        assert found == afresh
        if isinstance(found, Placement):
            _check_placed(wanted, found.node, nodes, placed)
            placed[found.node].append(wanted)
            stage.put(wish, found.node)
        else:
            _check_explained(found, len(nodes))
    for item in nodes:
        _check_room(item, placed[item.metadata.name])
    for wanted in pods:
        stage.remove(wanted.metadata.uid or "")
    assert all(not any(room.used.values()) and not room.held for room in stage.rooms.values())


@settings(max_examples=_EXAMPLES, deadline=None)
@given(some_nodes(), pods_in_turn)
def test_what_preemption_frees_is_enough_and_needed(nodes: list[Node], pods: tuple[Pod, ...]) -> None:
    stage = Stage.of(nodes, {})
    placed: dict[str, list[Pod]] = {item.metadata.name: [] for item in nodes}
    for wanted in pods:
        wish = Wish.of(wanted)
        found = choose(wish, stage)
        if isinstance(found, Placement):
            placed[found.node].append(wanted)
            stage.put(wish, found.node)
            continue
        outcome = preempt(wish, stage, found, ())
        if isinstance(outcome, Hopeless):
            _check_explained(Unschedulable(outcome.message, {}), len(nodes))
            continue
        assert isinstance(outcome, Preemption)
        here = next(item for item in nodes if item.metadata.name == outcome.node)
        assert here.status.conditions[0].status == "True"
        assert outcome.victims
        gone = {victim.metadata.name for victim in outcome.victims}
        assert all((victim.spec.priority or 0) < (wanted.spec.priority or 0) for victim in outcome.victims)
        without = {name: [item for item in held if item.metadata.name not in gone] for name, held in placed.items()}
        _check_placed(wanted, outcome.node, nodes, without)
        for victim in outcome.victims:
            one_less = {name: [*held, *([victim] if name == outcome.node else [])] for name, held in without.items()}
            assert not _fits(wanted, outcome.node, nodes, one_less)


def _fits(wanted: Pod, where: str, nodes: list[Node], placed: dict[str, list[Pod]]) -> bool:
    try:
        _check_placed(wanted, where, nodes, placed)
    except AssertionError:
        return False
    return True


def _check_explained(found: Unschedulable, total: int) -> None:
    """Each node is counted once at least, in a sentence."""
    head, _, listed = found.message.partition(": ")
    assert head == f"0/{total} nodes are available"
    assert listed.endswith(".")
    counts = [int(text) for text in re.findall(r"(?:^|, )(\d+) ", listed)]
    assert sum(counts) >= total


def _check_room(here: Node, held: list[Pod]) -> None:
    allocatable = here.status.allocatable
    assert len(held) <= int(allocatable["pods"])
    assert sum(_millis(item) for item in held) <= int(allocatable["cpu"]) * 1000
    ports = Counter(port.host_port for item in held for port in item.spec.containers[0].ports)
    assert all(count == 1 for count in ports.values())


def _millis(item: Pod) -> int:
    return quantity.cpu_millis(item.spec.containers[0].requests["cpu"])


def _check_placed(wanted: Pod, where: str, nodes: list[Node], placed: dict[str, list[Pod]]) -> None:
    labels = {item.metadata.name: item.metadata.labels for item in nodes}
    here = next(item for item in nodes if item.metadata.name == where)
    _check_room(here, [*placed[where], wanted])
    if not wanted.spec.tolerations:
        assert not here.spec.taints
        assert here.status.conditions[0].status == "True"
    everywhere = [(other, labels[name]) for name, held in placed.items() for other in held]
    _check_affinity(wanted, labels[where], everywhere)
    for other, place in everywhere:
        for term in _terms(other, 1):
            assert not (_means(term, wanted) and _same(term.topology_key, place, labels[where]))
    for constraint in wanted.spec.topology_spread_constraints:
        key = constraint.topology_key
        counts = Counter({place[key]: 0 for place in labels.values() if key in place})
        counts.update(place[key] for other, place in everywhere if key in place and _means(constraint, other))
        ahead = counts[labels[where][key]] + _means(constraint, wanted) - min(counts.values())
        assert ahead <= constraint.max_skew


def _check_affinity(wanted: Pod, here: dict[str, str], everywhere: list[tuple[Pod, dict[str, str]]]) -> None:
    for term in _terms(wanted, 0):
        assert term.topology_key in here
        meant = [place for other, place in everywhere if _means(term, other) and term.topology_key in place]
        first = not meant and _means(term, wanted)
        assert first or any(_same(term.topology_key, place, here) for place in meant)
    for term in _terms(wanted, 1):
        assert not any(_means(term, other) and _same(term.topology_key, place, here) for other, place in everywhere)


def _terms(of: Pod, kind: int) -> list[Any]:
    affinity = of.spec.affinity
    found = affinity and (affinity.pod_affinity, affinity.pod_anti_affinity)[kind]
    return found.required_during_scheduling_ignored_during_execution if found else []


def _means(term: Any, other: Pod) -> bool:
    return bool(term.label_selector.match_labels["app"] == other.metadata.labels["app"])


def _same(key: str, one: dict[str, str], other: dict[str, str]) -> bool:
    return key in one and one[key] == other.get(key)
