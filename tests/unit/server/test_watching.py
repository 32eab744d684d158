"""Watches: what a selection sees, where a stream ends, and what a slow or late client is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from kubeapi.core import ConfigMap, Pod
from kubeapi.meta import ObjectMeta
from kubeapi.resource import ResourceType
from kubeapi.server import selection, watching
from kubeapi.server.negotiation import Form, Representation
from kubeapi.server.queries import WatchOptions
from kubeapi.server.rendering import Renderer
from kubeapi.server.sharing import SharedLines
from kubeapi.server.watching import WatchStream
from metastore.api import Change, ChangeType, Key, Row
from tests.support.hub import until
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
    async with aclosing(stream(api, Pod, WatchOptions()).chunks(asyncio.Event())) as chunks:
        assert json.loads(await anext(chunks))["type"] == "ADDED"
        await api.objects.bind("demo", "web", "n1")
        event = json.loads(await anext(chunks))
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("MODIFIED", "n1")


async def test_s82_a_watcher_slower_than_the_writes_is_told_to_list_again(api: Api) -> None:
    """S-82: bounded buffer, then a 410, never unbounded memory."""
    await api.objects.create(config("cm"))
    after = api.objects.store.revision
    async with aclosing(stream(api, ConfigMap, WatchOptions(after=after)).chunks(asyncio.Event())) as chunks:
        first = asyncio.ensure_future(anext(chunks))
        for number in range(1200):
            current = await api.objects.get(ConfigMap, "demo", "cm")
            current.data = {"n": str(number)}
            await api.objects.update(current)
        assert json.loads(await first)["type"] == "MODIFIED"
        last = None
        async for chunk in chunks:
            last = json.loads(chunk.splitlines()[-1])
    assert last is not None
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_revision_of_another_history_is_told_to_list_again(api: Api) -> None:
    """S-86: the store was restored from an old copy; its clients are ahead of it."""
    options = WatchOptions(after=api.objects.store.revision + 100)
    lines = [json.loads(line) async for line in stream(api, Pod, options).chunks(asyncio.Event())]
    assert [line["object"]["code"] for line in lines] == [410]


async def test_bookmarks_while_nothing_happens(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.01)
    options = WatchOptions(after=api.objects.store.revision, bookmarks=True)
    await api.objects.create(config("elsewhere"))
    async with aclosing(stream(api, Pod, options).chunks(asyncio.Event())) as chunks:
        event = json.loads(await anext(chunks))
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
    return [line async for line in watch.chunks(stopping)]


class CountingRenderer(Renderer):
    made: ClassVar[list[str]] = []

    def at(self, now: datetime) -> Renderer:
        return CountingRenderer(self._resource, self._representation, now, self._include)

    def event(self, kind: str, entity: Any, *, first: bool) -> Any:
        self.made.append(kind)
        return super().event(kind, entity, first=first)


async def test_an_event_is_written_once_for_all_who_see_the_same(api: Api) -> None:
    """However many watch: one audience a selection and form, no task an event, and each still sees its own."""
    resource: ResourceType[Any] = api.objects.registry.of(ConfigMap)
    shared, after, made = SharedLines(), api.objects.store.revision, CountingRenderer.made
    made.clear()

    def watcher(labels: str, form: Form = Form.OBJECT) -> WatchStream:
        options = WatchOptions(after=after, label_selector=labels, timeout_seconds=5)
        renderer = CountingRenderer(resource, Representation(form), NOW)
        return WatchStream(
            api.objects, resource, selection.parse(resource, "demo", labels, ""), renderer, options, shared
        )

    stopping = asyncio.Event()
    crowd = [watcher("") for _ in range(20)] + [watcher("app=a") for _ in range(20)]
    crowd += [watcher("", Form.METADATA) for _ in range(20)] + [watcher("app=b") for _ in range(20)]
    tables = [watcher("", Form.TABLE) for _ in range(2)]
    reading = [asyncio.create_task(_all(item, stopping)) for item in (*crowd, *tables)]
    tasks = len(asyncio.all_tasks())
    await api.objects.create(config("one", app="a"))
    await api.objects.create(config("two"))
    await until(lambda: len(made) == 5 + 3)
    assert len(asyncio.all_tasks()) <= tasks + len(reading)
    stopping.set()
    chunks = [b"".join(await item) for item in reading]
    assert [len(chunk.splitlines()) for chunk in chunks] == [2] * 20 + [1] * 20 + [2] * 20 + [0] * 20 + [2] * 2
    assert len(made) == 5 + 3  # objects 2, app=a 1, metadata 2; tables: the first of each, and the second once
    assert set(chunks[:20]) == {chunks[0]}
    for chunk in chunks[-2:]:
        first, second = (json.loads(line)["object"] for line in chunk.splitlines())
        assert first["columnDefinitions"]
        assert second["columnDefinitions"] is None


def test_lines_are_bounded_and_of_one_history() -> None:
    shared = SharedLines(bound=4096)
    audience = shared.audience(shared, "all")
    assert shared.audience(shared, "all") is audience
    assert shared.audience(shared, "some") is not audience

    def change(revision: int) -> Change:
        return Change(ChangeType.PUT, Row(Key("pods", "demo", "web"), "u", revision, 1, b"{}"), None)

    for revision in range(100):
        assert shared.of(audience, change(revision), lambda _: b"x" * 1000) == b"x" * 1000
        assert shared._bytes == sum(len(line) + 256 for _, line in shared._lines.values()) <= 4096
    assert shared.of(audience, change(99), lambda _: b"another") == b"another"  # the store was restored
