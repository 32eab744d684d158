"""helm 4 against the hub, with charts as people write them (tests/data/charts)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubectls import NEWEST, kubectl
from tests.support.livehub import LiveHub
from tests.support.programs import Program, eventually, tool

CHARTS = Path(__file__).parents[2] / "data" / "charts"
FUNCTION, FLEET = str(CHARTS / "network-function"), str(CHARTS / "edge-fleet")
WAIT = ("--wait", "--timeout", "60s")

_KINDS = (
    "deployments", "replicasets", "daemonsets", "statefulsets", "jobs", "cronjobs", "pods", "configmaps", "secrets",
    "services", "ingresses", "networkpolicies", "serviceaccounts", "roles", "rolebindings", "poddisruptionbudgets",
)  # fmt: skip


class Release:
    """helm and kubectl in a namespace of their own."""

    def __init__(self, hub: LiveHub, home: Path, namespace: str) -> None:
        self.namespace = namespace
        self.helm = Program(tool("helm-4"), home, hub.kubeconfig, ("--namespace", namespace))
        self.kubectl = kubectl(NEWEST, hub, home, namespace)

    def ok(self, *arguments: str) -> str:
        return self.helm.ok(*arguments)

    def refused(self, *arguments: str) -> str:
        return self.helm.run(*arguments).refused()

    def get(self, kind: str, name: str) -> Mapping[str, Any]:
        return dict(json.loads(self.kubectl.ok("get", kind, name, "-o", "json")))

    def left(self) -> set[str]:
        """What there is in the namespace, but for what every namespace has. After an uninstall ask it eventually: helm
        waits for what it deleted itself (and not even for that, if it has seen nothing of it yet), not for its pods.
        """
        return {name for name in self.names(*_KINDS) if name != "serviceaccount/default"}

    def names(self, *kinds: str) -> set[str]:
        shown = self.kubectl.ok("get", ",".join(kinds), "-o", "name")
        return {line for line in shown.splitlines() if "kube-root-ca" not in line}

    def history(self, name: str) -> list[tuple[int, str, str]]:
        rows = json.loads(self.ok("history", name, "-o", "json"))
        return [(row["revision"], row["status"], row["description"]) for row in rows]

    def images(self, app: str) -> list[str]:
        path = "jsonpath={.items[*].spec.containers[0].image}"
        return self.kubectl.ok("get", "pods", "-l", f"app.kubernetes.io/instance={app}", "-o", path).split()


@pytest.fixture
def release(hub: LiveHub, tmp_path: Path, request: pytest.FixtureRequest) -> Release:
    return Release(hub, tmp_path / "home", request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-"))


def test_a_network_function_lives_its_life(release: Release) -> None:
    nf = "nf-network-function"
    said = release.ok("install", "nf", FUNCTION, "--create-namespace", *WAIT)
    assert "STATUS: deployed" in said
    assert "At least 1 stays up." in said, "the notes ask for the server's API versions"
    assert release.get("deployment", nf)["status"]["availableReplicas"] == 2
    assert release.get("secret", nf)["data"] == {"api-key": "Y2hhbmdlLW1l"}
    assert "jobs" not in " ".join(release.names("jobs")), "the hook's job is gone, as its policy says"

    listed = json.loads(release.ok("list", "-o", "json"))
    assert [(item["name"], item["status"], item["chart"]) for item in listed] == [
        ("nf", "deployed", "network-function-1.2.0")
    ]
    assert f"{nf}" in release.ok("status", "nf")
    assert "Phase:          Succeeded" in release.ok("test", "nf", "--timeout", "60s")
    assert "ready" in release.ok("test", "nf", "--logs", "--timeout", "60s"), "the test pod's console"

    release.ok("upgrade", "nf", FUNCTION, "--set", "replicaCount=3,image.tag=2,rules=none", *WAIT)
    assert release.images("nf").count("copepod/micro:2") == 3
    assert release.get("configmap", nf)["data"] == {"rules": "none"}
    values = yaml.safe_load(release.ok("get", "values", "nf"))
    assert values["replicaCount"] == 3

    release.ok("rollback", "nf", "1", *WAIT)
    assert "copepod/micro:1" in release.images("nf")
    assert "udp/53" in release.get("configmap", nf)["data"]["rules"]
    assert release.history("nf") == [
        (1, "superseded", "Install complete"),
        (2, "superseded", "Upgrade complete"),
        (3, "deployed", "Rollback to 1"),
    ]
    kinds = {document["kind"] for document in yaml.safe_load_all(release.ok("get", "manifest", "nf")) if document}
    assert {"Deployment", "Ingress", "NetworkPolicy", "Role", "RoleBinding", "PodDisruptionBudget"} < kinds

    release.ok("uninstall", "nf", *WAIT)
    left = {"configmap/nf-network-function-farewell", "pod/nf-network-function-reachable"}
    eventually(lambda: release.left() == left)  # hooks stay
    assert json.loads(release.ok("list", "-o", "json")) == []


def test_an_edge_fleet(release: Release) -> None:
    release.ok("install", "fleet", FLEET, "--create-namespace", *WAIT)
    assert release.get("daemonset", "fleet-agent")["status"]["numberAvailable"] == 2
    assert release.get("statefulset", "fleet-store")["status"]["readyReplicas"] == 2
    assert release.get("edgesite", "fleet")["spec"]["boxes"] == 2, "of a kind that the chart brings along"
    release.ok("upgrade", "fleet", FLEET, "--set", "image=copepod/micro:2,store.replicas=1", *WAIT)
    assert release.get("daemonset", "fleet-agent")["status"]["updatedNumberScheduled"] == 2
    assert release.get("statefulset", "fleet-store")["spec"]["replicas"] == 1
    release.ok("upgrade", "fleet", FLEET, "--reset-then-reuse-values", "--set", "cleanup.suspend=true")
    assert release.get("cronjob", "fleet-cleanup")["spec"]["suspend"] is True
    release.kubectl.ok("label", "edgesite", "fleet", "seen=yes")
    release.ok("upgrade", "fleet", FLEET, "--reset-then-reuse-values", "--set", "site.radio=20")
    site = release.get("edgesite", "fleet")
    assert [link["mbit"] for link in site["spec"]["links"]] == [100, 20]
    assert site["metadata"]["labels"]["seen"] == "yes"
    wrong = release.refused("upgrade", "fleet", FLEET, "--reset-then-reuse-values", "--set", "site.boxes=-1")
    assert "spec.boxes" in wrong
    release.ok("rollback", "fleet", "1", *WAIT)
    assert release.get("statefulset", "fleet-store")["status"]["readyReplicas"] == 2
    release.ok("uninstall", "fleet", *WAIT)
    eventually(lambda: not release.left())
    assert "fleet" not in " ".join(release.names("priorityclasses", "storageclasses"))
    assert release.names("edgesites") == set()
    assert release.names("crds") == {"customresourcedefinition.apiextensions.k8s.io/edgesites.edge.example.org"}


def test_the_chart_that_helm_itself_makes(release: Release, tmp_path: Path) -> None:
    """With all that it can switch on and that has a kind here."""
    release.ok("create", str(tmp_path / "scaffold"))
    options = ("--set", "autoscaling.enabled=true,ingress.enabled=true,image.tag=1", "--create-namespace")
    release.ok("install", "s", str(tmp_path / "scaffold"), *options, *WAIT)
    names = release.names("deployments", "horizontalpodautoscalers", "ingresses", "services", "serviceaccounts")
    assert {name.partition("/")[0] for name in names if name.endswith("/s-scaffold")} == {
        "deployment.apps",
        "horizontalpodautoscaler.autoscaling",
        "ingress.networking.k8s.io",
        "service",
        "serviceaccount",
    }
    release.ok("uninstall", "s", *WAIT)
    eventually(lambda: not release.left())


def test_what_would_happen(release: Release) -> None:
    release.kubectl.ok("create", "namespace", release.namespace)
    assert "kind: Deployment" in release.ok("template", "nf", FUNCTION, "--validate")
    assert "kind: Ingress" in release.ok("template", "nf", FUNCTION, "--dry-run=server")
    assert "pending-install" in release.ok("install", "nf", FUNCTION, "--dry-run=server")
    assert release.left() == set()


def _changed_outside(release: Release, how: str) -> None:
    """Installed, and then labelled and scaled by kubectl."""
    release.ok("install", "nf", FUNCTION, how, "--create-namespace", *WAIT)
    release.kubectl.ok("label", "deployment", "nf-network-function", "owner=someone")
    release.kubectl.ok("scale", "deployment", "nf-network-function", "--replicas=1")


def test_by_merging_in_three_ways_what_others_added_stays(release: Release) -> None:
    _changed_outside(release, "--server-side=false")
    release.ok("upgrade", "nf", FUNCTION, "--server-side=false", "--set", "image.tag=3", *WAIT)
    found = release.get("deployment", "nf-network-function")
    assert (found["spec"]["replicas"], found["metadata"]["labels"]["owner"]) == (2, "someone")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "copepod/micro:3"


def test_by_applying_who_wants_the_same_field_is_told_whose_it_is(release: Release) -> None:
    _changed_outside(release, "--server-side=true")
    refused = release.refused("upgrade", "nf", FUNCTION)
    assert 'conflict with \\"kubectl\\" with subresource \\"scale\\" using apps/v1: .spec.replicas' in refused
    release.ok("upgrade", "nf", FUNCTION, "--force-conflicts", *WAIT)
    found = release.get("deployment", "nf-network-function")
    assert (found["spec"]["replicas"], found["metadata"]["labels"]["owner"]) == (2, "someone")


def test_failures_are_told_and_taken_back(release: Release) -> None:
    assert "maximum: got 999, want 100" in release.refused("install", "nf", FUNCTION, "--set", "replicaCount=999")
    gone = release.refused("install", "nf", FUNCTION)
    assert "not found" in gone, "no namespace"
    release.kubectl.ok("create", "namespace", release.namespace)
    large = ("--set", "resources.requests.cpu=99,resources.limits.cpu=99")
    failed = release.refused("install", "nf", FUNCTION, *large, "--wait", "--timeout", "2s", "--rollback-on-failure")
    assert "deadline exceeded" in failed or "timed out" in failed
    assert json.loads(release.ok("list", "-o", "json")) == []
    release.ok("install", "nf", FUNCTION, *WAIT)
    assert "cannot reuse a name" in release.refused("install", "nf", FUNCTION)
    assert "invalid" in release.refused("upgrade", "nf", FUNCTION, "--set", "resources.requests.cpu=9")
    assert [status for _, status, _ in release.history("nf")] == ["deployed", "failed"]
    release.ok("upgrade", "nf", FUNCTION, "--install", *WAIT)
    release.kubectl.ok("create", "configmap", "other-network-function")
    assert "cannot be imported into the current release" in release.refused("install", "other", FUNCTION)
    release.ok("uninstall", "nf", "--keep-history")
    assert [status for _, status, _ in release.history("nf")][-1] == "uninstalled"
