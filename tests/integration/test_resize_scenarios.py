"""Resizes that cannot be done now, or ever, as clients of the API see them. The agent is real, its VMs are not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from tests.support.livehub import LiveHub, live_hub

PODS = "/api/v1/namespaces/default/pods"
PATIENCE = 90


@dataclass
class Api:
    hub: LiveHub
    session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        state = self.hub.kubeconfig.parent
        self.session.trust_env = False  # a CA bundle in the environment would be preferred
        self.session.verify = str(state / "ca.crt")
        self.session.headers["Authorization"] = f"Bearer {(state / 'admin.token').read_text().strip()}"

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.session.request(
            method, self.hub.url + path, data=json.dumps(body), headers={"Content-Type": kind}, timeout=PATIENCE
        )
        return answer.status_code, answer.json()

    def pod(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"{PODS}/{name}")[1]

    def run(self, name: str, cpu: str, **spec: Any) -> None:
        container = {"name": "vm", "image": "copepod/micro:latest", "resources": {"requests": {"cpu": cpu}}}
        status, _ = self.call("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})
        assert status == 201

    def running(self, name: str, cpu: str) -> None:
        self.run(name, cpu)
        self.until(lambda: self.in_force(name, cpu), f"{name} runs")

    def resize(self, name: str, cpu: str) -> tuple[int, dict[str, Any]]:
        wish = {"spec": {"containers": [{"name": "vm", "resources": {"requests": {"cpu": cpu}}}]}}
        return self.call("PATCH", f"{PODS}/{name}/resize", wish)

    def in_force(self, name: str, cpu: str) -> bool:
        found = [item["resources"]["requests"]["cpu"] for item in self._containers(name) if "resources" in item]
        return found == [cpu] and self.pending(name) is None

    def _containers(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pod(name)["status"].get("containerStatuses", [])
        return found

    def pending(self, name: str) -> dict[str, Any] | None:
        conditions = self.pod(name)["status"].get("conditions", [])
        return next((item for item in conditions if item["type"].startswith("PodResize")), None)

    def waits(self, name: str, reason: str) -> bool:
        found = self.pending(name)
        return found is not None and found.get("reason") == reason

    def until(self, true: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One node of 8 CPUs."""
    with live_hub(tmp_path_factory.mktemp("resize"), nodes=1) as hub:
        api = Api(hub)
        yield api
        api.session.close()


def test_s68_s72_a_deferred_resize_waits_and_holds_up_nobody(api: Api) -> None:
    """S-68, S-72: Deferred in the pod's condition; another pod's resize passes it; it is done when there is room."""
    api.running("big", "4")
    api.running("waits", "3")
    assert api.resize("waits", "5")[0] == 200
    api.until(lambda: api.waits("waits", "Deferred"), "it is Deferred")
    pending = api.pending("waits")
    assert pending
    assert "Node didn't have enough resource: cpu, requested: 5000, used: 4000, capacity: 8000" in pending["message"]
    assert api.resize("big", "3")[0] == 200
    api.until(lambda: api.in_force("big", "3"), "the other one is resized")
    api.until(lambda: api.in_force("waits", "5"), "and then there is room")


def test_s69_more_than_the_node_has_is_refused_with_the_limit(api: Api) -> None:
    """S-69: at the hub, which knows the node; the pod goes on as it was."""
    api.running("web", "1")
    status, refused = api.resize("web", "9")
    assert (status, refused["reason"]) == (403, "Forbidden")
    assert (
        "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 8000" in refused["message"]
    )
    assert api.in_force("web", "1")


def test_s73_resizes_of_pods_that_wait_stop_or_have_ended(api: Api) -> None:
    """S-73: each is defined, and none leaves a condition behind."""
    api.run("unplaced", "1", nodeSelector={"nowhere": "1"})
    status, found = api.resize("unplaced", "2")
    assert (status, found["spec"]["containers"][0]["resources"]["requests"]["cpu"]) == (200, "2")
    assert api.pending("unplaced") is None
    api.running("ends", "1")
    api.call("PATCH", f"{PODS}/ends", {"metadata": {"finalizers": ["example.com/kept"]}})
    api.call("DELETE", f"{PODS}/ends", {"gracePeriodSeconds": 1})
    first = api.resize("ends", "2")[0]
    assert first in (200, 409, 422)
    api.until(lambda: api.pod("ends")["status"]["phase"] in ("Succeeded", "Failed"), "its end is reported")
    assert api.resize("ends", "3")[0] in (200, 409, 422)
    api.until(lambda: api.pending("ends") is None, "nothing is pending")
