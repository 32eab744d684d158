"""Who has to go for whom, and the words when nobody has to."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.placement import Unschedulable, choose
from cloudhub.placement_room import Stage, Wish
from cloudhub.preemption import Hopeless, Ineligible, Preemption, preempt
from kubeapi.core import Node, Pod
from kubeapi.policies import PodDisruptionBudget
from tests.support.kube import node, pod


def ranked(name: str, priority: int, cpu: str = "1", *, since: str = "2026-01-01T00:00:00Z", **more: Any) -> Pod:
    status = {"startTime": since} | more.pop("status", {})
    return pod(name, cpu=cpu, status=status, spec={"priority": priority} | more.pop("spec", {}), **more)


def outcome(
    wanted: Pod, nodes: list[Node], present: dict[str, list[Pod]], *budgets: PodDisruptionBudget
) -> Preemption | Ineligible | Hopeless:
    wish, stage = Wish.of(wanted), Stage.of(nodes, present)
    failure = choose(wish, stage)
    assert isinstance(failure, Unschedulable)
    return preempt(wish, stage, failure, budgets)


def gone(found: Preemption | Ineligible | Hopeless) -> tuple[str, list[str]]:
    assert isinstance(found, Preemption)
    return found.node, [victim.metadata.name for victim in found.victims]


def said(found: Preemption | Ineligible | Hopeless) -> str:
    assert not isinstance(found, Preemption)
    return found.message


def budget(allowed: int, app: str) -> PodDisruptionBudget:
    return PodDisruptionBudget.from_dict(
        {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
    )


def test_no_more_go_than_must_and_the_least_important() -> None:
    present = {"n1": [ranked("low", 1), ranked("mid", 5)]}
    assert gone(outcome(ranked("new", 10), [node()], present)) == ("n1", ["low"])
    assert gone(outcome(ranked("new", 10, "2"), [node()], present)) == ("n1", ["mid", "low"])


def test_of_equal_ones_the_younger_goes() -> None:
    present = {"n1": [ranked("young", 1, since="2026-02-01T00:00:00Z"), ranked("old", 1)]}
    assert gone(outcome(ranked("new", 10), [node()], present)) == ("n1", ["young"])


def test_equal_or_higher_ones_stay() -> None:
    assert said(outcome(ranked("new", 5), [node()], {"n1": [ranked("x", 5, "2")]})) == (
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    present = {"n1": [ranked("high", 9, "1500m"), ranked("low", 1, "500m")]}
    assert said(outcome(ranked("new", 5), [node()], present)) == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_node_where_least_is_lost() -> None:
    nodes = [node("a"), node("b"), node("c")]
    present = {"a": [ranked("a1", 3, "2")], "b": [ranked("b1", 1), ranked("b2", 1)], "c": [ranked("c1", 1, "2")]}
    assert gone(outcome(ranked("new", 5, "2"), nodes, present)) == ("c", ["c1"])
    present["c"] = [ranked("c1", 1, "2", since="2025-01-01T00:00:00Z")]
    present["b"] = [ranked("b1", 1, "2")]
    assert gone(outcome(ranked("new", 5, "2"), nodes, present)) == ("b", ["b1"])


def test_budgets_are_broken_last() -> None:
    guarded = ranked("guarded", 1, labels={"app": "db"})
    present = {"n1": [guarded, ranked("free", 2)]}
    assert gone(outcome(ranked("new", 5), [node()], present, budget(0, "db"))) == ("n1", ["free"])
    assert gone(outcome(ranked("new", 5), [node()], present, budget(1, "db"))) == ("n1", ["guarded"])
    nodes, elsewhere = [node("a"), node("b")], {"a": [guarded], "b": [ranked("dear", 4, "2")]}
    assert gone(outcome(ranked("new", 5, "2"), nodes, elsewhere, budget(0, "db"))) == ("b", ["dear"])


def test_a_budget_of_one_is_spent_once() -> None:
    pods = [ranked(f"db{number}", 1, labels={"app": "db"}) for number in range(2)]
    nodes = [node("a"), node("b")]
    present = {"a": pods, "b": [ranked("x", 4), ranked("y", 4)]}
    assert gone(outcome(ranked("new", 5, "2"), nodes, present, budget(1, "db")))[0] == "b"
    assert gone(outcome(ranked("new", 5, "2"), nodes, present, budget(2, "db")))[0] == "a"


def test_who_never_preempts() -> None:
    never = ranked("new", 5, spec={"preemptionPolicy": "Never"})
    found = outcome(never, [node()], {"n1": [ranked("low", 1, "2")]})
    assert found == Ineligible("not eligible due to preemptionPolicy=Never.")


def test_who_has_made_room_waits_for_it() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ending = ranked("low", 1, "2", status={"conditions": [target]})
    ending.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    promised = ranked("new", 5, status={"nominatedNodeName": "a"})
    present = {"a": [ending], "b": [ranked("other", 1, "2")]}
    nodes = [node("a"), node("b")]
    assert outcome(promised, nodes, present) == Ineligible(
        "not eligible due to a terminating pod on the nominated node."
    )
    nodes[0] = node("a", ready="Unknown")
    assert gone(outcome(promised, nodes, present)) == ("b", ["other"])


@pytest.mark.parametrize("tolerates", [False, True])
def test_s84_nobody_has_to_go_on_a_node_that_is_not_heard(tolerates: bool) -> None:
    """S-84: it would free nothing until that node is back; not even for a pod that tolerates such nodes."""
    tolerations = [{"operator": "Exists"}] if tolerates else []
    wanted = ranked("new", 5, spec={"tolerations": tolerations})
    assert said(outcome(wanted, [node(ready="Unknown")], {"n1": [ranked("low", 1, "2")]})) == (
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_who_shuns_the_pod_may_have_to_go() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
    hermit = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    host = node(labels={"host": "n1"})
    wanted = ranked("new", 5, "100m", labels={"app": "web"})
    present = {"n1": [ranked("hermit", 1, "100m", spec=hermit), ranked("other", 1, "100m")]}
    assert gone(outcome(wanted, [host], present)) == ("n1", ["hermit"])


def test_what_was_promised_is_kept_from_equals_and_lower_ones_only() -> None:
    stage = Stage.of([node()], {})
    promised = ranked("promised", 5, "2", status={"nominatedNodeName": "n1"})
    stage.reserve(Wish.of(promised), "n1")
    for priority, fits in ((4, False), (5, False), (6, True)):
        found = choose(Wish.of(ranked("other", priority)), stage)
        assert isinstance(found, Unschedulable) is not fits
    assert not isinstance(choose(Wish.of(promised), stage), Unschedulable)
