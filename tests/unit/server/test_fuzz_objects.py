"""Random objects of every kind live a random life: no request of it is ever the server's fault (a 500)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeapi.resource import ResourceType
from tests.support.randomobjects import ANYTHING, KINDS, TEXTS, name_of, objects, plain
from tests.unit.server.conftest import MERGE, Answer, Api, running_api
from tests.unit.server.test_hostile import APPLY, JSON_PATCH, STRATEGIC

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FORMS = ("application/json", TABLE, "application/yaml", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
RANDOM = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
MANY = settings(RANDOM, max_examples=100, derandomize=False)
MANY_QUERIES = settings(MANY, max_examples=2000)


@dataclass
class Served:
    runner: asyncio.Runner
    api: Api

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        text = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        answer = self.runner.run(self.api.call(method, path, text, **more))
        assert answer.status < 500 or ahead(answer), (method, path, more, text, answer.body)
        assert answer.headers["Content-Type"]
        if answer.status >= 400:
            assert answer.body["kind"] == "Status"
            assert answer.body["code"] == answer.status
            assert answer.body["message"]
        return answer


def ahead(answer: Answer) -> bool:
    """Whether a revision was asked for that is still to come: a 504 in the reference, too."""
    causes = answer.body["details"].get("causes", []) if answer.status == 504 else []
    return [cause["reason"] for cause in causes] == ["ResourceVersionTooLarge"]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        yield Served(runner, runner.run(stack.enter_async_context(running_api())))
        runner.run(stack.aclose())


def collection(resource: ResourceType[Any]) -> str:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{base}/namespaces/demo/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"


POINTERS = st.lists(
    st.sampled_from(
        ["spec", "metadata", "status", "containers", "0", "-", "template", "labels", "a~1b", "~2", "", "²"]
    ),
    max_size=4,
).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": POINTERS},
        optional={"from": POINTERS, "value": ANYTHING},
    ),
    max_size=4,
)
DIRECTIVES = st.sampled_from(
    [
        {},
        {"$patch": "replace"},
        {"$patch": "delete"},
        {"$retainKeys": ["containers"]},
        {"$setElementOrder/containers": [{"name": "c1"}]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"$patch": 1},
        {"$retainKeys": {}},
    ]
)


def patched(body: Any, directive: dict[str, Any]) -> Any:
    if not isinstance(body, dict):
        return body
    spec = body.get("spec")
    return {**body, "spec": {**spec, **directive}} if isinstance(spec, dict) else {**body, **directive}


def life(served: Served, resource: ResourceType[Any], data: st.DataObject) -> None:
    path = collection(resource)
    item = f"{path}/{name_of(resource)}"
    if served.call("POST", path, data.draw(objects(resource))).status != 201:
        served.call("POST", path, plain(resource))
    looked_at(served, path, item)
    subs = [sub.name for sub in resource.subresources if sub.name != "log"]
    for where in (item, item + data.draw(st.sampled_from(["", *(f"/{name}" for name in subs)]))):
        served.call("PUT", where, data.draw(objects(resource)))
        wish = data.draw(objects(resource))
        served.call("PATCH", where, wish, content_type=MERGE)
        served.call("PATCH", where, patched(wish, data.draw(DIRECTIVES)), content_type=STRATEGIC)
        served.call("PATCH", where, data.draw(OPERATIONS), content_type=JSON_PATCH)
        served.call("PATCH", f"{where}?fieldManager=a", wish, content_type=APPLY)
        served.call("PATCH", f"{where}?fieldManager=b&force=1", data.draw(objects(resource)), content_type=APPLY)
        if where != item:
            served.call("POST", where, data.draw(objects(resource) | ANYTHING))
    looked_at(served, path, item)
    served.call("DELETE", item, {"gracePeriodSeconds": 0})
    served.call("PATCH", item, {"metadata": {"finalizers": None}}, content_type=MERGE)
    served.call("DELETE", item, {"gracePeriodSeconds": 0})


def looked_at(served: Served, path: str, item: str) -> None:
    for form in FORMS:
        served.call("GET", item, accept=form)
    served.call("GET", path, accept=TABLE)


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.key)
def test_lives_of_objects(served: Served, resource: ResourceType[Any]) -> None:
    RANDOM(given(st.data())(lambda data: life(served, resource, data)))()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.key)
def test_many_lives_of_objects(served: Served, resource: ResourceType[Any]) -> None:
    MANY(given(st.data())(lambda data: life(served, resource, data)))()


PARAMETERS = {
    "labelSelector": TEXTS | st.sampled_from(["a=b", "a in (b,c)", "!a", "a>1", "a>" + "9" * 5000, "a in (", ",,"]),
    "fieldSelector": TEXTS | st.sampled_from(["metadata.name=web", "spec.nodeName!=a", "status.phase=Running", "a=b"]),
    "limit": TEXTS | st.sampled_from(["0", "1", "-1", "500"]),
    "continue": TEXTS | st.binary(max_size=20).map(lambda raw: raw.hex()),
    "resourceVersion": TEXTS | st.sampled_from(["0", "1", "3", "999999"]),
    "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan", "", "x"]),
    "timeoutSeconds": st.sampled_from(["1", "-1", "x"]),
    "sendInitialEvents": st.sampled_from(["true", "false", "x", ""]),
    "allowWatchBookmarks": st.sampled_from(["true", "false", "x", ""]),
    "includeObject": st.sampled_from(["None", "Object", "Metadata", "x"]),
    "dryRun": st.sampled_from(["All", "x", ""]),
    "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    "fieldManager": TEXTS,
    "force": st.sampled_from(["true", "x", ""]),
    "gracePeriodSeconds": TEXTS,
    "propagationPolicy": st.sampled_from(["Orphan", "Foreground", "x", ""]),
    "orphanDependents": st.sampled_from(["true", "x"]),
    "pretty": TEXTS,
}
QUERIES = st.fixed_dictionaries({}, optional=PARAMETERS)


def asked(served: Served, resource: ResourceType[Any], query: dict[str, str], form: str, name: str) -> None:
    text = urlencode(query, errors="replace")
    path = collection(resource)
    served.call("POST", f"{path}?{text}", {"metadata": {"name": "web"}})
    served.call("GET", f"{path}?{text}", accept=form)
    served.call("GET", f"{path}/{name}?{text}", accept=form)
    served.call("PATCH", f"{path}/web?{text}", {}, content_type=MERGE)
    served.call("DELETE", f"{path}/web?{text}")
    if resource.plural != "namespaces":
        served.call("DELETE", f"{path}?{text}")


FORM_OF = st.sampled_from([*FORMS, "*/*;q=x", "application/json;as=Table;v=v2;g=meta.k8s.io", ""]) | TEXTS.filter(
    lambda text: text.isascii() and text.isprintable()
)
SEGMENTS = st.sampled_from(["web", "%00", "%2f", "%ff", "..", "%20", "a%0ab", "x" * 300, "%e2%80%8b", ":", "@"])


@settings(RANDOM, max_examples=100)
@given(st.sampled_from(KINDS), QUERIES, FORM_OF, SEGMENTS)
def test_queries(served: Served, resource: ResourceType[Any], query: dict[str, str], form: str, name: str) -> None:
    asked(served, resource, query, form, name)


@pytest.mark.long
@pytest.mark.timeout(1800)
@MANY_QUERIES
@given(st.sampled_from(KINDS), QUERIES, FORM_OF, SEGMENTS)
def test_many_queries(served: Served, resource: ResourceType[Any], query: dict[str, str], form: str, name: str) -> None:
    asked(served, resource, query, form, name)
