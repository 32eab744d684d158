"""What `kubectl get` shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubeapi import columns
from kubeapi.ages import age, human
from kubeapi.clock import timestamp
from kubeapi.core import ConfigMap, Event, Lease, LimitRange, Namespace, Node, Pod, Secret, ServiceAccount
from kubeapi.resources import ALL, NODES, PODS, REGISTRY

DATA = Path(__file__).parents[2] / "data" / "kubernetes" / "api"
NOW = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
CREATED = timestamp(NOW - timedelta(seconds=3))


def recorded(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())["response"]
    return table


def test_pod_row_is_the_recorded_one() -> None:
    table = recorded("table_pod_one")
    pod = Pod.from_dict(json.loads((DATA / "get_b1_resize_subresource.json").read_text())["response"])
    pod.metadata.creation_timestamp = CREATED
    assert list(PODS.table.cells(pod, NOW)) == table["rows"][0]["cells"]
    assert [column.to_dict() for column in PODS.table.columns] == table["columnDefinitions"]


def test_node_row_is_the_recorded_one() -> None:
    table = recorded("table_nodes")
    node = Node.from_dict(
        {
            "metadata": {"name": "n1", "creationTimestamp": CREATED},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.2",
                    "osImage": "Debian",
                    "kernelVersion": "6",
                    "architecture": "amd64",
                    "containerRuntimeVersion": "libvirt://10",
                },
            },
        }
    )
    assert list(NODES.table.cells(node, NOW)) == table["rows"][0]["cells"]
    assert [column.to_dict() for column in NODES.table.columns] == table["columnDefinitions"]


def test_node_words() -> None:
    node = Node.from_dict(
        {
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/edge": "", "kubernetes.io/role": "box"}},
            "spec": {"unschedulable": True},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
    )
    cells = NODES.table.cells(node, NOW)
    assert cells[1:4] == ("NotReady,SchedulingDisabled", "box,edge", "<unknown>")
    assert NODES.table.cells(Node(), NOW)[1] == "Unknown"


def running(**more: Any) -> dict[str, Any]:
    return {"name": "c", "ready": True, "state": {"running": {}}, **more}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "OutOfcpu"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            "SchedulingGated",
        ),
        ({"phase": "Running", "containerStatuses": [running()]}, "Running"),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
            "CrashLoopBackOff",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"reason": "Error"}}}]},
            "Error",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"signal": 9}}}]},
            "Signal:9",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]},
            "ExitCode:3",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"reason": "Completed"}}},
                    running(),
                ],
            },
            "NotReady",
        ),
        ({"phase": "Pending", "initContainerStatuses": [running(name="i")]}, "Init:0/1"),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}],
            },
            "Init:ExitCode:2",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
            },
            "Init:ImagePullBackOff",
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [running()],
            },
            "Running",
        ),
    ],
)
def test_pod_words(status: dict[str, Any], word: str) -> None:
    pod = Pod.from_dict({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, "status": status})
    assert columns.pod_status(pod) == word


def test_a_deleted_pod_is_terminating_until_it_has_ended() -> None:
    pod = Pod.from_dict({"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Running"}})
    assert columns.pod_status(pod) == "Terminating"
    pod.status.phase = "Succeeded"
    assert columns.pod_status(pod) == "Succeeded"
    pod.status.reason = "NodeLost"
    assert columns.pod_status(pod) == "Unknown"


def test_restarts_say_how_long_ago() -> None:
    ended = timestamp(NOW - timedelta(minutes=5))
    status = running(restartCount=3, lastState={"terminated": {"finishedAt": ended}})
    pod = Pod.from_dict({"spec": {"containers": [{"name": "c"}]}, "status": {"containerStatuses": [status]}})
    assert PODS.table.cells(pod, NOW)[1:4] == ("1/1", "", "3 (5m ago)")


def test_sidecars_and_gates_are_counted() -> None:
    pod = Pod.from_dict(
        {
            "spec": {
                "containers": [{"name": "c"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}],
                "readinessGates": [{"conditionType": "a/b"}],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [running()],
                "initContainerStatuses": [running(name="s", started=True)],
                "conditions": [{"type": "a/b", "status": "True"}],
            },
        }
    )
    cells = PODS.table.cells(pod, NOW)
    assert (cells[1], cells[2], cells[8]) == ("2/2", "Running", "1/1")


def test_small_kinds() -> None:
    meta = {"name": "a", "namespace": "d", "creationTimestamp": CREATED}
    event = Event.from_dict(
        {
            "metadata": meta,
            "type": "Normal",
            "reason": "Started",
            "message": "up\n",
            "involvedObject": {"kind": "Pod", "name": "p"},
            "source": {"component": "edge", "host": "n1"},
            "firstTimestamp": CREATED,
            "lastTimestamp": CREATED,
            "count": 2,
        }
    )
    row = columns.EVENTS.cells(event, NOW)
    assert row == ("3s", "Normal", "Started", "pod/p", "", "edge, n1", "up", "3s", 2, "a")
    config = ConfigMap.from_dict({"metadata": meta, "data": {"x": "y"}})
    assert columns.CONFIGMAPS.cells(config, NOW) == ("a", 1, "3s")
    secret = Secret.from_dict({"metadata": meta, "type": "Opaque"})
    assert columns.SECRETS.cells(secret, NOW) == ("a", "Opaque", 0, "3s")
    assert columns.SERVICE_ACCOUNTS.cells(ServiceAccount.from_dict({"metadata": meta}), NOW) == ("a", 0, "3s")
    lease = Lease.from_dict({"metadata": meta, "spec": {"holderIdentity": "n1"}})
    assert columns.LEASES.cells(lease, NOW) == ("a", "n1", "3s")
    assert columns.LIMIT_RANGES.cells(LimitRange.from_dict({"metadata": meta}), NOW) == ("a", CREATED)
    namespace = Namespace.from_dict({"metadata": meta, "status": {"phase": "Active"}})
    assert columns.NAMESPACES.cells(namespace, NOW) == ("a", "Active", "3s")


@pytest.mark.parametrize("resource", ALL, ids=[item.key for item in ALL])
def test_every_kind_has_as_many_cells_as_columns(resource: Any) -> None:
    assert len(resource.table.cells(resource.model(), NOW)) == len(resource.table.columns)
    assert REGISTRY.of(resource.model) is resource
    assert REGISTRY.find(resource.group, resource.version, resource.plural) is resource
    assert REGISTRY.by_key(resource.key) is resource
    assert (resource.model().api_version, resource.model().kind) == (resource.api_version, resource.kind)


def test_discovery_agrees_with_the_recording() -> None:
    """Names, verbs and short names; of subresources, those that are served here."""
    items = json.loads((DATA / "discovery_api_aggregated.json").read_text())["response"]["items"]
    known = {entry["resource"]: entry for item in items for entry in item["versions"][0]["resources"]}
    for resource in ALL:
        if resource.group:
            continue
        entry = known[resource.plural]
        assert entry["singularResource"] == resource.singular
        assert entry["verbs"] == list(resource.verbs)
        assert entry.get("shortNames", []) == list(resource.short_names)
        assert entry.get("categories", []) == list(resource.categories)
        theirs = {item["subresource"]: item["verbs"] for item in entry.get("subresources", [])}
        for subresource in resource.subresources:
            assert theirs[subresource.name] == list(subresource.verbs)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (312, "5m12s"),
        (3599, "59m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (9 * 3600, "9h"),
        (2 * 86400 + 3 * 3600, "2d3h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_human_durations(seconds: int, text: str) -> None:
    assert human(seconds) == text


def test_an_unreadable_age_is_unknown() -> None:
    assert age(None, NOW) == age("soon", NOW) == "<unknown>"
