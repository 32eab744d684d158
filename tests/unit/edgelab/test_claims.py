"""The pure part of what the main job claims: a wrong judge would pass anything."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from edgelab import mainjob
from edgelab.client import ready_nodes
from edgelab.effects import Effect, Shape, effects_between
from edgelab.world import resize_complaint, same_resources, status_difference, unready_reason
from vmruntime.api import Owner, VmState, VmStatus


def pod() -> dict[str, Any]:
    resources = {"requests": {"cpu": "250m", "memory": "96Mi"}, "limits": {"cpu": "1", "memory": "96Mi"}}
    return {
        "metadata": {"generation": 3},
        "spec": {"containers": [{"name": "vm", "resources": resources}]},
        "status": {
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "vm", "resources": copy.deepcopy(resources)}],
        },
    }


def test_a_resize_in_force_gives_no_complaint() -> None:
    assert resize_complaint(pod()) is None


def test_each_sign_of_a_resize_under_way_is_one() -> None:
    behind, pending, other, silent = pod(), pod(), pod(), pod()
    behind["status"]["observedGeneration"] = 2
    pending["status"]["conditions"].append({"type": "PodResizePending", "reason": "Deferred", "message": "no room"})
    other["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] = "2"
    del silent["status"]["containerStatuses"]
    assert resize_complaint(behind) == "observedGeneration 2 of 3"
    assert resize_complaint(pending) == "PodResizePending Deferred: no room"
    assert "in force" in str(resize_complaint(other))
    assert "in force" in str(resize_complaint(silent))


def test_amounts_are_compared_and_not_their_spelling() -> None:
    assert same_resources({"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "1000m", "memory": "1024Mi"}})
    assert not same_resources({"limits": {"cpu": "1"}}, {"limits": {"cpu": "999m"}})
    assert not same_resources({"limits": {"cpu": "1"}}, {})


def test_the_hub_may_say_more_than_the_node_but_never_otherwise() -> None:
    node = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    scheduled = {"type": "PodScheduled", "status": "True"}
    hub = {"phase": "Running", "qosClass": "Burstable", "conditions": [scheduled, *node["conditions"]]}
    assert status_difference(hub, node) is None
    assert "Pending" in str(status_difference(hub | {"phase": "Pending"}, node))
    assert "Ready" in str(status_difference(hub | {"conditions": [scheduled]}, node))


def vm(uuid: str, **changes: Any) -> VmStatus:
    values: dict[str, Any] = {
        "uuid": uuid, "name": uuid, "owner": Owner("i", "u", "default", "p", "vm"), "image": "m",
        "state": VmState.RUNNING, "exit": None, "attempt": 0, "agent_ready": True, "cpu_limit_millicores": 250,
        "vcpus_max": 2, "vcpus_online": None, "memory_base_mib": 96, "memory_max_mib": 512,
        "memory_requested_mib": 96, "memory_actual_mib": 96, "guest_total_kib": None, "boot_id": None,
        "document": b"",
    }  # fmt: skip
    return VmStatus(**(values | changes))


def test_effects_are_what_changed_between_two_looks() -> None:
    before = [vm("a"), vm("b"), vm("c"), vm("same")]
    after = [vm("a", cpu_limit_millicores=700), vm("c", state=VmState.STOPPED), vm("d"), vm("same")]
    assert effects_between(before, after) == [
        Effect("b", "gone"),
        Effect("a", "resized", Shape(700, 96)),
        Effect("c", "stopped"),
        Effect("d", "appeared"),
    ]


def test_only_nodes_that_say_so_are_ready() -> None:
    def node(name: str, status: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}}

    listing = {"items": [node("a", "True"), node("b", "Unknown"), {"metadata": {"name": "c"}}]}
    assert ready_nodes(listing) == {"a"}


@pytest.mark.parametrize("step", mainjob.STEPS, ids=lambda step: step.title)
def test_every_step_says_what_to_type(step: mainjob.Step) -> None:
    assert step.typed(Path("/lab")).split()[0] in ("kubectl", "copepod", "kill", "systemctl")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "vm", "state": {"waiting": {"reason": "RunContainerError", "message": "m"}}}
                ]
            },
            "vm is waiting: RunContainerError: m",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}]},
            "PodScheduled Unschedulable: 0/1",
        ),
        ({"phase": "Pending"}, "phase Pending"),
        ({}, "phase unknown"),
    ],
)
def test_a_pod_that_does_not_get_ready_says_why(status: dict[str, Any], reason: str) -> None:
    assert unready_reason({"status": status}) == reason
