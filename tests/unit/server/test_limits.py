"""Large requests: what is refused by size, and that what is allowed costs no more than its size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubeapi import fieldset
from kubeapi.server import framing, responses
from kubeapi.strategic import strategic_merge
from tests.unit.server.conftest import MERGE, Api, pod
from tests.unit.server.test_hostile import APPLY, JSON_PATCH, PODS, STRATEGIC, YAML

MANY = framing.MAX_ITEMS - 1
CONFIGMAPS = "/api/v1/namespaces/demo/configmaps"


def many(count: int = MANY) -> list[dict[str, Any]]:
    return [{"name": f"a{number}", "value": "b"} for number in range(count)]


def with_env(env: Any, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c1", "image": "tiny", "env": env}
    return {"metadata": {"name": "big", **metadata}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("method", "body", "content_type", "says"),
    [
        ("POST", with_env(many(MANY + 2)), None, "a list of 10001 items; limit is 10000"),
        ("POST", with_env([], labels={str(n): "" for n in range(100_000)}), None, "more values than 100000"),
        ("POST", with_env([1] * 500_000), None, "a list of 500000 items; limit is 10000"),
        ("PATCH", with_env(many(MANY + 2)), STRATEGIC, "a list of 10001 items; limit is 10000"),
        ("PATCH", with_env(many(MANY + 2)), MERGE, "a list of 10001 items; limit is 10000"),
        ("PATCH", [{"op": "test"}] * 10_001, JSON_PATCH, "The allowed maximum operations in a JSON patch is 10000"),
        ("POST", with_env([{"name": "a", "value": "x" * 1_600_000}]), None, "limit is 1572864"),
    ],
)
async def test_more_than_any_object_needs_is_refused(
    api: Api, method: str, body: Any, content_type: str | None, says: str
) -> None:
    await api.objects.create(pod("web"))
    answer = await api.call(method, PODS if method == "POST" else f"{PODS}/web", body, content_type=content_type)
    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert says in answer.body["message"]


async def test_annotations_and_config_maps_are_refused_in_the_references_words(api: Api) -> None:
    answer = await api.call("POST", PODS, with_env([], annotations={"a": "x" * 300_000}))
    assert (answer.status, answer.body["details"]["causes"][0]["message"]) == (
        422,
        "Too long: may not be more than 262144 bytes",
    )
    answer = await api.call("POST", CONFIGMAPS, {"metadata": {"name": "cm"}, "data": {"a": "x" * 1_100_000}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def entries(count: int) -> list[dict[str, Any]]:
    common = {"operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    return [
        {"manager": f"m{number}", **common, "fieldsV1": {"f:spec": {f"f:x{number}": {}}}} for number in range(count)
    ]


async def test_thousands_of_managers_become_few(api: Api) -> None:
    answer = await api.call("POST", PODS, with_env([], managedFields=entries(9000)))
    assert answer.status == 201
    assert len(answer.body["metadata"]["managedFields"]) <= 11
    oldest = next(entry for entry in answer.body["metadata"]["managedFields"] if entry["manager"] == "ancient-changes")
    assert len(oldest["fieldsV1"]["f:spec"]) > 8000


@pytest.mark.parametrize("content_type", [STRATEGIC, MERGE, APPLY, JSON_PATCH])
async def test_thousands_of_items_are_patched_in_time_that_grows_as_they_do(api: Api, content_type: str) -> None:
    """A quadratic step anywhere takes longer than the client waits."""
    await api.objects.create(pod("web"))
    body: Any = with_env(many(), name="web") | {"apiVersion": "v1", "kind": "Pod"}
    if content_type == JSON_PATCH:
        body = [{"op": "add", "path": "/spec/containers/0", "value": item} for item in many()]
    query = "?fieldManager=x" if content_type == APPLY else ""
    answer = await api.call("PATCH", f"{PODS}/web{query}", json.dumps(body), content_type=content_type)
    assert answer.status in (409, 413, 422), answer.body


def test_strategic_lists_keep_order_and_directives_whatever_their_length() -> None:
    old = [{"name": f"a{number}"} for number in range(MANY)]
    patch = {
        "env": [{"name": "a1", "$patch": "delete"}, {"name": "new"}, {"name": "a5", "value": "x"}],
        "$deleteFromPrimitiveList/finalizers": [f"f{number}" for number in range(MANY)],
    }
    merged = strategic_merge({"env": old, "finalizers": [f"f{number}" for number in range(MANY + 1)]}, patch)
    assert len(merged["env"]) == MANY
    assert {"name": "a1"} not in merged["env"]
    assert {"name": "a5", "value": "x"} in merged["env"]
    assert merged["finalizers"] == [f"f{MANY}"]


def test_a_union_of_many_sets_is_that_of_all() -> None:
    sets = [{f"f:{number}": {"f:x": {}}} for number in range(7)]
    assert fieldset.union_of(sets) == {name: node for part in sets for name, node in part.items()}
    assert fieldset.union_of([]) == {}


async def test_yaml_with_as_many_values_is_read(api: Api) -> None:
    data = "".join(f"  a{number}: b\n" for number in range(MANY))
    answer = await api.call("POST", CONFIGMAPS, f"metadata: {{name: cm}}\ndata:\n{data}", content_type=YAML)
    assert (answer.status, len(answer.body["data"])) == (201, MANY)


async def test_a_storm_of_conflicting_writers_ends_with_all_that_may(api: Api) -> None:
    """Who names no resourceVersion gets through; of those who name the same, one; nothing is lost."""
    await api.objects.create(pod("web"))
    version = (await api.call("GET", f"{PODS}/web")).body["metadata"]["resourceVersion"]

    def labelled(name: str, **metadata: str) -> Any:
        return api.call("PATCH", f"{PODS}/web", {"metadata": {"labels": {name: "x"}, **metadata}}, content_type=MERGE)

    first = await asyncio.gather(*(labelled(f"once{number}", resourceVersion=version) for number in range(30)))
    assert sorted(answer.status for answer in first) == [200] + [409] * 29
    assert [answer.status for answer in await asyncio.gather(*(labelled(f"n{n}") for n in range(40)))] == [200] * 40
    labels = (await api.call("GET", f"{PODS}/web")).body["metadata"]["labels"]
    assert len(labels) == 41


@pytest.mark.parametrize("length", [1, 40, 300, 5000])
async def test_warnings_are_as_many_as_every_client_can_read(api: Api, length: int) -> None:
    """The reference bounds their characters; Python's http.client reads no more than a hundred headers."""
    fields = {"x" * length + str(number): 1 for number in range(200)}
    made = await api.call("POST", CONFIGMAPS, {"metadata": {"name": "cm"}, **fields})
    assert made.status == 201
    said = [warning.removeprefix('299 - "').removesuffix('"') for warning in made.headers.getall("Warning")]
    assert 0 < len(said) <= 64
    assert sum(map(len, said)) <= 4096 + 4 * len(said), "but for the quotes' backslashes"
    assert all(text.startswith("unknown field") for text in said)


def test_warnings_are_said_once_in_full_where_there_is_room() -> None:
    assert responses.warnings(["b", "a", "b"]) == [("Warning", '299 - "b"'), ("Warning", '299 - "a"')]
    assert len(responses.warnings(["x" * 4096])[0][1]) == 4096 + len('299 - ""')
    cut = responses.warnings([f"{number:03}" + "x" * 400 for number in range(20)])
    assert [len(text) for _, text in cut] == [256 + len('299 - ""')] * 16
    assert len(responses.warnings(str(number) for number in range(1000))) == 64
