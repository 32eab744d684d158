"""Bad input is refused with a Status that says why: never a 500, never a stack trace."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.server.conftest import MERGE, Api, pod, running_api

PODS = "/api/v1/namespaces/demo/pods"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
DEEP = '{"a":' * 5000 + "1" + "}" * 5000
LONG = "9" * 5000
YAML = "application/yaml"


def nested(levels: int) -> Any:
    return json.loads('{"a":' * levels + "1" + "}" * levels)


def pushed_deeper(times: int) -> list[dict[str, Any]]:
    """Each operation is shallow, what they make together is not."""
    return [{"op": "add", "path": "/spec/x" + "/a" * 90 * i, "value": nested(90)} for i in range(times)]


ALIASES = "a: &a [x]\nb: &b [*a, *a]\nmetadata: {name: x}\n"

BODIES: list[tuple[str, Any, str | None]] = [
    ("POST", "", None),
    ("POST", "null", None),
    ("POST", "[]", None),
    ("POST", '"text"', None),
    ("POST", "{not json", None),
    ("POST", b"\xff\xfe", None),
    ("POST", DEEP, None),
    ("POST", "[" * 100_000, None),
    ("POST", DEEP, "application/yaml"),
    ("POST", ALIASES, "application/yaml"),
    ("POST", "a: [b", "application/yaml"),
    ("POST", "? [1, 2]\n: x\n", "application/yaml"),
    ("POST", "!!python/object/apply:os.system [ls]", "application/yaml"),
    ("POST", "metadata: !!bool x", YAML),
    ("POST", "metadata: !!int x", YAML),
    ("POST", "metadata: !!int ''", YAML),
    ("POST", "metadata: !!timestamp x", YAML),
    ("POST", "metadata: !!binary gICA", YAML),
    ("POST", "metadata: !!set {a, b}", YAML),
    ("POST", "metadata: {<<: {name: x}}", YAML),
    ("POST", "metadata: {name: .nan}", YAML),
    ("POST", f"metadata: {{name: {LONG}}}", YAML),
    ("POST", "{null: x}", YAML),
    ("POST", "{[a]: x}", YAML),
    ("POST", "a: b\n---\na: b\n", YAML),
    ("POST", "[" + "1," * 200_000 + "1]", YAML),
    ("POST", b"\x00", YAML),
    ("POST", b"a: \xff", YAML),
    ("POST", '{"metadata": {"name": "\\ud800"}}', None),
    ("POST", '{"metadata": {"name": "\\u0000"}}', None),
    ("POST", '{"metadata": {"name": "x", "generation": 1e999}}', None),
    ("POST", '{"metadata": {"name": "x", "generation": 99999999999999999999}}', None),
    ("POST", {"kind": "Node", "apiVersion": "v1"}, None),
    ("POST", {"kind": "Pod", "apiVersion": "v9"}, None),
    ("POST", {"metadata": "x"}, None),
    ("POST", {"metadata": {"labels": {"a": 1}}}, None),
    ("POST", {"metadata": {"name": "x", "namespace": "other"}}, None),
    ("POST", {"metadata": {"name": "x"}, "spec": {"containers": {}}}, None),
    ("POST", {"metadata": {"name": "x"}, "spec": {"containers": [None]}}, None),
    ("POST", {"metadata": {"name": 1}}, None),
    ("POST", {"metadata": {"generateName": "x" * 1000}}, None),
    ("POST", b"k8s\x00", "application/vnd.kubernetes.protobuf"),
    ("POST", b"k8s\x00\x0a\xff\xff\xff\xff\x0f", "application/vnd.kubernetes.protobuf"),
    ("POST", b"nonsense", "application/vnd.kubernetes.protobuf"),
    ("POST", "<xml/>", "application/xml"),
    ("PUT", {"metadata": {"name": "other"}}, None),
    ("PUT", {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {}}, None),
    ("PUT", {"metadata": {"name": "web", "uid": "x"}, "spec": {}}, None),
    ("PATCH", "{}", None),
    ("PATCH", "[]", MERGE),
    ("PATCH", "1", STRATEGIC),
    ("PATCH", DEEP, MERGE),
    ("PATCH", {"metadata": None}, MERGE),
    ("PATCH", {"metadata": []}, MERGE),
    ("PATCH", {"spec": {"containers": [{"image": "x"}]}}, STRATEGIC),
    ("PATCH", {"spec": {"containers": [[]]}}, STRATEGIC),
    ("PATCH", {"spec": {"$patch": "delete"}}, STRATEGIC),
    ("PATCH", {"metadata": {"resourceVersion": "1"}}, MERGE),
    ("PATCH", {"metadata": {"resourceVersion": "x"}}, MERGE),
    ("PATCH", {"metadata": {"resourceVersion": 7}}, MERGE),
    ("PATCH", [{"op": "remove", "path": "/nothing"}], JSON_PATCH),
    ("PATCH", [{"op": "move"}], JSON_PATCH),
    ("PATCH", [{"op": "remove", "path": "/spec/containers/²"}], JSON_PATCH),
    ("PATCH", [{"op": "remove", "path": f"/spec/containers/{LONG}"}], JSON_PATCH),
    ("PATCH", pushed_deeper(3), JSON_PATCH),
    ("PATCH", pushed_deeper(40), JSON_PATCH),
    ("PATCH", [*pushed_deeper(20), {"op": "copy", "from": "/spec/x", "path": "/spec/y"}], JSON_PATCH),
    ("PATCH", {"metadata": {"resourceVersion": LONG}}, MERGE),
    ("PATCH", [1], JSON_PATCH),
    ("PATCH", {}, JSON_PATCH),
    ("PATCH", [{"op": "replace", "path": "", "value": 1}], JSON_PATCH),
    ("PATCH", [{"op": "copy", "from": "/spec", "path": "/spec/x"}] * 2000, JSON_PATCH),
    ("PATCH", [{"op": "copy", "from": "/spec", "path": f"/spec/x{i}"} for i in range(40)], JSON_PATCH),
    ("PATCH", {"metadata": {"name": "other"}}, MERGE),
    ("PATCH", {"metadata": {"namespace": "default"}}, MERGE),
    ("DELETE", {"gracePeriodSeconds": "x"}, None),
    ("DELETE", {"preconditions": {"uid": "x"}}, None),
    ("DELETE", {"preconditions": {"uid": 1}}, None),
    ("DELETE", {"preconditions": []}, None),
    ("DELETE", {"dryRun": ["Some"]}, None),
    ("DELETE", "[]", None),
]


@pytest.mark.parametrize(("method", "body", "content_type"), BODIES)
async def test_bodies(api: Api, method: str, body: Any, content_type: str | None) -> None:
    created = await api.objects.create(pod("web"))
    path = PODS if method == "POST" else f"{PODS}/web"
    answer = await api.call(method, path, body, content_type=content_type)
    assert 400 <= answer.status < 500, answer.body
    assert answer.body["kind"] == "Status"
    assert answer.body["message"]
    assert len(answer.body["message"]) < 20_000
    assert await api.objects.get(type(created), "demo", "web") == created


@pytest.mark.parametrize(
    "query",
    [
        "limit=x",
        "limit=99999999999999999999",
        "continue=x",
        "continue=e30",
        "continue=bnVsbA",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersion=²",
        f"resourceVersion={LONG}",
        f"limit={LONG}",
        f"watch=1&timeoutSeconds={LONG}",
        f"watch=1&resourceVersion={LONG}",
        "resourceVersion=99999999999999999999",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Sometimes&resourceVersion=1",
        "resourceVersionMatch=Exact",
        "labelSelector=((",
        "labelSelector=a in",
        "fieldSelector=bogus=1",
        "fieldSelector===",
        "watch=1&timeoutSeconds=x",
        "watch=1&sendInitialEvents=true",
        "watch=1&labelSelector=((",
    ],
)
async def test_queries(api: Api, query: str) -> None:
    answer = await api.call("GET", f"{PODS}?{query}")
    assert answer.status in (400, 422), answer.body
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v2/pods", 404),
        ("/apis/none/v1/things", 404),
        ("/api/v1//pods", 404),
        ("/api/v1/namespaces/demo/pods/a/b/c", 404),
        ("/api/v1/namespaces/demo/nodes", 404),
        ("/api/v1/pods/web", 404),
        ("/api/v1/namespaces/demo/pods/%2e%2e%2fx", 404),
        ("/api/v1/namespaces/demo/pods/x/nonsense", 404),
        ("/openapi/v3/apis/none", 404),
        ("/nothing", 404),
    ],
)
async def test_paths(api: Api, path: str, status: int) -> None:
    answer = await api.call("GET", path)
    assert (answer.status, answer.body["kind"]) == (status, "Status")


async def test_methods_that_make_no_sense(api: Api) -> None:
    for method, path in (
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
        ("DELETE", "/api/v1/namespaces"),
        ("PATCH", PODS),
        ("GET", f"{PODS}/web/binding"),
    ):
        answer = await api.call(method, path, "{}")
        assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed"), (method, path)


async def test_size_limit_holds_for_what_is_unpacked_too(api: Api) -> None:
    big = json.dumps({"metadata": {"name": "x", "annotations": {"a": "x" * 4_000_000}}}).encode()
    headers = {"Authorization": "Bearer secret"}
    async with api.client.post(PODS, data=io.BytesIO(big), headers=headers) as plain:
        assert (plain.status, (await plain.json())["reason"]) == (413, "RequestEntityTooLarge")
    headers["Content-Encoding"] = "gzip"
    async with api.client.post(PODS, data=gzip.compress(big), headers=headers) as packed:
        assert (packed.status, (await packed.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_who_is_not_known_gets_nothing(api: Api) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic c2VjcmV0"},
        {"Authorization": "Bearer \xff"},
    ):
        async with api.client.get(PODS, headers=headers) as response:
            assert response.status == 401
            assert (await response.json())["reason"] == "Unauthorized"
    async with api.client.get("/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")
    for endpoint in ("healthz", "readyz"):
        async with api.client.get(f"/{endpoint}?verbose") as response:
            assert (await response.text()).endswith(f"{endpoint} check passed\n")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "containers",
                    "name",
                    "labels",
                    "resources",
                    "limits",
                    "cpu",
                    "$patch",
                    "env",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.sampled_from([MERGE, STRATEGIC, JSON_PATCH, APPLY, None]), st.sampled_from(["", "/status", "/resize"]), _JSON)
def test_random_bodies_never_break_it(content_type: str | None, subresource: str, body: Any) -> None:
    async def run() -> None:
        async with running_api() as api:
            await api.objects.create(pod("web"))
            if content_type:
                path = f"{PODS}/web{subresource}" + ("?fieldManager=x" if content_type == APPLY else "")
                named = {"apiVersion": "v1", "kind": "Pod"} | body if isinstance(body, dict) else body
                sent = named if content_type == APPLY else body
                answer = await api.call("PATCH", path, json.dumps(sent), content_type=content_type)
            else:
                answer = await api.call("POST", PODS, json.dumps(body))
            assert answer.status < 500, (body, answer.body)

    asyncio.run(run())
