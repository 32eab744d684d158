"""Server-side apply over HTTP, and who is noted as a writer of what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeapi.core import Pod
from tests.unit.server.conftest import MERGE, Answer, Api, pod, recording

APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/demo/pods"
MAPS = "/api/v1/namespaces/demo/configmaps"


async def apply(api: Api, path: str, body: Any, query: str = "fieldManager=me") -> Answer:
    return await api.call("PATCH", f"{path}?{query}", body, content_type=APPLY)


def config(name: str = "c", **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | more.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | more


def managers(answer: Answer) -> list[tuple[str, str, str]]:
    entries = answer.body["metadata"].get("managedFields", [])
    return [(item["manager"], item["operation"], item.get("subresource", "")) for item in entries]


async def test_the_recorded_conflict(recorded: Api) -> None:
    api = recorded
    shown = recording("get_b1_resize_subresource")["response"]
    await api.put_as_is(Pod.from_dict(shown))
    exchange = recording("conflict_b1_ssa")
    request = exchange["request"]
    answer = await api.call("PATCH", request["path"], request["body"], request["accept"], request["contentType"])
    assert (answer.status, answer.body) == (409, exchange["response"])
    forced = await apply(api, f"{PODS}/b1/resize", request["body"], "fieldManager=other&force=true")
    assert forced.status == 200
    assert forced.body["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "630m"
    assert managers(forced)[:2] == [("vpa", "Apply", "resize"), ("other", "Apply", "resize")]


async def test_apply_makes_and_changes_in_yaml_and_json(api: Api) -> None:
    made = await apply(api, f"{MAPS}/c", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n")
    assert (made.status, made.body["data"]) == (201, {"a": "1"})
    assert made.body["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-11-30T21:59:26Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]
    again = await apply(api, f"{MAPS}/c", config(data={"a": "1"}))
    assert (again.status, again.body) == (200, made.body), "nothing is written"
    changed = await apply(api, f"{MAPS}/c", config(data={"b": "2"}))
    assert (changed.status, changed.body["data"]) == (200, {"b": "2"})
    dry = await apply(api, f"{MAPS}/new", config("new"), "fieldManager=me&dryRun=All")
    assert dry.status == 201
    assert (await api.call("GET", f"{MAPS}/new")).status == 404


async def test_who_makes_an_object_by_applying_it_has_nobody_before_him(api: Api) -> None:
    """Kinds with parts that are owned as a whole, and that the type has even when nobody gave them."""
    path = "/apis/networking.k8s.io/v1/namespaces/demo/networkpolicies/p"
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}}
    made = await apply(api, path, policy | {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}})
    assert (made.status, managers(made)) == (201, [("me", "Apply", "")]), made.body
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/demo/rolebindings/b"
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"}}
    made = await apply(api, path, binding | {"roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}})
    assert (made.status, managers(made)) == (201, [("me", "Apply", "")]), made.body


async def test_who_scales_owns_the_number_of_replicas(api: Api) -> None:
    """And is named by the next conflict, as the reference names it."""
    path = "/apis/apps/v1/namespaces/demo/deployments/d"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    wish = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await apply(api, path, wish)
    query = "fieldManager=kubectl"
    scaled = await api.call("PATCH", f"{path}/scale?{query}", {"spec": {"replicas": 1}}, content_type=MERGE)
    assert (scaled.status, scaled.body["spec"]["replicas"]) == (200, 1)
    found = await api.call("GET", path)
    assert managers(found) == [("me", "Apply", ""), ("kubectl", "Update", "scale")]
    again = await apply(api, path, wish)
    conflict = 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas'
    assert (again.status, again.body["message"]) == (409, f"Apply failed with 1 conflict: {conflict}")


async def test_preconditions_of_an_apply(api: Api) -> None:
    made = await apply(api, f"{MAPS}/c", config(data={"a": "1"}))
    version, uid = made.body["metadata"]["resourceVersion"], made.body["metadata"]["uid"]
    stale = await apply(api, f"{MAPS}/c", config(metadata={"resourceVersion": "1"}, data={"a": "2"}))
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")
    assert "please apply your changes to the latest version" in stale.body["message"]
    other = await apply(api, f"{MAPS}/c", config(metadata={"uid": "other"}, data={"a": "2"}))
    assert other.body["message"].endswith(f"Precondition failed: UID in precondition: other, UID in object meta: {uid}")
    good = await apply(api, f"{MAPS}/c", config(metadata={"uid": uid, "resourceVersion": version}, data={"a": "2"}))
    assert good.status == 200
    ghost = await apply(api, f"{MAPS}/ghost", config("ghost", metadata={"uid": uid}))
    assert ghost.status == 409
    assert (
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        in (ghost.body["message"])
    )
    assert (await apply(api, f"{PODS}/ghost/status", {"apiVersion": "v1", "kind": "Pod"})).status == 404


@pytest.mark.parametrize(
    ("body", "query", "status", "message"),
    [
        (config(), "", 422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for'),
        (config(), "fieldManager=a%0Ab", 422, "invalid character U+000A (at position 1)"),
        (config(), "fieldManager=" + "x" * 129, 422, "fieldManager: Too long: may not be more than 128 bytes"),
        (config("d"), "fieldManager=m", 400, "the name of the object (d) does not match the name on the URL (c)"),
        (config("") | {"metadata": {}}, "fieldManager=m", 400, "was undeterminable: name must be provided"),
        (config(apiVersion="v2"), "fieldManager=m", 400, "Specified patch version: v2, expected: v1"),
        (config(kind="Pod"), "fieldManager=m", 400, "the kind in the patch (Pod)"),
        (config(metadata={"managedFields": []}), "fieldManager=m", 400, "metadata.managedFields must be nil"),
        (config(bogus=1), "fieldManager=m", 400, "(demo/c; /v1, Kind=ConfigMap): .bogus: field not declared in schema"),
        (config(data=[]), "fieldManager=m", 400, "failed to create typed patch object"),
        ("a: b: c", "fieldManager=m", 400, "error decoding YAML"),
        ("- a", "fieldManager=m", 400, "error decoding YAML"),
        ("", "fieldManager=m", 400, "error decoding YAML"),
        ("{", "fieldManager=m", 400, "error decoding YAML"),
    ],
)
async def test_mistakes(api: Api, body: Any, query: str, status: int, message: str) -> None:
    answer = await apply(api, f"{MAPS}/c", body, query)
    assert answer.status == status
    assert message in answer.body["message"]
    assert (await api.call("GET", f"{MAPS}/c")).status == 404


async def test_lists_that_cannot_be_merged(api: Api) -> None:
    def body(*containers: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}

    twice = await apply(api, f"{PODS}/p", body({"name": "c"}, {"name": "c"}))
    assert '.spec.containers: duplicate entries for key [name="c"]' in twice.body["message"]
    nameless = await apply(api, f"{PODS}/p", body({"image": "x"}))
    assert (
        '.spec.containers: element 0: associative list with keys has an element that omits key field "name"'
        in (nameless.body["message"])
    )
    assert (twice.status, nameless.status) == (400, 400)
    unknown = await apply(api, f"{PODS}/p", body({"name": "c", "x": 1, "resources": {"y": 2}}))
    assert unknown.body["message"] == (
        "failed to create typed patch object (demo/p; /v1, Kind=Pod): errors:\n"
        '  .spec.containers[name="c"].x: field not declared in schema\n'
        '  .spec.containers[name="c"].resources.y: field not declared in schema'
    )


async def test_an_amount_written_otherwise_is_no_conflict(api: Api) -> None:
    await api.objects.create(pod("p"))
    resources = {"requests": {"cpu": "0.25"}}
    body = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c1", "resources": resources}]}}
    answer = await apply(api, f"{PODS}/p", body)
    assert (answer.status, answer.body["spec"]["containers"][0]["resources"]["requests"]["cpu"]) == (200, "250m")


async def test_writers_are_noted(api: Api) -> None:
    body = json.dumps(config(data={"a": "1"}))
    made = await api.call("POST", f"{MAPS}?fieldManager=maker", body)
    assert managers(made) == [("maker", "Update", "")]
    changed = await api.call("PATCH", f"{MAPS}/c?fieldManager=hand", {"data": {"b": "2"}}, content_type=MERGE)
    assert managers(changed) == [("hand", "Update", ""), ("maker", "Update", "")]
    force = await api.call("PATCH", f"{MAPS}/c?force=true", {"data": {}}, content_type=MERGE)
    assert "force: Forbidden: may not be specified for non-apply patch" in force.body["message"]
    replaced = await api.call("PUT", f"{MAPS}/c", json.dumps(config(data={"b": "3"})))
    named = {name: entry["fieldsV1"] for name, entry in _by_manager(replaced).items()}
    assert named == {"Python": {"f:data": {"f:b": {}}}, "maker": {"f:data": {}}}
    reset = json.dumps([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])
    forgotten = await api.call("PATCH", f"{MAPS}/c", reset, content_type="application/json-patch+json")
    assert managers(forgotten) == []
    later = await api.call("PATCH", f"{MAPS}/c", {"data": {"b": "4"}}, content_type=MERGE)
    assert managers(later) == [], "untracked until an apply"
    refused = await apply(api, f"{MAPS}/c", config(data={"b": "5"}))
    assert 'conflict with "before-first-apply" using v1: .data.b' in refused.body["message"]


def _by_manager(answer: Answer) -> dict[str, Any]:
    return {item["manager"]: item for item in answer.body["metadata"]["managedFields"]}


async def test_nonsense_entries_change_nothing(api: Api) -> None:
    made = await api.call("POST", f"{MAPS}?fieldManager=maker", json.dumps(config(data={"a": "1"})))
    for value in ([{"manager": "x", "operation": "Steal"}], [], [{"operation": "Apply", "fieldsV1": {"x": 1}}]):
        patch = json.dumps([{"op": "replace", "path": "/metadata/managedFields", "value": value}])
        answer = await api.call("PATCH", f"{MAPS}/c", patch, content_type="application/json-patch+json")
        assert (answer.status, answer.body) == (200, made.body)


async def test_status_is_its_own_endpoint_s(api: Api) -> None:
    await api.objects.create(pod("p"))
    path = f"{PODS}/p/status?fieldManager=kubelet"
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}}
    answer = await api.call("PATCH", path, {**status, "metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    assert _by_manager(answer)["kubelet"]["fieldsV1"] == {
        "f:status": {
            "f:conditions": {
                'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}},
                ".": {},
            },
            "f:phase": {},
        }
    }
    body = {"apiVersion": "v1", "kind": "Pod", "status": {"message": "hello"}}
    applied = await apply(api, f"{PODS}/p/status", body)
    assert (applied.status, applied.body["status"]["message"]) == (200, "hello")
    assert ("me", "Apply", "status") in managers(applied)
    main = await apply(api, f"{PODS}/p", {**body, "status": {"message": "ignored"}})
    assert (main.status, main.body["status"]["message"]) == (200, "hello")
