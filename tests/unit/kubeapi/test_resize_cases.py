"""Replays what a real kube-apiserver 1.36.2 answered to patches of the `resize` subresource (S-71, S-72)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from kubeapi import defaults
from kubeapi.admission import admit_limits, admit_resize
from kubeapi.core import LimitRange, Node, Pod
from kubeapi.errors import ApiError, not_found
from kubeapi.patch import apply_patch
from kubeapi.resize import apply_resize

DATA = Path(__file__).parents[2] / "data" / "kubernetes"
CASES: list[dict[str, Any]] = json.loads((DATA / "resize-cases.json").read_text())


def _node(name: str, system: str = "linux", features: tuple[str, ...] = ()) -> Node:
    return Node.from_dict(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/os": system}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "declaredFeatures": list(features)},
        }
    )


NODES = {
    "n1": _node("n1", features=("InPlacePodVerticalScalingInitContainers",)),
    "nofeat": _node("nofeat"),
    "win": _node("win", "windows"),
}
LIMITS = LimitRange.from_dict({"spec": {"limits": [{"type": "Container", "max": {"cpu": "500m", "memory": "500Mi"}}]}})


def _pod(case: dict[str, Any]) -> Pod:
    """The pod before: as recorded, running on its node."""
    before = case["before"]
    named = re.search(r'(?i)pods? "([^"]+)"', case["expectMessage"] or "")
    spec = {
        "containers": [{"image": "pause:1", **container} for container in before["containers"]],
        "initContainers": [{"image": "pause:1", **container} for container in before.get("initContainers", [])],
        "resources": before["podResources"],
        "nodeName": before["nodeName"],
        "os": {"name": "windows"} if "windows_pod" in case["case"] else None,
    }
    pod = Pod.from_dict(
        {
            "metadata": {
                "name": named[1] if named else "x",
                "namespace": "demo",
                "generation": before["generation"],
            },
            "spec": spec,
            "status": {"qosClass": before["qosClass"], "phase": "Running"},
        }
    )
    defaults.default_pod(pod)
    if before["nodeName"]:
        reports = "no_status_resources" not in case["case"]
        pod.status = pod.status.from_dict(
            {
                **pod.status.to_dict(),
                "containerStatuses": [
                    {
                        "name": item.name,
                        "state": {"running": {}},
                        **({"resources": {"requests": item.requests}} if reports else {}),
                    }
                    for item in pod.spec.containers
                ],
            }
        )
    return pod


def _resized(case: dict[str, Any], old: Pod) -> Pod:
    patched = apply_patch(old, case["contentType"], orjson.dumps(case["patch"]))
    defaults.default_pod(patched)
    new = apply_resize(old, patched)
    admit_resize(new, old, NODES.get(old.spec.node_name or ""))
    if case["case"].startswith("err_lr"):
        admit_limits(new, [LIMITS])
    return new


def _recorded(pod: Pod) -> dict[str, Any]:
    """A pod in the form of the recordings."""

    def container(item: dict[str, Any]) -> dict[str, Any]:
        return {key: item[key] for key in ("name", "resources", "resizePolicy", "restartPolicy") if key in item}

    data = pod.to_dict()
    form = {
        "qosClass": data["status"]["qosClass"],
        "nodeName": data["spec"].get("nodeName"),
        "generation": data["metadata"]["generation"],
        "podResources": data["spec"].get("resources"),
        "containers": [container(item) for item in data["spec"]["containers"]],
    }
    if "initContainers" in data["spec"]:
        form["initContainers"] = [container(item) for item in data["spec"]["initContainers"]]
    return form


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_s71_s72_resize_answers_as_the_reference(case: dict[str, Any]) -> None:
    """S-71 and S-72: status, reason, message, and the pod afterwards."""
    if case["before"] is None:
        error = not_found("pods", "nope")
        assert (error.code, error.reason, error.message) == (
            case["expectStatus"],
            case["expectReason"],
            case["expectMessage"],
        )
        return
    old = _pod(case)
    assert _recorded(old) == case["before"], "the fixture is the recorded pod"
    before = old.to_json()
    if case["expectStatus"] == 200:
        new = _resized(case, old)
        assert _recorded(new) == case["after"]
        assert (new.to_json() == before) is case["unchanged"]
        assert new.metadata.labels == old.metadata.labels
        assert [item.image for item in new.spec.containers] == [item.image for item in old.spec.containers]
    else:
        with pytest.raises(ApiError) as caught:
            _resized(case, old)
        assert caught.value.message == case["expectMessage"]
        assert caught.value.reason == case["expectReason"]
        assert caught.value.code == case["expectStatus"]
    assert old.to_json() == before, "the old pod is never touched"


def test_all_cases_are_replayed() -> None:
    assert len(CASES) == 44
