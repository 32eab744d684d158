"""What nodes say, merged into what the hub owns."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cloudhub.upstream import (
    BadItem,
    GoneReport,
    Origin,
    StatusReport,
    parse,
    stored_event,
    torn_down,
    with_report,
    with_status,
)
from edgelink.api import UpItem
from kubeapi.core import Event, Pod
from tests.support.kube import node, pod

ORIGIN = Origin("n1", "store-a")


def report(**more: Any) -> StatusReport:
    value = {"kind": "PodStatus", "namespace": "default", "name": "p1", "uid": "uid-p1", "status": {}}
    return StatusReport.model_validate(value | more)


def apply(before: Pod, origin: Origin = ORIGIN, **more: Any) -> Pod | None:
    return with_status(before, report(**more), origin)


def item(value: object, lane: str = "level") -> UpItem:
    return UpItem(1, lane, "subject", orjson.dumps(value))


def test_status_replaces_but_for_what_is_the_hubs() -> None:
    stored = pod(
        bound="n1",
        status={
            "phase": "Pending",
            "qosClass": "Burstable",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "example.com/gate", "status": "True"},
                {"type": "PodResizePending", "status": "True"},
                {"type": "Ready", "status": "False"},
            ],
        },
    )
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"}]
    after = apply(stored, observedGeneration=3, status={"phase": "Running", "conditions": conditions})
    assert after
    assert {c.type: c.status for c in after.status.conditions} == {
        "PodScheduled": "True",
        "example.com/gate": "True",
        "Ready": "True",
    }
    assert (after.status.phase, after.status.qos_class, after.status.observed_generation) == ("Running", "Burstable", 3)
    assert after.spec is stored.spec


def test_why_a_pod_is_made_to_go_stays_said_until_the_node_says_better() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    stored = pod(bound="n1", status={"conditions": [target]})
    after = apply(stored, status={"phase": "Running"})
    assert after
    assert [c.reason for c in after.status.conditions] == ["PreemptionByScheduler"]
    again = apply(after, status={"conditions": [target | {"reason": "TerminationByKubelet"}]})
    assert again
    assert [c.reason for c in again.status.conditions] == ["TerminationByKubelet"]


def test_s85_older_is_refused_by_generation_and_by_sequence_of_the_same_store() -> None:
    """S-85. A store that is new counts from the start: its word is not compared with the old one's numbers."""
    first = apply(pod(bound="n1"), sequence=5, observedGeneration=2)
    assert first
    assert apply(first, sequence=4, observedGeneration=2) is None
    assert apply(first, sequence=6, observedGeneration=1) is None
    assert apply(first, sequence=5, observedGeneration=2) is not None
    assert apply(first, Origin("n1", "store-b"), sequence=1, observedGeneration=2) is not None


def test_the_source_survives_the_store() -> None:
    first = apply(pod(bound="n1"), sequence=5)
    assert first
    assert apply(Pod.from_json(first.to_json()), sequence=4) is None


def test_s83_a_node_speaks_for_its_own_pods_only() -> None:
    """S-83, hub half."""
    for foreign in (pod(bound="n2"), pod()):
        with pytest.raises(BadItem) as caught:
            apply(foreign)
        assert caught.value.kind == "foreign"
        with pytest.raises(BadItem):
            torn_down(foreign, ORIGIN)
    with pytest.raises(BadItem) as caught:
        parse(item({"kind": "Node", "metadata": {"name": "n2"}}), "n1")
    assert caught.value.kind == "foreign"


@pytest.mark.parametrize(
    ("value", "lane", "kind"),
    [
        ([], "level", "malformed"),
        ({}, "level", "malformed"),
        ({"kind": ["x"]}, "level", "unknown"),
        ({"kind": "PodStatus"}, "log", "unknown"),
        ({"kind": "PodStatus", "namespace": "d", "name": "n", "uid": "", "status": {}}, "level", "malformed"),
        ({"kind": "PodStatus", "namespace": "d", "name": "n", "uid": "u", "status": 1}, "level", "malformed"),
        ({"kind": "Node", "metadata": 3}, "level", "malformed"),
        ({"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "x"}}}, "level", "malformed"),
        ({"kind": "Event"}, "log", "malformed"),
        ({"kind": "Event", "metadata": {"name": "x" * 300}}, "log", "malformed"),
    ],
)
def test_s26_what_is_malformed_is_named_by_kind(value: object, lane: str, kind: str) -> None:
    """S-26, hub half."""
    with pytest.raises(BadItem) as caught:
        parse(item(value, lane), "n1")
    assert caught.value.kind == kind
    assert len(str(caught.value)) < 300


def test_a_malformed_status_is_refused() -> None:
    with pytest.raises(BadItem):
        apply(pod(bound="n1"), status={"conditions": [{"status": "True"}]})


def test_s08_a_pod_goes_only_when_it_is_being_deleted_and_its_node_confirms() -> None:
    """S-08."""
    running = pod(bound="n1")
    assert torn_down(running, ORIGIN) is running
    terminating = running.copied()
    terminating.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    terminating.metadata.deletion_grace_period_seconds = 30
    assert torn_down(terminating, ORIGIN) is None
    terminating.metadata.finalizers = ["example.com/held"]
    held = torn_down(terminating, ORIGIN)
    assert held
    assert (held.metadata.deletion_grace_period_seconds, held.status.phase) == (0, "Failed")
    terminating.status.phase = "Succeeded"
    ended = torn_down(terminating, ORIGIN)
    assert ended
    assert ended.status.phase == "Succeeded"
    value = {"kind": "PodGone", "namespace": "default", "name": "p1", "uid": "uid-p1"}
    assert isinstance(parse(item(value), "n1"), GoneReport)


def test_a_node_registers_itself_and_people_keep_their_part() -> None:
    made = with_report(None, node(labels={"zone": "a"}), "uid-1", "2026-01-01T00:00:00Z")
    assert (made.metadata.uid, made.metadata.creation_timestamp) == ("uid-1", "2026-01-01T00:00:00Z")
    made.spec.unschedulable = True
    made.metadata.labels["team"] = "blue"
    again = with_report(made, node(labels={"zone": "b"}, spec={"unschedulable": False}), "other", "later")
    assert again.metadata.uid == "uid-1"
    assert again.spec.unschedulable is True
    assert again.metadata.labels == {"kubernetes.io/hostname": "n1", "zone": "b", "team": "blue"}


def test_an_event_gets_the_hubs_identity_and_the_namespace_of_its_object() -> None:
    said = Event.from_dict(
        {"metadata": {"name": "e", "namespace": "kube-system", "uid": "x"}, "involvedObject": {"namespace": "default"}}
    )
    event = stored_event(said, "uid-1", "2026-11-30T21:59:26Z")
    assert (event.metadata.namespace, event.metadata.uid, event.metadata.name) == ("default", "uid-1", "e")
