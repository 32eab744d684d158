"""Watches: what a selection sees, where a stream ends, and what a slow or late client is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeapi.core import ConfigMap, Pod
from kubeapi.meta import ObjectMeta
from kubeapi.resource import ResourceType
from kubeapi.server import selection, watching
from kubeapi.server.negotiation import Representation
from kubeapi.server.queries import WatchOptions
from kubeapi.server.rendering import Renderer
from kubeapi.server.watching import WatchStream
from tests.unit.server.conftest import MERGE, Api, pod

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def stream(api: Api, model: Any, options: WatchOptions, labels: str = "", fields: str = "") -> WatchStream:
    resource: ResourceType[Any] = api.objects.registry.of(model)
    chosen = selection.parse(resource, "demo", labels, fields)
    return WatchStream(api.objects, resource, chosen, Renderer(resource, Representation(), NOW), options)


def config(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="demo", labels=labels))


async def test_moving_into_and_out_of_a_selection(api: Api) -> None:
    after = api.objects.store.revision
    path = "/api/v1/namespaces/demo/configmaps/cm"
    await api.objects.create(config("cm"))
    for labels in ({"app": "a"}, {"x": "y"}, {"app": None}):
        await api.call("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE)
    await api.call("DELETE", path)
    answer = await api.call(
        "GET", f"/api/v1/namespaces/demo/configmaps?watch=1&resourceVersion={after}&labelSelector=app&timeoutSeconds=1"
    )
    assert [event["type"] for event in answer.body] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in answer.body]
    assert versions == sorted(versions)
    assert answer.body[2]["object"]["metadata"]["labels"]["app"] == "a"


async def test_without_a_revision_what_exists_comes_first(api: Api) -> None:
    await api.objects.create(pod("web"))
    async with aclosing(stream(api, Pod, WatchOptions()).lines(asyncio.Event())) as lines:
        assert json.loads(await anext(lines))["type"] == "ADDED"
        await api.objects.bind("demo", "web", "n1")
        event = json.loads(await anext(lines))
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("MODIFIED", "n1")


async def test_s82_a_watcher_slower_than_the_writes_is_told_to_list_again(api: Api) -> None:
    """S-82: bounded buffer, then a 410, never unbounded memory."""
    await api.objects.create(config("cm"))
    after = api.objects.store.revision
    async with aclosing(stream(api, ConfigMap, WatchOptions(after=after)).lines(asyncio.Event())) as lines:
        first = asyncio.ensure_future(anext(lines))
        for number in range(1200):
            current = await api.objects.get(ConfigMap, "demo", "cm")
            current.data = {"n": str(number)}
            await api.objects.update(current)
        assert json.loads(await first)["type"] == "MODIFIED"
        last = None
        async for line in lines:
            last = json.loads(line)
    assert last is not None
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_revision_of_another_history_is_told_to_list_again(api: Api) -> None:
    """S-86: the store was restored from an old copy; its clients are ahead of it."""
    options = WatchOptions(after=api.objects.store.revision + 100)
    lines = [json.loads(line) async for line in stream(api, Pod, options).lines(asyncio.Event())]
    assert [line["object"]["code"] for line in lines] == [410]


async def test_bookmarks_while_nothing_happens(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.01)
    options = WatchOptions(after=api.objects.store.revision, bookmarks=True)
    await api.objects.create(config("elsewhere"))
    async with aclosing(stream(api, Pod, options).lines(asyncio.Event())) as lines:
        event = json.loads(await anext(lines))
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) == api.objects.store.revision


async def test_a_stopping_server_ends_its_watches_and_leaves_no_task(api: Api) -> None:
    stopping = asyncio.Event()
    options = WatchOptions(after=api.objects.store.revision)
    reading = asyncio.create_task(_all(stream(api, Pod, options), stopping))
    await asyncio.sleep(0)
    stopping.set()
    async with asyncio.timeout(5):
        assert await reading == []
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("watch-")]
        await asyncio.gather(*left, return_exceptions=True)


async def _all(watch: WatchStream, stopping: asyncio.Event) -> list[bytes]:
    return [line async for line in watch.lines(stopping)]
