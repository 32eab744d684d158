"""What a real API server answered, asked of ours (tests/data/kubernetes/api)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeapi.core import Node, Pod
from tests.unit.server.conftest import Answer, Api, recording

_VARYING = ("resourceVersion", "managedFields", "continue", "remainingItemCount")


def plain(value: Any) -> Any:
    """Without what differs between any two servers, nor nulls (which mean absent)."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in _VARYING and item is not None}
    return [plain(item) for item in value] if isinstance(value, list) else value


def events(recorded: Any) -> Any:
    """A recorded watch: lines of JSON, or the one event."""
    return [json.loads(line) for line in recorded.splitlines()] if isinstance(recorded, str) else [recorded]


async def replay(api: Api, name: str) -> tuple[Answer, Any]:
    exchange = recording(name)
    request = exchange["request"]
    answer = await api.call(
        request["method"], request["path"], request["body"], request["accept"], request["contentType"]
    )
    assert answer.status == exchange["status"]
    assert answer.headers["Cache-Control"] == exchange["headers"]["Cache-Control"]
    return answer, exchange


@pytest.mark.parametrize(
    "name",
    [
        "err_404_path",
        "err_404_pod",
        "err_405_post",
        "err_406",
        "err_409_exists",
        "err_415",
        "err_422_create",
        "err_bad_json",
        "strict_unknown_field",
    ],
)
async def test_refusals_word_for_word(recorded: Api, name: str) -> None:
    answer, exchange = await replay(recorded, name)
    assert answer.body == exchange["response"]
    assert answer.headers["Content-Type"] == "application/json"


async def test_uid_precondition(recorded: Api) -> None:
    exchange = recording("delete_uid_mismatch")
    found = await recorded.objects.get(Node, None, "n1")
    assert found.metadata.uid == "node"
    answer = await recorded.call(
        "DELETE", "/api/v1/namespaces/demo/pods/b1", exchange["request"]["body"], content_type="application/json"
    )
    expected = json.loads(
        json.dumps(exchange["response"])
        .replace('\\"es\\"', '\\"b1\\"')
        .replace('"es"', '"b1"')
        .replace("37879b59-1049-447b-ac98-0f53ff3c8d99", "6043f5b2-039e-4234-9fae-47a547ed156c")
    )
    assert (answer.status, answer.body) == (409, expected)


async def test_graceful_deletion_marks_a_bound_pod(recorded: Api) -> None:
    recorded.clock.moment = datetime(2026, 11, 30, 21, 59, 39, tzinfo=UTC)
    answer, exchange = await replay(recorded, "delete_graceful")
    assert plain(answer.body) == plain(exchange["response"])


async def test_unknown_field_is_warned_about(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "warn_unknown_field")
    assert answer.headers["Warning"] == exchange["headers"]["Warning"]
    assert plain(answer.body["spec"]["containers"][0]["resources"]) == plain(
        exchange["response"]["spec"]["containers"][0]["resources"]
    )


async def test_one_pod_as_a_table(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "table_pod_one")
    assert plain(answer.body) == plain(exchange["response"])


async def test_the_resize_subresource_shows_the_pod(recorded: Api) -> None:
    shown = recording("get_b1_resize_subresource")["response"]
    await recorded.put_as_is(Pod.from_dict(shown))
    answer, exchange = await replay(recorded, "get_b1_resize_subresource")
    assert plain(answer.body) == plain(exchange["response"])


async def test_table_of_nodes(api: Api) -> None:
    expected = recording("table_nodes")["response"]
    for row in expected["rows"]:
        node = {"metadata": row["object"]["metadata"], "status": _node_status(row["cells"])}
        await api.put_as_is(Node.from_dict(node))
    answer, _ = await replay(api, "table_nodes")
    assert plain(answer.body) == plain(expected)


def _node_status(cells: list[str]) -> dict[str, Any]:
    _, _, _, _, kubelet, address, _, image, kernel, runtime = cells
    return {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": address}],
        "nodeInfo": {
            "kubeletVersion": kubelet,
            "osImage": image,
            "kernelVersion": kernel.partition(" ")[0],
            "architecture": "amd64",
            "containerRuntimeVersion": runtime,
        },
    }


async def test_pages_of_a_list(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "list_limit_continue")
    assert plain(answer.body) == plain(exchange["response"])
    assert answer.body["metadata"]["remainingItemCount"] == 1
    token = answer.body["metadata"]["continue"]
    rest = await recorded.call("GET", f"/api/v1/namespaces/demo/pods?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in rest.body["items"]] == ["g2"]
    assert "continue" not in rest.body["metadata"]


async def test_metadata_only_list(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "pom_list")
    assert plain(answer.body) == plain(exchange["response"])


async def test_list_from_a_token_that_is_too_old(recorded: Api) -> None:
    first = await recorded.call("GET", "/api/v1/namespaces/demo/pods?limit=1")
    await recorded.call("DELETE", "/api/v1/namespaces/demo/pods/b1?gracePeriodSeconds=0")
    await recorded.objects.store.compact(recorded.objects.store.revision)
    path = "/api/v1/namespaces/demo/pods?limit=1&continue="
    expired = await recorded.call("GET", path + first.body["metadata"]["continue"])
    expected = recording("list_continue_expired_410")["response"]
    assert expired.status == 410
    assert plain(expired.body) == plain(expected)
    again = await recorded.call("GET", path + expired.body["metadata"]["continue"])
    assert [item["metadata"]["name"] for item in again.body["items"]] == ["b2"]


async def test_list_of_the_future(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "list_rv_future")
    assert _without_numbers(answer.body) == _without_numbers(exchange["response"])
    assert answer.headers["Retry-After"] == "1"


async def test_watch_from_too_far_back(recorded: Api) -> None:
    await recorded.objects.store.compact(recorded.objects.store.revision)
    answer = await recorded.call("GET", "/api/v1/namespaces/demo/pods?watch=1&resourceVersion=3&timeoutSeconds=3")
    exchange = recording("watch_old_rv_410")
    assert answer.status == exchange["status"]
    assert _without_numbers(answer.body) == _without_numbers(exchange["response"])


def _without_numbers(value: Any) -> Any:
    return re.sub(r"\d+( \(\d+\))?", "N", json.dumps(value))


async def test_watch_list_ends_its_initial_events_with_a_bookmark(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "watch_init_bookmarks")
    ours, theirs = plain(answer.body), plain(events(exchange["response"]))
    assert ours[0] == theirs[0]
    assert ours[1]["type"] == "BOOKMARK"
    assert ours[1]["object"]["metadata"] == theirs[1]["object"]["metadata"]
    assert int(answer.body[1]["object"]["metadata"]["resourceVersion"]) == recorded.objects.store.revision


async def test_watch_as_tables(recorded: Api) -> None:
    recorded.clock.moment = datetime(2026, 11, 30, 21, 59, 35, tzinfo=UTC)
    answer, exchange = await replay(recorded, "watch_table")
    assert [plain(answer.body)] == plain(events(exchange["response"]))


async def test_eviction_and_access_review(recorded: Api) -> None:
    exchange = recording("eviction")
    answer = await recorded.call("POST", "/api/v1/namespaces/demo/pods/b1/eviction", exchange["request"]["body"])
    assert (answer.status, answer.body) == (201, exchange["response"])
    answer, exchange = await replay(recorded, "ssar")
    assert answer.body["spec"] == exchange["response"]["spec"]
    assert answer.body["status"]["allowed"] is True


async def test_discovery(recorded: Api) -> None:
    answer, exchange = await replay(recorded, "discovery_api_aggregated")
    assert answer.headers["Content-Type"] == exchange["headers"]["Content-Type"]
    theirs = {item["resource"]: item for item in exchange["response"]["items"][0]["versions"][0]["resources"]}
    for item in answer.body["items"][0]["versions"][0]["resources"]:
        reference = theirs[item["resource"]]
        for key in ("scope", "singularResource", "verbs"):
            assert item[key] == reference[key]
        assert item.get("shortNames") == reference.get("shortNames")
    legacy, exchange = await replay(recorded, "discovery_api_legacy")
    assert legacy.body.keys() == exchange["response"].keys()
    version, exchange = await replay(recorded, "version")
    assert version.body["major"] == exchange["response"]["major"]
    assert version.body["gitVersion"].startswith(exchange["response"]["gitVersion"])
    index, exchange = await replay(recorded, "openapi_v3")
    # The recorded server had neither metrics-server nor the vertical autoscaler's definitions.
    ours = {"apis/autoscaling.k8s.io/v1", "apis/metrics.k8s.io/v1beta1"}
    assert index.body["paths"].keys() - ours <= exchange["response"]["paths"].keys()
