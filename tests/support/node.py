"""A node without a link: book, desk and reconciler on the in-memory runtime, and a hand that plays the hub."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from edgecore.admission import Amounts
from edgecore.book import Book
from edgecore.desk import Desk
from edgecore.reconciler import Reconciler
from edgecore.sizes import Policy
from edgelink.api import Cursor, Item, ItemKey, Removal, Removed, ViewChange
from kubeapi.core import Pod, PodStatus
from metastore.sql import SqlStore, open_store
from vmruntime.fake import FakeHost, FakeRuntime

MIB = 1 << 20


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(
    name: str = "web",
    uid: str = "u1",
    *,
    cpu: str = "500m",
    memory: str = "96Mi",
    generation: int = 1,
    image: str = "copepod/micro:latest",
    **spec: Any,
) -> Pod:
    resources = {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": cpu, "memory": memory}}
    container = {"name": "vm", "image": image, "resources": resources}
    annotations = spec.pop("annotations", {})
    meta = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "generation": generation,
        "annotations": annotations,
    }
    container |= spec.pop("container", {})
    return Pod.from_dict({"metadata": meta, "spec": {"nodeName": "edge-1", "containers": [container], **spec}})


@dataclass
class Node:
    host: FakeHost
    store: SqlStore
    book: Book
    desk: Desk
    reconciler: Reconciler
    runtime: FakeRuntime
    hub: str = "hub-1"
    _revisions: Any = field(default_factory=lambda: itertools.count(1))

    async def wish(self, *pods: Pod, removed: tuple[Pod, ...] = ()) -> None:
        """What a delta does."""
        revision = next(self._revisions)
        put = tuple(
            Item(ItemKey("pods", "default", item.metadata.name), item.metadata.uid or "", revision, item.to_json())
            for item in pods
        )
        gone = tuple(
            Removed(ItemKey("pods", "default", item.metadata.name), item.metadata.uid or "", Removal.DELETED)
            for item in removed
        )
        await self.book.apply(ViewChange(Cursor(self.hub, revision), put, gone))

    async def until(self, condition: Callable[[], bool], *, within: float = 120.0) -> None:
        """Wait in (virtual) time for what is to be seen."""
        deadline = asyncio.get_running_loop().time() + within
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"not seen within {within} s: {self.describe()}"
            await asyncio.sleep(0.05)

    def describe(self) -> str:
        return "; ".join(f"{record.name}: {record.to_dict()}" for record in self.book.records.values())

    def status(self, uid: str = "u1") -> PodStatus:
        record = self.book.records.get(uid)
        return record.status if record and record.status else PodStatus()

    def condition(self, kind: str, uid: str = "u1") -> str | None:
        found = self.status(uid).condition(kind)
        return found.status if found else None

    def ready(self, uid: str = "u1") -> bool:
        return self.condition("Ready", uid) == "True"

    def settled(self, uid: str = "u1", generation: int | None = None) -> bool:
        """The newest wish has been decided, and everything admitted is in force."""
        wanted = generation or (self.book.pods[uid].metadata.generation or 0)
        record = self.book.records.get(uid)
        return bool(record) and record.progress is None and self.status(uid).observed_generation == wanted

    async def outgoing(self) -> list[Mapping[str, Any]]:
        return [orjson.loads(entry.value) for entry in await self.store.outbox(1000)]

    async def events(self) -> list[str]:
        return [item["reason"] for item in await self.outgoing() if item["kind"] == "Event"]


@asynccontextmanager
async def running_node(
    path: Path | str,
    host: FakeHost,
    *,
    allocatable: Amounts | None = None,
    installation: str = "here",
    cpus: int = 4,
) -> AsyncIterator[Node]:
    """An agent's inside; leaving the block is its death (the host and its VMs go on)."""
    store = await open_store(path, inline=True, new_id=lambda: "node-store")
    book = Book(store, FixedClock(), "edge-1")
    await book.load()
    runtime = FakeRuntime(host, installation)
    room = allocatable or Amounts(4000, 4096 * MIB, 10)
    desk = Desk(book, Policy(host_cpus=cpus), room, 16 * MIB)
    reconciler = Reconciler(book, runtime, desk, installation, "192.0.2.1")
    task = asyncio.create_task(reconciler.run(), name="reconciler")
    try:
        yield Node(host, store, book, desk, reconciler, runtime)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runtime.close()
        await store.close()
