"""The whole server over an in-memory store, on a clock that stands still."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from kubeapi.clock import new_uid
from kubeapi.core import Namespace, Node, Pod
from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.resources import REGISTRY
from kubeapi.server.app import create_app
from kubeapi.server.auth import StaticTokens, User
from kubeapi.server.namespaces import ensure_namespaces
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store

RECORDINGS = Path(__file__).parents[2] / "data" / "kubernetes" / "api"
MERGE = "application/merge-patch+json"
ADMIN = User("admin", ("system:masters", "system:authenticated"))


@dataclass
class FixedClock:
    moment: datetime

    def now(self) -> datetime:
        return self.moment


@dataclass
class Answer:
    status: int
    headers: Any
    body: Any
    """Parsed JSON, the events of a watch as a list, or text."""


@dataclass
class Api:
    objects: StoreObjects
    client: TestClient[Any, Any]
    clock: FixedClock

    async def call(
        self, method: str, path: str, body: Any = None, accept: str | None = None, content_type: str | None = None
    ) -> Answer:
        headers = {"Authorization": "Bearer secret"}
        if accept:
            headers["Accept"] = accept
        if content_type:
            headers["Content-Type"] = content_type
        text = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        data = text.encode() if isinstance(text, str) else text
        async with self.client.request(
            method, path, data=data and io.BytesIO(data), headers=headers, skip_auto_headers=("Content-Type",)
        ) as response:
            text = await response.text()
            return Answer(response.status, response.headers, _parsed(text))

    async def put_as_is(self, obj: KubeObject) -> KubeObject:
        """Store without defaulting or validation, as a recording has it."""
        await self.objects.store.commit(self.objects.encode_put(obj, None))
        return obj


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError:
            return text


def recording(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def pod(name: str, namespace: str = "demo", **spec: Any) -> Pod:
    containers = [{"name": "c1", "image": "tiny", "resources": {"requests": {"cpu": "250m", "memory": "96Mi"}}}]
    data = {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": containers, **spec}}
    return Pod.from_dict(data)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with running_api() as found:
        yield found


@asynccontextmanager
async def running_api() -> AsyncIterator[Api]:
    store = await open_store(":memory:")
    clock = FixedClock(datetime(2026, 11, 30, 21, 59, 26, tzinfo=UTC))
    objects = StoreObjects(store, REGISTRY, clock, new_uid)
    await ensure_namespaces(objects)
    await objects.create(Namespace(metadata=ObjectMeta(name="demo")))
    app = create_app(objects, StaticTokens({"secret": ADMIN}))
    async with TestClient(TestServer(app), timeout=aiohttp.ClientTimeout(total=30)) as client:
        yield Api(objects, client, clock)
    await store.close()


@pytest.fixture
async def recorded(api: Api) -> Api:
    """With the pods and the node of the recordings."""
    pods = recording("list_limit_continue")["response"]["items"]
    pods.append(recording("delete_graceful")["response"])
    for item in pods:
        obj = Pod.from_dict(item)
        if obj.metadata.name == "g2":
            meta = obj.metadata
            meta.deletion_timestamp = meta.deletion_grace_period_seconds = None
            meta.generation = 1
        await api.put_as_is(obj)
    await api.put_as_is(
        Node.from_dict(
            {
                "metadata": {"name": "n1", "uid": "node", "labels": {"kubernetes.io/os": "linux"}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
            }
        )
    )
    return api
