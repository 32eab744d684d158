"""A second client library: kr8s, which learns from discovery what there is, and is asynchronous all through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import kr8s.asyncio
import pytest
from kr8s import NotFoundError, ServerError
from kr8s.asyncio.objects import ConfigMap, Deployment, Node, Pod, Service

from tests.support.livehub import LiveHub

# It says so of every server that is newer than itself.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")

NAMESPACE = "kr8s"
SECONDS = 60


@pytest.fixture
async def api(hub: LiveHub) -> AsyncIterator[Any]:
    made = await kr8s.asyncio.api(kubeconfig=str(hub.kubeconfig), namespace=NAMESPACE)
    namespace = await kr8s.asyncio.objects.Namespace(NAMESPACE, api=made)
    if not await namespace.exists():
        await namespace.create()
    yield made
    await made._session.aclose()


def manifest(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}} | more


def template(app: str) -> dict[str, Any]:
    container = {"name": "vm", "image": "copepod/micro:1", "command": ["sleep", "100000"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


async def test_discovery_version_and_who_i_am(api: Any) -> None:
    found = {(item["kind"], item["version"]) for item in await api.api_resources()}
    assert {("Pod", "v1"), ("Deployment", "apps/v1"), ("Lease", "coordination.k8s.io/v1")} <= found
    assert (await api.version())["major"] == "1"
    assert await api.whoami() == "admin"
    assert await api.lookup_kind("deploy") == ("deployment.apps/v1", "deployments", True)
    assert "v1" in [version async for version in api.api_versions()]


async def test_a_pod_s_life(api: Any) -> None:
    pod = await Pod(manifest("Pod", "tour", **{"spec": template("tour")["spec"]}), api=api)
    await pod.create()
    await pod.wait("condition=Ready", timeout=SECONDS)
    assert await pod.ready()
    await pod.label(tier="edge")
    await pod.annotate({"note": "hello"})
    assert (pod.labels["tier"], pod.annotations["note"]) == ("edge", "hello")
    await pod.patch({"metadata": {"labels": {"tier": "core"}}})
    await pod.patch([{"op": "remove", "path": "/metadata/labels/tier"}], type="json")
    assert "tier" not in pod.labels
    assert "ready" in "".join([line async for line in pod.logs()])
    assert [item.name async for item in api.get("pods", namespace=NAMESPACE, field_selector="metadata.name=tour")] == [
        "tour"
    ]
    await pod.delete()
    await pod.wait("delete", timeout=SECONDS)
    assert not await pod.exists()
    with pytest.raises(NotFoundError):
        await Pod.get("tour", namespace=NAMESPACE, api=api, timeout=0.1)


async def test_a_deployment_scales_and_names_its_pods(api: Any) -> None:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    deployment = await Deployment(manifest("Deployment", "web", spec=spec), api=api)
    await deployment.create()
    await deployment.wait("condition=Available", timeout=SECONDS)
    await deployment.scale(3)
    assert deployment.replicas == 3
    await deployment.wait("jsonpath='{.status.readyReplicas}'=3", timeout=SECONDS)
    assert len(await deployment.ready_pods()) == 3
    service = await Service(
        manifest("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}), api=api
    )
    await service.create()
    assert len(await service.ready_pods()) == 3
    await deployment.delete(propagation_policy="Foreground")
    await deployment.wait("delete", timeout=SECONDS)
    assert [pod async for pod in api.get("pods", namespace=NAMESPACE, label_selector="app=web")] == []


async def test_a_watch_follows_what_happens(api: Any) -> None:
    seen: list[tuple[str, str]] = []
    begun = asyncio.Event()

    async def follow() -> None:
        async for kind, item in api.watch("configmaps", namespace=NAMESPACE, label_selector="watched=yes"):
            seen.append((kind, item.name))
            begun.set()
            if kind == "DELETED":
                return

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        group.create_task(follow())
        maps = await ConfigMap(manifest("ConfigMap", "followed", data={"a": "1"}), api=api)
        maps.raw["metadata"]["labels"] = {"watched": "yes"}
        await maps.create()
        await begun.wait()
        await maps.patch({"data": {"a": "2"}})
        await maps.delete()
    assert seen == [("ADDED", "followed"), ("MODIFIED", "followed"), ("DELETED", "followed")]


async def test_nodes_are_cordoned_and_refusals_carry_the_status(api: Any) -> None:
    node = await Node.get("n2", api=api)
    await node.cordon()
    assert node.unschedulable
    await node.uncordon()
    pod = await Pod(manifest("Pod", "Bad_Name", spec=template("x")["spec"]), api=api)
    with pytest.raises(ServerError, match="a lowercase RFC 1123 subdomain"):
        await pod.create()
