"""StatefulSet plans: names, order, partitions; and never two of one name."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.workloads import revisions
from cloudhub.workloads.actions import Plan
from cloudhub.workloads.statefulsets import plan
from kubeapi.core import Pod
from kubeapi.workloads import ControllerRevision, StatefulSet
from tests.support.workloads import NOW, ago, created, pod, statefulset, status_of, steps

PARALLEL = {"podManagementPolicy": "Parallel"}


def revision(of: StatefulSet, number: int = 1) -> ControllerRevision:
    made = created(Plan(revisions.plan(of, of.spec.template, [], frozenset(), frozenset(), 10).actions))[0]
    made.revision = number
    assert isinstance(made, ControllerRevision)
    return made


OLD = revision(statefulset())


def newer(**more: Any) -> StatefulSet:
    """Its template was changed after all its pods were made."""
    status = {"currentRevision": OLD.metadata.name, "currentReplicas": 3}
    result = statefulset(status=status, **more)
    result.spec.template.spec.containers[0].image = "copepod/micro:2"
    return result


NEW = revision(newer(), 2)


def at(index: int, version: ControllerRevision = OLD, **more: Any) -> Pod:
    return pod(statefulset(), f"web-{index}", labels={"controller-revision-hash": version.metadata.name}, **more)


def planned(wish: StatefulSet, *mine: Pod, known: tuple[ControllerRevision, ...] = (OLD,)) -> Plan:
    return plan(wish, mine, known, frozenset(), NOW)


@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        ([], ["+Pod web-0"]),
        ([at(0, ready=False)], []),
        ([at(0)], ["+Pod web-1"]),
        ([at(0), at(1), at(2)], []),
        ([at(0), at(2)], ["+Pod web-1"]),
        ([at(0, phase="Failed", ready=False), at(1)], ["-Pod web-0"]),
        ([at(0, deleted=True), at(1)], []),
        ([at(0), at(1), at(2), at(3), at(4)], ["-Pod web-4"]),
        ([at(0), at(1), at(2), at(3), at(4, deleted=True)], []),
        ([at(0), at(1, ready=False), at(2), at(3)], []),
    ],
)
def test_in_order_one_at_a_time(mine: list[Pod], wanted: list[str]) -> None:
    assert steps(planned(statefulset(3), *mine)) == wanted


def test_parallel_does_not_wait() -> None:
    wish = statefulset(3, spec=PARALLEL)
    assert steps(planned(wish, at(1, ready=False), at(4))) == ["+Pod web-0", "+Pod web-2", "-Pod web-4"]


def test_s84_a_name_on_a_silent_node_is_never_given_twice() -> None:
    """S-84: the pod that is being deleted there holds its name until its node says that it is gone."""
    gone_silent = at(1, deleted=True, ready=False, node="offline")
    assert steps(planned(statefulset(3), at(0), gone_silent, at(2))) == []
    assert steps(planned(statefulset(3, spec=PARALLEL), at(0), gone_silent, at(2))) == []


def test_a_pod_that_failed_at_once_is_not_made_anew_at_once() -> None:
    young = at(0, phase="Failed", ready=False, metadata={"creationTimestamp": ago(4)})
    for wish in (statefulset(1), statefulset(1, spec=PARALLEL)):
        result = planned(wish, young)
        assert (steps(result), result.wake_after) == ([], 6.0)


def test_a_pod_knows_its_name() -> None:
    made = created(planned(statefulset(1, spec={"ordinals": {"start": 5}})))[0]
    assert (made.metadata.name, made.spec.hostname, made.spec.subdomain) == ("web-5", "web-5", "web")
    assert made.metadata.labels["apps.kubernetes.io/pod-index"] == "5"
    assert made.metadata.labels["statefulset.kubernetes.io/pod-name"] == "web-5"


def test_an_update_goes_from_the_top_and_waits_for_each() -> None:
    both = (OLD, NEW)
    assert steps(planned(newer(), at(0), at(1), at(2), known=both)) == ["-Pod web-2"]
    assert steps(planned(newer(), at(0), at(1), known=both)) == ["+Pod web-2"]
    # Whatever the stored status says: what was deleted for the update comes back new, and what was not, as it was.
    assert created(planned(newer(), at(0), at(1), known=both))[0].spec.containers[0].image == "copepod/micro:2"
    assert created(planned(newer(), at(1), at(2, NEW), known=both))[0].spec.containers[0].image == "copepod/micro:1"
    halfway = newer()
    assert steps(planned(halfway, at(0), at(1), at(2, NEW, ready=False), known=both)) == []
    assert steps(planned(halfway, at(0), at(1), at(2, NEW), known=both)) == ["-Pod web-1"]


def test_below_the_partition_all_stays_and_comes_back_as_it_was() -> None:
    partition = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
    wish = newer(spec=partition)
    assert steps(planned(wish, at(0), at(1), at(2, NEW), known=(OLD, NEW))) == []
    made = created(planned(wish, at(0), at(2, NEW), known=(OLD, NEW)))[0]
    assert (made.metadata.name, made.spec.containers[0].image) == ("web-1", "copepod/micro:1")


def test_on_delete_updates_what_somebody_deletes() -> None:
    wish = newer(spec={"updateStrategy": {"type": "OnDelete"}})
    assert steps(planned(wish, at(0), at(1), at(2), known=(OLD, NEW))) == []
    assert created(planned(wish, at(0), at(1), known=(OLD, NEW)))[0].spec.containers[0].image == "copepod/micro:2"


def test_a_finished_update_becomes_the_current_revision() -> None:
    status = status_of(planned(newer(), at(0, NEW), at(1, NEW), at(2, NEW), known=(OLD, NEW)))
    assert (status.current_revision, status.update_revision) == (NEW.metadata.name, NEW.metadata.name)
    assert (status.current_replicas, status.updated_replicas, status.ready_replicas) == (3, 3, 3)
    part = status_of(planned(newer(), at(0), at(1, NEW), at(2, NEW), known=(OLD, NEW)))
    assert (part.current_revision, part.current_replicas, part.updated_replicas) == (OLD.metadata.name, 1, 2)
