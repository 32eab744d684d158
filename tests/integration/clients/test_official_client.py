"""The official Python client's basic tour, and how it comes back from what a server may say."""

from __future__ import annotations

import base64
import gc
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from queue import Queue
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes.stream import stream

from tests.support.livehub import LiveHub
from tests.support.programs import eventually

# Its clients leave sockets to the garbage collector, which is called here, where that is known.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)

NAMESPACE = "official"
NOT_READY = client.V1ContainerStatus(name="", image="", image_id="", ready=False, restart_count=0)


def container(**more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}}
    return {"name": "vm", "image": "copepod/micro:1", "command": ["sleep", "100000"], "resources": resources} | more


def pod(name: str, **labels: str) -> dict[str, Any]:
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container()]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container()]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(autouse=True)
def _leave_nothing() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def api(hub: LiveHub) -> Iterator[client.ApiClient]:
    configuration = client.Configuration()
    config.load_kube_config(str(hub.kubeconfig), client_configuration=configuration)
    with client.ApiClient(configuration) as made:
        client.CoreV1Api(made).create_namespace({"metadata": {"name": NAMESPACE}})
        yield made


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


def running(core: client.CoreV1Api, name: str) -> Any:
    def look() -> Any:
        found = core.read_namespaced_pod(name, NAMESPACE)
        return found if all(item.ready for item in found.status.container_statuses or [NOT_READY]) else None

    return eventually(look)


def test_create_list_read_and_delete(core: client.CoreV1Api) -> None:
    for number in range(3):
        made = core.create_namespaced_pod(NAMESPACE, pod(f"tour-{number}", tour="yes"))
        assert made.metadata.uid
        assert made.status.phase == "Pending"
    listed = core.list_namespaced_pod(NAMESPACE, label_selector="tour=yes", limit=2)
    assert [item.metadata.name for item in listed.items] == ["tour-0", "tour-1"]
    rest = core.list_namespaced_pod(NAMESPACE, label_selector="tour=yes", limit=2, _continue=listed.metadata._continue)
    assert [item.metadata.name for item in rest.items] == ["tour-2"]
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod("tour-0"))
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "AlreadyExists")
    assert running(core, "tour-0").spec.node_name in ("n1", "n2")
    core.delete_collection_namespaced_pod(NAMESPACE, label_selector="tour=yes")
    eventually(lambda: not core.list_namespaced_pod(NAMESPACE, label_selector="tour=yes").items)


def test_typed_objects_make_the_trip(core: client.CoreV1Api) -> None:
    spec = client.V1PodSpec(
        termination_grace_period_seconds=0,
        node_selector={"kubernetes.io/hostname": "n1"},
        tolerations=[client.V1Toleration(key="edge", operator="Exists")],
        containers=[client.V1Container(name="vm", image="copepod/micro:1", env=[client.V1EnvVar(name="A", value="1")])],
    )
    core.create_namespaced_pod(NAMESPACE, client.V1Pod(metadata=client.V1ObjectMeta(name="typed"), spec=spec))
    found = running(core, "typed")
    assert found.spec.containers[0].env == [client.V1EnvVar(name="A", value="1")]
    assert found.spec.node_name == "n1"
    assert found.status.container_statuses[0].state.running.started_at.tzinfo

    def replaced() -> Any:
        """A status may have come between."""
        newest = core.read_namespaced_pod("typed", NAMESPACE)
        newest.metadata.labels = {"replaced": "yes"}
        try:
            return core.replace_namespaced_pod("typed", NAMESPACE, newest)
        except ApiException as error:
            if error.status != 409:
                raise
            return None

    assert eventually(replaced).metadata.labels == {"replaced": "yes"}
    found.metadata.labels = {"replaced": "again"}
    with pytest.raises(ApiException, match="the object has been modified"):
        core.replace_namespaced_pod("typed", NAMESPACE, found)
    assert [node.metadata.name for node in core.list_node().items] == ["n1", "n2"]
    core.delete_namespaced_pod("typed", NAMESPACE, body=client.V1DeleteOptions(grace_period_seconds=0))


def test_patches_of_all_four_kinds(core: client.CoreV1Api, api: client.ApiClient) -> None:
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "patched"}, "data": {"a": "1", "b": "2"}})
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"a": "strategic"}})
    core.patch_namespaced_config_map("patched", NAMESPACE, [{"op": "replace", "path": "/data/b", "value": "json"}])
    merged = core.patch_namespaced_config_map(
        "patched", NAMESPACE, {"data": {"c": "merge"}}, _content_type="application/merge-patch+json"
    )
    assert merged.data == {"a": "strategic", "b": "json", "c": "merge"}
    applied = core.patch_namespaced_config_map(
        "patched",
        NAMESPACE,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}, "data": {"d": "apply"}},
        field_manager="tour",
        _content_type="application/apply-patch+yaml",
    )
    assert applied.data["d"] == "apply"
    assert "tour" in {entry.manager for entry in applied.metadata.managed_fields}
    with pytest.raises(ApiException, match="conflict with"):
        core.patch_namespaced_config_map(
            "patched",
            NAMESPACE,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}, "data": {"a": "mine"}},
            field_manager="tour",
            _content_type="application/apply-patch+yaml",
        )


def test_resize_in_place(core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, pod("resized"))
    running(core, "resized")
    wish = {"spec": {"containers": [{"name": "vm", "resources": {"requests": {"cpu": "300m"}}}]}}
    core.patch_namespaced_pod_resize("resized", NAMESPACE, wish)

    def done() -> bool:
        status = core.read_namespaced_pod("resized", NAMESPACE).status.container_statuses[0]
        return bool(status.resources.requests["cpu"] == "300m" and status.restart_count == 0)

    eventually(done)
    with pytest.raises(ApiException) as refused:
        core.patch_namespaced_pod_resize(
            "resized", NAMESPACE, {"spec": {"containers": [{"name": "vm", "resources": {"requests": {"cpu": "9"}}}]}}
        )
    causes = json.loads(refused.value.body)["details"]["causes"]
    assert causes[0]["field"] == "spec.containers[0].resources.requests"
    core.delete_namespaced_pod("resized", NAMESPACE)


def test_a_watch_sees_a_life(core: client.CoreV1Api) -> None:
    start = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.create_namespaced_pod(NAMESPACE, pod("watched", watched="yes"))
    running(core, "watched")
    core.delete_namespaced_pod("watched", NAMESPACE)
    seen: list[tuple[str, str]] = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_pod, NAMESPACE, label_selector="watched=yes", resource_version=start, timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].status.phase))
        if event["type"] == "DELETED":
            watching.stop()
    assert seen[0] == ("ADDED", "Pending")
    assert ("MODIFIED", "Running") in seen
    assert seen[-1][0] == "DELETED"


def test_after_410_a_client_lists_again(core: client.CoreV1Api, hub: LiveHub) -> None:
    """As an informer does: list, watch, and from the start when the server has forgotten where it was."""
    cache: dict[str, str] = {}
    old = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "lost"}, "data": {"a": "1"}})
    core.delete_namespaced_config_map("lost", NAMESPACE)
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "kept"}, "data": {"a": "1"}})
    hub.forget_history()
    with pytest.raises(ApiException) as expired:
        for _ in watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=old, timeout_seconds=10
        ):
            pass
    assert expired.value.status == 410
    assert "too old resource version" in expired.value.reason
    listed = core.list_namespaced_config_map(NAMESPACE)
    cache = {item.metadata.name: item.metadata.resource_version for item in listed.items}
    assert "kept" in cache
    assert "lost" not in cache
    core.patch_namespaced_config_map("kept", NAMESPACE, {"data": {"a": "2"}})
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version=listed.metadata.resource_version,
        timeout_seconds=20,
    ):
        assert (event["type"], event["object"].metadata.name, event["object"].data) == ("MODIFIED", "kept", {"a": "2"})
        watching.stop()


def test_deployments_and_propagation(api: client.ApiClient, core: client.CoreV1Api) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(NAMESPACE, deployment("web", 2))
    eventually(lambda: apps.read_namespaced_deployment("web", NAMESPACE).status.ready_replicas == 2)
    assert apps.read_namespaced_deployment_scale("web", NAMESPACE).spec.replicas == 2
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 1}})
    eventually(lambda: apps.read_namespaced_deployment("web", NAMESPACE).status.replicas == 1)
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Orphan")
    eventually(lambda: "web" not in {item.metadata.name for item in apps.list_namespaced_deployment(NAMESPACE).items})
    (orphan,) = apps.list_namespaced_replica_set(NAMESPACE, label_selector="app=web").items
    assert orphan.metadata.owner_references is None
    apps.delete_namespaced_replica_set(orphan.metadata.name, NAMESPACE, propagation_policy="Foreground")
    eventually(lambda: not apps.list_namespaced_replica_set(NAMESPACE, label_selector="app=web").items)
    assert not core.list_namespaced_pod(NAMESPACE, label_selector="app=web").items, "the pods went first"


def test_logs_and_eviction(core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, pod("talks"))
    running(core, "talks")
    assert "ready" in eventually(lambda: core.read_namespaced_pod_log("talks", NAMESPACE))
    assert core.read_namespaced_pod_log("talks", NAMESPACE, tail_lines=1).count("\n") == 1
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="talks", namespace=NAMESPACE))
    core.create_namespaced_pod_eviction("talks", NAMESPACE, eviction)
    eventually(lambda: "talks" not in {item.metadata.name for item in core.list_namespaced_pod(NAMESPACE).items})


def test_a_program_is_run_in_a_pod(core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, pod("host"))
    running(core, "host")
    for command, said, code in (("hostname", "host\n", 0), ("false", "", 1)):
        ran = stream(
            core.connect_get_namespaced_pod_exec,
            "host",
            NAMESPACE,
            command=[command],
            stdout=True,
            _preload_content=False,
        )
        with closing(ran):
            ran.run_forever(timeout=30)
            assert (ran.read_stdout(), ran.returncode) == (said, code)
    core.delete_namespaced_pod("host", NAMESPACE)


def test_tokens_of_accounts(core: client.CoreV1Api, hub: LiveHub) -> None:
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, asked).status.token
    claims = token.split(".")[1]
    payload = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert payload["sub"] == f"system:serviceaccount:{NAMESPACE}:robot"
    configuration = client.Configuration()
    config.load_kube_config(str(hub.kubeconfig), client_configuration=configuration)
    configuration.api_key, configuration.refresh_api_key_hook = {"authorization": f"Bearer {token}"}, None
    with client.ApiClient(configuration) as as_robot:
        review = client.AuthenticationV1Api(as_robot).create_self_subject_review({})
        assert review.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:robot"


def test_the_dynamic_client(api: client.ApiClient) -> None:
    made = dynamic.DynamicClient(api)
    assert made.version["kubernetes"]["major"] == "1"
    maps = made.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "dynamic"}, "data": {"a": "1"}}, namespace=NAMESPACE)
    assert maps.get(name="dynamic", namespace=NAMESPACE).data.a == "1"
    applied = maps.server_side_apply(
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"b": "2"}},
        name="dynamic",
        namespace=NAMESPACE,
        field_manager="tour",
    )
    assert applied.data.b == "2"
    deployments = made.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(namespace=NAMESPACE).kind == "DeploymentList"
    for event in maps.watch(namespace=NAMESPACE, name="dynamic", timeout=5):
        assert event["object"].metadata.name == "dynamic"
        break
    maps.delete(name="dynamic", namespace=NAMESPACE, body={})


def test_a_kind_of_one_s_own(api: client.ApiClient) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "maximum": 9}}},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"}
    spec = {"group": "py.example.org", "scope": "Namespaced", "names": names}
    definitions = client.ApiextensionsV1Api(api)
    definitions.create_custom_resource_definition(
        {
            "metadata": {"name": "gadgets.py.example.org"},
            "spec": spec | {"versions": [version | {"subresources": {"status": {}}}]},
        }
    )

    def established() -> bool:
        found = definitions.read_custom_resource_definition("gadgets.py.example.org")
        return any(item.type == "Established" and item.status == "True" for item in found.status.conditions or ())

    eventually(established)
    gadgets, place = client.CustomObjectsApi(api), ("py.example.org", "v1", NAMESPACE, "gadgets")
    body = {"apiVersion": "py.example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {}}
    made = gadgets.create_namespaced_custom_object(*place, body)
    assert made["spec"] == {"size": 1}
    patched = gadgets.patch_namespaced_custom_object(*place, "one", {"spec": {"size": 3}})
    assert (patched["spec"], patched["metadata"]["generation"]) == ({"size": 3}, 2)
    with pytest.raises(ApiException, match="should be less than or equal to 9"):
        gadgets.patch_namespaced_custom_object(*place, "one", {"spec": {"size": 99}})
    status = gadgets.patch_namespaced_custom_object_status(*place, "one", {"status": {"ready": True}, "spec": {}})
    assert status["status"] == {"ready": True}
    assert [item["metadata"]["name"] for item in gadgets.list_namespaced_custom_object(*place)["items"]] == ["one"]
    definitions.delete_custom_resource_definition("gadgets.py.example.org")

    def gone() -> bool:
        try:
            gadgets.get_namespaced_custom_object(*place, "one")
        except ApiException as error:
            return bool(error.status == 404)
        return False

    eventually(gone)


def test_one_leads_and_when_it_is_gone_the_other(hub: LiveHub) -> None:
    """Elected by a Lease, which the second finds held, and takes when it has not been renewed in its time."""
    config.load_kube_config(str(hub.kubeconfig))
    led: Queue[str] = Queue()

    def candidate(name: str) -> leaderelection.LeaderElection:
        def lead() -> None:
            led.put(name)
            raise RuntimeError("its work has failed, so it renews no more")

        lock = LeaseLock("leader", NAMESPACE, name)
        seconds = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 1}
        return leaderelection.LeaderElection(
            electionconfig.Config(lock, **seconds, onstarted_leading=lead, onstopped_leading=lambda: None)
        )

    for name in ("first", "second"):
        elected = threading.Thread(target=candidate(name).run)
        elected.start()
        assert led.get(timeout=30) == name
        elected.join(30)
    with client.ApiClient() as default:
        lease = client.CoordinationV1Api(default).read_namespaced_lease("leader", NAMESPACE)
    assert lease.spec.holder_identity == "second"
