"""Backends of both sides of the link, in memory and atomic, that count effects; for tests and simulations."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from edgelink.api import (
    Cursor,
    Item,
    ItemKey,
    Lease,
    NodeFacts,
    NodeRefused,
    Removal,
    StreamRefused,
    StreamRequest,
    UpItem,
    View,
    ViewChange,
)


class StoreDown(Exception):
    pass


@dataclass
class MemoryNode:
    """A node's store: everything in `apply` and `acknowledged` happens at once or not at all."""

    store_id: str = "node-1"
    boot_id: str = "boot-1"
    cursor: Cursor | None = None
    items: dict[ItemKey, Item] = field(default_factory=dict)
    unclaimed: dict[ItemKey, Item] = field(default_factory=dict)
    queue: dict[int, UpItem] = field(default_factory=dict)
    levels: dict[str, bytes] = field(default_factory=dict)
    high: int = 0
    acked: int = 0
    started: Counter[str] = field(default_factory=Counter)
    """Effects: how often each UID was brought to life."""
    changed: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Effects: how often each (UID, revision) was put in force."""
    torn: Counter[str] = field(default_factory=Counter)
    order: dict[str, list[int]] = field(default_factory=dict)
    failing: bool = False
    links: list[tuple[bool, str]] = field(default_factory=list)
    identities: int = 0
    pause: Callable[[], object] | None = None
    streams: Callable[[StreamRequest], AsyncIterator[bytes]] | None = None
    conversations: Callable[[StreamRequest, AsyncIterator[bytes]], AsyncIterator[bytes]] | None = None

    def _up(self) -> None:
        if self.failing:
            raise StoreDown("the disk is full")

    async def facts(self) -> NodeFacts:
        self._up()
        return NodeFacts(self.store_id, self.boot_id, self.cursor, self.high, self.acked)

    async def apply(self, change: ViewChange) -> None:
        self._up()
        for item in change.put:
            self._put(item)
        for gone in change.removed:
            held = self.items.pop(gone.key, None)
            if held is not None:
                self.torn[held.uid] += 1
        if change.complete:
            named = {i.key for i in change.put}
            for key in [k for k in self.items if k not in named]:
                item = self.items.pop(key)
                if change.absence_deletes:
                    self.torn[item.uid] += 1
                else:
                    self.unclaimed[key] = item
        self.cursor = change.cursor

    def _put(self, item: Item) -> None:
        held = self.items.get(item.key) or self.unclaimed.pop(item.key, None)
        if held is not None and (held.uid, held.revision) == (item.uid, item.revision):
            self.items[item.key] = item
            return
        if held is None or held.uid != item.uid:
            self.started[item.uid] += 1
            if held is not None:
                self.torn[held.uid] += 1
        self.changed[item.uid, item.revision] += 1
        self.order.setdefault(item.uid, []).append(item.revision)
        self.items[item.key] = item

    async def held(self) -> Mapping[ItemKey, tuple[str, int]]:
        self._up()
        return {k: (i.uid, i.revision) for k, i in self.items.items()}

    def enqueue(self, lane: str, subject: str, value: bytes) -> None:
        if lane == "level":
            self.levels[subject] = value
            for number in [n for n, i in self.queue.items() if i.lane == lane and i.subject == subject]:
                del self.queue[number]
        self.high += 1
        self.queue[self.high] = UpItem(self.high, lane, subject, value)

    async def outbox(self, limit: int) -> Sequence[UpItem]:
        self._up()
        return [self.queue[n] for n in sorted(self.queue)[:limit]]

    async def acknowledged(self, upto: int) -> None:
        self._up()
        self.queue = {n: i for n, i in self.queue.items() if n > upto}
        self.acked = max(self.acked, upto)

    async def new_identity(self) -> None:
        self._up()
        self.identities += 1
        self.store_id += "'"
        self.acked = 0
        for subject, value in list(self.levels.items()):
            self.enqueue("level", subject, value)

    async def serve(self, request: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        if self.conversations is not None:
            return self.conversations(request, given)
        if self.streams is None:
            raise StreamRefused("no such pod")
        return self.streams(request)

    def link_changed(self, connected: bool, reason: str) -> None:
        self.links.append((connected, reason))


@dataclass
class MemoryHub:
    """A hub's store, with history since `compacted`."""

    hub_store: str = "hub-1"
    revision: int = 0
    compacted: int = 0
    views: dict[str, dict[ItemKey, Item]] = field(default_factory=dict)
    history: dict[tuple[str, int], dict[ItemKey, Item]] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    up: dict[tuple[str, str], int] = field(default_factory=dict)
    levels: dict[str, bytes] = field(default_factory=dict)
    log: list[tuple[str, bytes]] = field(default_factory=list)
    applied: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Effects: how often each upstream entry was stored."""
    leases: list[Lease] = field(default_factory=list)
    links: list[tuple[str, bool, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failing: bool = False
    uids: count[int] = field(default_factory=lambda: count(1))

    def _up(self) -> None:
        if self.failing:
            raise StoreDown("the database is locked")

    def _commit(self) -> int:
        for node, view in self.views.items():
            self.history[node, self.revision] = dict(view)
        self.revision += 1
        return self.revision

    def put(self, node: str, name: str, value: bytes = b"{}", kind: str = "pods") -> Item:
        view = self.views.setdefault(node, {})
        key = ItemKey(kind, "default", name)
        revision = self._commit()
        uid = view[key].uid if key in view else f"u{next(self.uids)}"
        item = view[key] = Item(key, uid, revision, value)
        return item

    def delete(self, node: str, name: str, kind: str = "pods") -> None:
        key = ItemKey(kind, "default", name)
        if key in self.views.get(node, {}):
            self._commit()
            self.dead.add(self.views[node].pop(key).uid)

    async def view(self, node: str) -> View:
        self._up()
        return View(self.revision, dict(self.views.get(node, {})))

    async def view_at(self, node: str, revision: int) -> View | None:
        self._up()
        if not self.compacted <= revision <= self.revision:
            return None
        past = self.views if revision == self.revision else None
        items = self.views.get(node, {}) if past else self.history.get((node, revision), {})
        return View(revision, dict(items))

    async def removal(self, key: ItemKey, uid: str) -> Removal:
        return Removal.DELETED if uid in self.dead else Removal.LEFT

    async def upstream(self, node: str, node_store: str) -> int:
        self._up()
        return self.up.get((node, node_store), 0)

    async def apply(self, node: str, node_store: str, prev: int, high: int, items: Sequence[UpItem]) -> int:
        self._up()
        held = self.up.get((node, node_store), 0)
        if prev != held:
            return held
        for item in items:
            self.applied[node, node_store, item.number] += 1
            if item.lane == "level":
                self.levels[f"{node}:{item.subject}"] = item.value
            else:
                self.log.append((f"{node}:{item.subject}", item.value))
        self.up[node, node_store] = high
        return high

    async def admit(self, node: str, facts: NodeFacts) -> None:
        self._up()
        if node in self.refused:
            raise NodeRefused(self.refused[node])

    def lease(self, lease: Lease) -> None:
        self.leases.append(lease)

    def link_changed(self, node: str, connected: bool, reason: str) -> None:
        self.links.append((node, connected, reason))

    def backup(self) -> MemoryHub:
        """A copy as a restored backup would be."""
        views = {n: dict(v) for n, v in self.views.items()}
        return replace(
            self, views=views, history=dict(self.history), dead=set(self.dead), up=dict(self.up),
            levels=dict(self.levels), log=list(self.log), applied=Counter(), leases=[], links=[],
        )  # fmt: skip
