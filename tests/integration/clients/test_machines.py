"""Pods in Arktos' form by clients that do not know it: the official Python client's types cut `virtualMachine`, and an
older kubectl has never heard of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.support import kubectls, programs
from tests.support.livehub import LiveHub

NAMESPACE = "machines"
IMAGE = "copepod/micro:1"


def machine(**more: Any) -> dict[str, Any]:
    sizes = {"cpu": "250m", "memory": "96Mi"}
    resources = {"requests": sizes, "limits": sizes}
    return {"name": "vm", "image": IMAGE, "resources": resources, "userData": "I2Nsb3VkLWNvbmZpZw=="} | more


def pod(name: str) -> dict[str, Any]:
    spec = {"terminationGracePeriodSeconds": 0, "virtualMachine": machine()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def api(hub: LiveHub) -> Iterator[client.ApiClient]:
    configuration = client.Configuration()
    config.load_kube_config(str(hub.kubeconfig), client_configuration=configuration)
    with client.ApiClient(configuration) as made:
        client.CoreV1Api(made).create_namespace({"metadata": {"name": NAMESPACE}})
        yield made


@pytest.fixture
def plain(hub: LiveHub, api: client.ApiClient, tmp_path: Path) -> programs.Program:
    """What has no types of its own."""
    return kubectls.kubectl(kubectls.NEWEST, hub, tmp_path / "home", NAMESPACE)


@pytest.fixture(params=[kubectls.NEWEST, kubectls.OLDER])
def kubectl(request: pytest.FixtureRequest, hub: LiveHub, api: client.ApiClient, tmp_path: Path) -> programs.Program:
    return kubectls.kubectl(request.param, hub, tmp_path / "home", NAMESPACE)


def spec_of(plain: programs.Program, *what: str) -> Any:
    """As it is stored, not as the types have it."""
    return json.loads(plain.ok("get", *what, "-o", "json"))["spec"]


def in_step(spec: Any) -> Any:
    vm, (mirror,) = spec["virtualMachine"], spec["containers"]
    assert {key: vm[key] for key in ("name", "image", "resources")} == {
        key: mirror[key] for key in ("name", "image", "resources")
    }
    return vm


def test_typed_objects_go_out_and_come_in_again(api: client.ApiClient, plain: programs.Program) -> None:
    core = client.CoreV1Api(api)
    plain.ok("create", "-f", "-", stdin=json.dumps(pod("typed")))
    plain.ok("wait", "--for=condition=Ready", "pod/typed", "--timeout=60s")

    def stored() -> Any:
        return in_step(spec_of(plain, "pod", "typed"))

    def read(**labels: str) -> client.V1Pod:
        found = core.read_namespaced_pod("typed", NAMESPACE)
        found.metadata.resource_version = None  # its node writes, too
        found.metadata.labels = labels
        return found

    core.replace_namespaced_pod("typed", NAMESPACE, read(seen="yes"))
    assert stored() == stored() | machine()
    found = read()
    found.spec.containers[0].image = "copepod/micro:2"
    core.replace_namespaced_pod("typed", NAMESPACE, found)
    assert stored()["image"] == "copepod/micro:2"
    found = read()
    found.spec.containers[0].resources.limits = found.spec.containers[0].resources.requests = {
        "cpu": "700m",
        "memory": "96Mi",
    }
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_pod("typed", NAMESPACE, found)
    assert caught.value.status == 422
    core.replace_namespaced_pod_resize("typed", NAMESPACE, found)
    assert stored()["resources"]["limits"]["cpu"] == "700m"
    assert stored()["userData"] == machine()["userData"], "what the types do not have is kept"


def test_typed_templates_too(api: client.ApiClient, plain: programs.Program) -> None:
    apps = client.AppsV1Api(api)
    plain.ok("create", "-f", "-", stdin=json.dumps(deployment("typed")))
    found = apps.read_namespaced_deployment("typed", NAMESPACE)
    found.metadata.resource_version = None
    found.spec.replicas = 0
    found.spec.template.spec.containers[0].image = "copepod/micro:2"
    apps.replace_namespaced_deployment("typed", NAMESPACE, found)
    vm = in_step(spec_of(plain, "deployment", "typed")["template"]["spec"])
    assert (vm["image"], vm["userData"]) == ("copepod/micro:2", machine()["userData"])


def test_every_kubectl_applies_diffs_and_patches(kubectl: programs.Program) -> None:
    text = yaml.safe_dump(pod("applied"))
    assert kubectl.ok("apply", "-f", "-", stdin=text) == "pod/applied created\n"
    assert kubectl.ok("apply", "-f", "-", stdin=text) == "pod/applied unchanged\n"
    assert kubectl.ok("diff", "-f", "-", stdin=text) == ""
    larger = yaml.safe_dump(pod("applied")).replace("250m", "300m")
    assert kubectl.ok("apply", "-f", "-", stdin=larger) == "pod/applied configured\n"
    wish = json.dumps({"spec": {"virtualMachine": {"powerSpec": "Shutdown"}}})
    assert kubectl.ok("patch", "pod", "applied", "-p", wish) == "pod/applied patched\n"
    kubectl.ok(
        "wait",
        "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=PoweredOff",
        "pod/applied",
        "--timeout=60s",
    )
    wide = kubectl.ok("get", "pod", "applied", "-o", "wide", "--no-headers").split()
    assert wide[-2:] == ["300m/300m", "96Mi/96Mi"]
    kubectl.ok("delete", "pod", "applied", "--timeout=60s")
