"""Leases by monotonic time, and what a silent node's objects look like."""

from __future__ import annotations

from cloudhub.nodes import (
    LAST_REPORTED,
    Leases,
    heard_again,
    pod_heard_again,
    pod_silenced,
    silenced,
    tainted,
)
from kubeapi.core import Node, Pod
from tests.support.kube import node, pod

NOW = "2026-01-01T00:00:00Z"


def ready(obj: Node | Pod) -> tuple[str, str | None]:
    condition = obj.status.condition("Ready")
    assert condition
    return condition.status, condition.reason


def test_a_lease_lasts_its_timeout() -> None:
    leases = Leases(40)
    leases.track(["n1"], 100)
    leases.heard("n1", 110)
    assert leases.alive("n1", 149.9)
    assert not leases.alive("n1", 150)
    assert leases.silence("n1", 150) == 40


def test_every_node_has_a_whole_lease_of_grace_from_when_it_is_first_seen() -> None:
    leases = Leases(40)
    leases.track(["n1"], 0)
    leases.track(["n1", "n2"], 30)
    assert not leases.alive("n1", 40)
    assert leases.alive("n2", 69)
    assert not leases.alive("n2", 70)


def test_a_node_that_was_removed_starts_afresh() -> None:
    leases = Leases(40)
    leases.track(["n1"], 0)
    leases.track([], 50)
    leases.track(["n1"], 60)
    assert leases.alive("n1", 99)


def test_the_next_expiry_is_of_those_still_alive() -> None:
    leases = Leases(40)
    leases.track(["dead", "alive"], 0)
    leases.heard("alive", 20)
    assert leases.next_expiry(45) == 15
    assert leases.next_expiry(60) is None


def test_s12_a_hub_that_stood_still_does_not_blame_the_nodes() -> None:
    """S-12: what they said meanwhile still waits to be read."""
    leases = Leases(40)
    leases.track(["n1"], 0)
    leases.forgive(1000)
    assert leases.alive("n1", 1039)
    assert not leases.alive("n1", 1040)


def test_a_silent_node_is_unknown_and_its_own_word_is_kept() -> None:
    silent = silenced(node(), NOW)
    assert silent
    assert ready(silent) == ("Unknown", "NodeStatusUnknown")
    kept = silent.status.condition(LAST_REPORTED)
    assert kept
    assert (kept.status, kept.reason) == ("True", "AgentReady")
    assert silenced(silent, NOW) is None
    back = heard_again(silent, NOW)
    assert back
    assert ready(back) == ("True", "AgentReady")
    assert back.status.condition(LAST_REPORTED) is None
    assert heard_again(back, NOW) is None


def test_a_node_that_never_reported_is_unknown_too() -> None:
    silent = silenced(node(ready=None), NOW)
    assert silent
    assert ready(silent) == ("Unknown", "NodeStatusNeverUpdated")
    assert silenced(silent, NOW) is None
    assert heard_again(silent, NOW) is None


def test_a_node_that_said_false_says_false_again() -> None:
    silent = silenced(node(ready="False"), NOW)
    assert silent
    back = heard_again(silent, NOW)
    assert back
    assert ready(back)[0] == "False"


def test_the_taint_follows_ready_and_other_taints_stay() -> None:
    theirs = [{"key": "mine", "effect": "NoSchedule"}]
    plain = node(spec={"taints": theirs})
    assert tainted(plain) is None
    unknown = tainted(node(ready="Unknown", spec={"taints": theirs}))
    assert unknown
    assert [taint.key for taint in unknown.spec.taints] == ["mine", "node.kubernetes.io/unreachable"]
    assert tainted(unknown) is None
    unknown.status = plain.status
    cleared = tainted(unknown)
    assert cleared
    assert [taint.key for taint in cleared.spec.taints] == ["mine"]
    not_ready = tainted(node(ready="False"))
    assert not_ready
    assert [taint.key for taint in not_ready.spec.taints] == ["node.kubernetes.io/not-ready"]


def test_only_ready_is_touched_on_pods_and_only_what_the_hub_changed_is_restored() -> None:
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]
    running = pod(bound="n1", status={"phase": "Running", "conditions": conditions})
    silent = pod_silenced(running, NOW)
    assert silent
    assert ready(silent) == ("False", "NodeNotReady")
    assert pod_silenced(silent, NOW) is None
    back = pod_heard_again(silent, NOW)
    assert back
    assert ready(back) == ("True", None)
    conditions[1]["status"] = "False"
    failing = pod(bound="n1", status={"phase": "Running", "conditions": conditions})
    assert pod_silenced(failing, NOW) is None
    assert pod_heard_again(failing, NOW) is None
