"""Kinds that users define, over HTTP: how they come, what their objects are held to, how they go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

from kubeapi.clock import new_uid
from kubeapi.resources import REGISTRY
from kubeapi.server.app import create_app
from kubeapi.server.auth import StaticTokens
from kubeapi.server.namespaces import ensure_namespaces
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store
from tests.support.hub import until
from tests.unit.server.conftest import ADMIN, MERGE, Answer, Api, FixedClock

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.com"
OBJECTS = f"{GROUP}/v1/namespaces/default/things"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"

SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 1},
        "color": {"type": "string"},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
            },
        },
    },
}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> dict[str, Any]:
    status = {"type": "object", "properties": {"size": {"type": "integer"}, "labels": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": SPEC, "status": status}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}} | more


def definition(*versions: dict[str, Any], plural: str = "things", **spec: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": plural.removesuffix("s").title(), "shortNames": [plural[:2]]}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version(subresources={"status": {}})],
        }
        | spec,
    }


async def is_true(api: Api, condition: str, name: str = "things.example.com") -> bool:
    found = (await api.call("GET", f"{DEFINITIONS}/{name}")).body
    conditions = found.get("status", {}).get("conditions", [])
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)


async def define(api: Api, body: dict[str, Any]) -> None:
    name = body["metadata"]["name"]
    answer = await api.call("POST", DEFINITIONS, body)
    assert answer.status == 201, answer.body
    await until(lambda: is_true(api, "Established", name))


def thing(name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def make(api: Api, name: str = "one", **spec: Any) -> Any:
    answer = await api.call("POST", OBJECTS, thing(name, **spec))
    assert answer.status == 201, answer.body
    return answer.body


async def test_a_kind_comes_and_is_listed_everywhere(api: Api) -> None:
    assert (await api.call("GET", OBJECTS)).status == 404
    await define(api, definition())
    assert (await api.call("GET", OBJECTS)).body["kind"] == "ThingList"
    group = (await api.call("GET", GROUP)).body
    assert group["preferredVersion"]["groupVersion"] == "example.com/v1"
    resources = (await api.call("GET", f"{GROUP}/v1")).body["resources"]
    assert [item["name"] for item in resources] == ["things", "things/status"]
    assert resources[0]["shortNames"] == ["th"]
    index = (await api.call("GET", "/openapi/v3")).body["paths"]
    document = (await api.call("GET", index["apis/example.com/v1"]["serverRelativeURL"])).body
    schema = document["components"]["schemas"]["com.example.v1.Thing"]
    assert schema["properties"]["spec"]["properties"]["size"]["minimum"] == 1
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Thing"}]


async def test_objects_are_defaulted_pruned_and_validated(api: Api) -> None:
    await define(api, definition())
    made = await api.call(
        "POST", f"{OBJECTS}?fieldValidation=Warn", thing(color="red", bogus=1) | {"status": {"size": 9}}
    )
    assert made.status == 201
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.bogus\\""'
    assert made.body["spec"] == {"color": "red", "size": 1}
    assert "status" not in made.body
    assert made.body["metadata"]["generation"] == 1
    strict = await api.call("POST", f"{OBJECTS}?fieldValidation=Strict", thing("two", bogus=1))
    assert strict.status == 400
    assert strict.body["message"].endswith('strict decoding error: unknown field "spec.bogus"')
    wrong = await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"size": 0, "color": 5}}, content_type=MERGE)
    assert wrong.status == 422
    assert {item["field"] for item in wrong.body["details"]["causes"]} == {"spec.color", "spec.size"}
    assert wrong.body["details"]["kind"] == "Thing"
    removed = await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"color": None}}, content_type=MERGE)
    assert removed.body["spec"] == {"size": 1}
    assert removed.body["metadata"]["generation"] == 2
    refused = await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"size": 2}}, content_type=STRATEGIC)
    assert refused.status == 415
    assert "application/merge-patch+json" in refused.body["message"]


async def test_the_status_is_written_by_its_subresource_only(api: Api) -> None:
    await define(api, definition())
    made = await make(api, size=1)
    await api.call("PUT", f"{OBJECTS}/one", made | {"status": {"size": 5}})
    status = await api.call("PUT", f"{OBJECTS}/one/status", made | {"spec": {"size": 9}, "status": {"size": 5}})
    assert status.body["spec"] == {"size": 1}
    assert status.body["status"] == {"size": 5}
    assert status.body["metadata"]["generation"] == 1
    replaced = await api.call("PUT", f"{OBJECTS}/one", thing(size=2))
    assert (replaced.body["status"], replaced.body["metadata"]["generation"]) == ({"size": 5}, 2)
    wrong = await api.call("PATCH", f"{OBJECTS}/one/status", {"status": {"size": "x"}}, content_type=MERGE)
    assert wrong.status == 422


async def test_scale_reads_and_writes_the_fields_it_is_told(api: Api) -> None:
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.labels",
    }
    await define(api, definition(version(subresources={"status": {}, "scale": scale})))
    await make(api, size=2)
    await api.call("PATCH", f"{OBJECTS}/one/status", {"status": {"size": 1, "labels": "a=b"}}, content_type=MERGE)
    found = (await api.call("GET", f"{OBJECTS}/one/scale")).body
    assert found["spec"] == {"replicas": 2}
    assert found["status"] == {"replicas": 1, "selector": "a=b"}
    scaled = await api.call("PATCH", f"{OBJECTS}/one/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert scaled.body["spec"] == {"replicas": 5}
    assert (await api.call("GET", f"{OBJECTS}/one")).body["spec"]["size"] == 5


async def test_columns_and_selectable_fields(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Odd", "type": "date", "jsonPath": ".spec.color"},
    ]
    fields = [{"jsonPath": ".spec.color"}]
    await define(api, definition(version(additionalPrinterColumns=columns, selectableFields=fields)))
    await make(api, "red", size=3, color="red")
    await make(api, "plain")
    table = (await api.call("GET", OBJECTS, accept=TABLE)).body
    assert [item["name"] for item in table["columnDefinitions"]] == ["Name", "Size", "Color", "Made", "Odd"]
    assert [row["cells"] for row in table["rows"]] == [
        ["plain", 1, None, "0s", None],
        ["red", 3, "red", "0s", "<invalid>"],
    ]
    chosen = (await api.call("GET", f"{OBJECTS}?fieldSelector=spec.color=red")).body["items"]
    assert [item["metadata"]["name"] for item in chosen] == ["red"]
    assert (await api.call("GET", f"{OBJECTS}?fieldSelector=spec.size=3")).status == 400


async def test_server_side_apply_merges_lists_by_their_keys(api: Api) -> None:
    await define(api, definition())

    async def apply(who: str, force: str = "", **spec: Any) -> Answer:
        return await api.call("PATCH", f"{OBJECTS}/one?fieldManager={who}{force}", thing(**spec), content_type=APPLY)

    assert (await apply("ann", parts=[{"name": "a", "value": 1}])).status == 201
    both = await apply("bob", parts=[{"name": "b", "value": 2}])
    assert both.body["spec"]["parts"] == [{"name": "a", "value": 1}, {"name": "b", "value": 2}]
    conflict = await apply("bob", parts=[{"name": "a", "value": 3}])
    assert conflict.status == 409
    assert conflict.body["details"]["causes"][0]["field"] == '.spec.parts[name="a"].value'
    forced = await apply("bob", "&force=true", parts=[{"name": "a", "value": 3}])
    assert forced.body["spec"]["parts"] == [{"name": "a", "value": 3}]
    stray = await apply("ann", bogus=1)
    assert stray.status == 400
    assert ".spec.bogus: field not declared in schema" in stray.body["message"]


async def test_several_versions_show_the_same_objects(api: Api) -> None:
    await define(api, definition(version("v1beta1", storage=False, deprecated=True), version("v1")))
    assert [item["version"] for item in (await api.call("GET", GROUP)).body["versions"]] == ["v1", "v1beta1"]
    old = OBJECTS.replace("v1", "v1beta1")
    made = await api.call("POST", old, thing(size=3) | {"apiVersion": "example.com/v1beta1"})
    assert made.body["apiVersion"] == "example.com/v1beta1"
    assert made.headers["Warning"] == '299 - "example.com/v1beta1 Thing is deprecated"'
    assert (await api.call("GET", f"{OBJECTS}/one")).body["apiVersion"] == "example.com/v1"
    same = await api.call("PUT", f"{old}/one", made.body)
    assert same.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]
    assert (await api.call("POST", OBJECTS, thing())).status == 409
    listed = (await api.call("GET", old)).body
    assert (listed["apiVersion"], len(listed["items"])) == ("example.com/v1beta1", 1)
    await define_again(api, definition(version("v1beta1", storage=False, served=False), version("v1")))
    await until(lambda: answers(api, old, 404))
    assert (await api.call("GET", f"{OBJECTS}/one")).status == 200


async def answers(api: Api, path: str, status: int) -> bool:
    return (await api.call("GET", path)).status == status


async def define_again(api: Api, body: dict[str, Any]) -> Answer:
    return await api.call("PATCH", f"{DEFINITIONS}/{body['metadata']['name']}", body, content_type=MERGE)


async def test_a_changed_schema_is_in_force_at_once(api: Api) -> None:
    await define(api, definition())
    await make(api, color="red")
    changed = version(subresources={"status": {}})
    spec = changed["schema"]["openAPIV3Schema"]["properties"]["spec"]
    changed["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        **spec,
        "properties": {**spec["properties"], "extra": {"type": "string", "default": "new"}},
    }
    assert (await define_again(api, definition(changed))).status == 200

    async def in_force() -> bool:
        answer = await api.call("POST", f"{OBJECTS}?dryRun=All", thing("probe"))
        return bool(answer.body["spec"].get("extra") == "new")

    await until(in_force)
    fixed = await define_again(api, definition(changed, scope="Cluster"))
    assert fixed.status == 422
    assert fixed.body["details"]["causes"][0]["field"] == "spec.scope"
    gone = await define_again(api, definition(version("v2")))
    assert gone.body["details"]["causes"][0]["message"] == 'Invalid value: "v1": must appear in spec.versions'


async def test_objects_go_with_their_kind(api: Api) -> None:
    """One that a finalizer holds is waited for; meanwhile nothing new is made."""
    await define(api, definition())
    await make(api, "plain")
    held = thing("held")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    await api.call("POST", OBJECTS, held)
    deleted = await api.call("DELETE", f"{DEFINITIONS}/things.example.com")
    assert deleted.body["metadata"]["deletionTimestamp"]
    await until(lambda: is_true(api, "Terminating"))
    await until(lambda: answers(api, f"{OBJECTS}/plain", 404))
    assert (await api.call("POST", OBJECTS, thing("late"))).status == 405
    await api.call("PATCH", f"{OBJECTS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await until(lambda: answers(api, f"{DEFINITIONS}/things.example.com", 404))
    await until(lambda: answers(api, OBJECTS, 404))
    await define(api, definition())
    assert (await api.call("GET", OBJECTS)).body["items"] == []


async def test_a_namespace_takes_its_custom_objects_with_it(api: Api) -> None:
    await define(api, definition())
    await api.call("POST", OBJECTS.replace("default", "demo"), thing())
    await api.call("DELETE", "/api/v1/namespaces/demo")
    await until(lambda: answers(api, "/api/v1/namespaces/demo", 404))
    assert (await api.call("GET", f"{GROUP}/v1/things")).body["items"] == []


async def test_names_that_are_taken(api: Api) -> None:
    built_in = definition(group="apps", names={"plural": "deployments", "kind": "Deployment"})
    built_in["metadata"]["name"] = "deployments.apps"
    refused = await api.call("POST", DEFINITIONS, built_in)
    assert refused.status == 422
    assert "deployments.apps is built into this server" in refused.body["message"]
    await define(api, definition())
    other = definition(plural="thongs", names={"plural": "thongs", "kind": "Thing"})
    await api.call("POST", DEFINITIONS, other)

    async def conflict() -> bool:
        found = (await api.call("GET", f"{DEFINITIONS}/thongs.example.com")).body
        return any(item["reason"] == "ListKindConflict" for item in found["status"].get("conditions", []))

    await until(conflict)
    assert await answers(api, OBJECTS.replace("things", "thongs"), 404)
    await api.call("DELETE", f"{DEFINITIONS}/things.example.com")
    await until(lambda: is_true(api, "Established", "thongs.example.com"))
    assert await answers(api, OBJECTS.replace("things", "thongs"), 200)


async def test_watchers_see_custom_objects(api: Api) -> None:
    await define(api, definition())
    start = (await api.call("GET", OBJECTS)).body["metadata"]["resourceVersion"]
    await make(api, size=2)
    await api.call("DELETE", f"{OBJECTS}/one")
    seen = (await api.call("GET", f"{OBJECTS}?watch=1&timeoutSeconds=1&resourceVersion={start}")).body
    assert [(item["type"], item["object"]["spec"]["size"]) for item in seen] == [("ADDED", 2), ("DELETED", 2)]


async def test_kinds_outlive_a_restart(tmp_path: Path) -> None:
    """S-80's kind: what was established is served from the first request on."""
    clock = FixedClock(datetime(2026, 12, 1, tzinfo=UTC))
    for life in ("first", "second"):
        store = await open_store(tmp_path / "store.db")
        objects = StoreObjects(store, REGISTRY, clock, new_uid)
        await ensure_namespaces(objects)
        app = create_app(objects, StaticTokens({"secret": ADMIN}))
        async with TestClient(TestServer(app), timeout=aiohttp.ClientTimeout(total=30)) as client:
            api = Api(objects, client, clock)
            if life == "first":
                await define(api, definition())
                await make(api, size=7)
            else:
                assert (await api.call("GET", f"{OBJECTS}/one")).body["spec"] == {"size": 7}
        await store.close()


async def test_objects_of_a_kind_that_nobody_is_served_any_more_go_as_well(api: Api) -> None:
    await define(api, definition())
    await make(api)
    await define_again(api, definition(version(served=False)))
    await until(lambda: answers(api, OBJECTS, 404))
    await api.call("DELETE", f"{DEFINITIONS}/things.example.com")
    await until(lambda: answers(api, f"{DEFINITIONS}/things.example.com", 404))
    await define(api, definition())
    assert (await api.call("GET", OBJECTS)).body["items"] == []
