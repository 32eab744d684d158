"""ReplicaSet plans: counts, whom to delete first, whose pods are whose, and S-84."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cloudhub.workloads.replicasets import plan
from kubeapi.core import Pod
from tests.support.workloads import NOW, ago, created, pod, replicaset, said, status_of, steps

RS = replicaset(3)


@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        ([], ["+Pod web-"] * 3),
        ([pod(RS, "a"), pod(RS, "b")], ["+Pod web-"]),
        ([pod(RS, "a"), pod(RS, "b"), pod(RS, "c")], []),
        ([pod(RS, "a"), pod(RS, "b"), pod(RS, "c"), pod(RS, "d", ready=False)], ["-Pod d"]),
        ([pod(RS, "a"), pod(RS, "b"), pod(RS, "c"), pod(RS, "d", deleted=True)], []),
        ([pod(RS, "a"), pod(RS, "b"), pod(RS, "c", deleted=True)], ["+Pod web-"]),
        ([pod(RS, "a"), pod(RS, "b"), pod(RS, "c", phase="Failed")], ["+Pod web-"]),
    ],
)
def test_so_many_as_wished(mine: list[Pod], wanted: list[str]) -> None:
    assert steps(plan(RS, mine, NOW)) == wanted


def test_s84_pods_on_a_silent_node_are_kept_and_not_replaced() -> None:
    """S-84: the node lifecycle makes them not Ready, and that is all that happens."""
    mine = [pod(RS, name, ready=False, node="offline") for name in "abc"]
    result = plan(RS, mine, NOW)
    assert steps(result) == []
    status = status_of(result)
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, None, None)


def test_surplus_goes_in_the_reference_s_order() -> None:
    unbound = pod(RS, "unbound", phase="Pending", ready=False, node="")
    pending = pod(RS, "pending", phase="Pending", ready=False)
    unready = pod(RS, "unready", ready=False)
    cheap = pod(RS, "cheap", metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}})
    fresh, old = pod(RS, "fresh", since=5), pod(RS, "old", since=500)
    result = plan(replicaset(0), [old, fresh, cheap, unready, pending, unbound], NOW)
    order = ["unbound", "pending", "unready", "cheap", "fresh", "old"]
    assert steps(result) == [f"-Pod {name}" for name in order]


def test_pods_are_adopted_and_released_before_anything_is_made() -> None:
    strange = pod(RS, "strange", labels={"app": "other"})
    result = plan(RS, [pod(None, "lonely"), strange], NOW)
    assert said(result.actions) == ["=Pod lonely", "~Pod strange"]


def test_available_only_after_min_ready_seconds() -> None:
    rs = replicaset(1, spec={"minReadySeconds": 30})
    early = plan(rs, [pod(rs, "a", since=10)], NOW)
    assert (status_of(early).ready_replicas, status_of(early).available_replicas, early.wake_after) == (1, None, 20.0)
    assert status_of(plan(rs, [pod(rs, "a", since=30)], NOW)).available_replicas == 1


def test_a_refused_creation_is_a_condition_until_it_succeeds() -> None:
    status = status_of(plan(RS, [], NOW, trouble="exceeded quota"))
    assert [(item.type, item.status, item.message) for item in status.conditions] == [
        ("ReplicaFailure", "True", "exceeded quota")
    ]
    failing = RS.copied()
    failing.status = status
    assert status_of(plan(failing, [], NOW)).conditions == []


def test_a_dying_replicaset_makes_nothing() -> None:
    dying = replicaset(3, metadata={"deletionTimestamp": "2026-03-01T11:59:00Z"})
    assert steps(plan(dying, [], NOW)) == []
    assert said(plan(dying, [pod(None, "lonely")], NOW).actions) == ["status"]


def test_a_pod_is_as_the_template_says_and_owned() -> None:
    made = created(plan(replicaset(1), [], NOW))[0]
    assert made.metadata.labels == {"app": "web"}
    owner = made.metadata.owner_references[0]
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "ReplicaSet",
        "uid-web",
        True,
        True,
    )


@pytest.mark.parametrize(("failures", "wait"), [(1, 10.0), (2, 20.0), (3, 40.0), (5, 160.0), (9, 300.0)])
def test_a_node_that_refuses_pods_is_not_flooded(failures: int, wait: float) -> None:
    """What failed just now is made anew after a rest; of what failed, only the youngest stay."""
    failed = [
        pod(RS, f"f{number}", phase="Failed", ready=False, metadata={"creationTimestamp": ago(0)})
        for number in range(failures)
    ]
    result = plan(replicaset(1), failed, NOW)
    assert steps(result) == [f"-Pod f{number}" for number in range(max(failures - 5, 0))]
    assert result.wake_after == wait
    assert "+Pod web-" in steps(plan(replicaset(1), failed, NOW + timedelta(seconds=wait)))
