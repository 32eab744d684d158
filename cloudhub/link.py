"""The hub's end of edgelink over the store: what a node should hold, and what it says.

A batch from a node becomes one commit: the statuses, events and removals it makes, together with the number up to which
that node store is now held. What cannot be applied is counted and skipped: a bad item must never block those behind it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from cloudhub.upstream import (
    BadItem,
    GoneReport,
    Origin,
    Reported,
    StatusReport,
    fresh_node,
    parse,
    stored_event,
    torn_down,
    with_report,
    with_status,
)
from cloudhub.view import PODS, Stored, bound_to, needs, view
from edgelink.api import ItemKey, Lease, NodeFacts, NodeRefused, Removal, UpItem, View
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Event, Namespace, Node, Pod
from kubeapi.meta import KubeObject
from kubeapi.resource import Registry
from kubeapi.server.entities import encode_put, key_of
from kubeapi.server.ownership import created, updated
from metastore.api import Compacted, Conflict, Delete, Key, Listing, NotFound, Op, Row, SetMeta, Store, UidMismatch

T = TypeVar("T", bound=KubeObject)

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_STORES_KEPT = 8
"""Node stores whose highest number is remembered for each node: one, and what came before it (S-88)."""
_ATTEMPTS = 20
_MANAGER = "edgecore"
"""Who owns what nodes report (managedFields)."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Session:
    connected: bool
    since: str
    """RFC 3339, for people."""
    reason: str


class StoreBackend:
    """Implements edgelink.api.HubBackend."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        new_uid: Callable[[], str],
        heard: Callable[[str], None],
    ) -> None:
        """`heard` is told the name of a node that gave any sign of life."""
        self._store = store
        self._registry = registry
        self._clock = clock
        self._new_uid = new_uid
        self._heard = heard
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.sessions: dict[str, Session] = {}
        self.refused: Counter[str] = Counter()
        """Items that were not applied, by kind: `malformed`, `foreign`, `stale`, `unknown`, …"""
        self._logged: set[tuple[str, str]] = set()

    @property
    def hub_store(self) -> str:
        return self._store.store_id

    # Down

    async def view(self, node: str) -> View:
        return await self._view(node, await self._store.list(PODS))

    async def view_at(self, node: str, revision: int) -> View | None:
        if revision > self._store.revision and revision > await self._store.refresh():
            return None
        try:
            return await self._view(node, await self._store.list(PODS, at=revision))
        except Compacted:
            return None

    async def _view(self, node: str, pods: Listing) -> View:
        mine = [_stored(row) for row in pods.rows if bound_to(row.value) == node]
        wanted = {(need.kind, need.namespace) for pod in mine for need in needs(pod.value)}
        found: dict[tuple[str, str], Mapping[str, Stored]] = {}
        for kind, namespace in wanted:
            listing = await self._store.list(kind, namespace, at=pods.revision)
            found[kind, namespace] = {row.key.name: _stored(row) for row in listing.rows}
        return view(node, pods.revision, mine, lambda kind, namespace: found.get((kind, namespace), {}))

    async def removal(self, key: ItemKey, uid: str) -> Removal:
        row = await self._store.get(Key(key.kind, key.namespace, key.name))
        return Removal.LEFT if row is not None and row.uid == uid else Removal.DELETED

    # Up

    async def upstream(self, node: str, node_store: str) -> int:
        return (await self._held(node)).get(node_store, 0)

    async def apply(self, node: str, node_store: str, prev: int, high: int, items: Sequence[UpItem]) -> int:
        self._heard(node)
        async with self._turn[node]:
            for _ in range(_ATTEMPTS):
                held = await self._held(node)
                if held.get(node_store, 0) != prev:
                    return held.get(node_store, 0)
                batch = _Batch(self._store, self._registry, self._now())
                for item in items:
                    await self._take(batch, item, Origin(node, node_store))
                try:
                    await self._store.commit(*batch.ops(), _remember(node, node_store, high, held))
                except (Conflict, NotFound, UidMismatch):
                    continue  # somebody wrote one of the objects meanwhile: look again
                return high
        raise ConnectionError(f"a batch from node {node} lost against other writers {_ATTEMPTS} times")

    async def _held(self, node: str) -> dict[str, int]:
        return dict(orjson.loads(await self._store.meta(_meta(node)) or "{}"))

    async def _take(self, batch: _Batch, item: UpItem, origin: Origin) -> None:
        try:
            await self._apply_one(batch, parse(item, origin.node), origin)
        except BadItem as bad:
            self.refused[bad.kind] += 1
            if (origin.node, bad.kind) not in self._logged:
                self._logged.add((origin.node, bad.kind))
                _log.warning("node %s: refused an item: %s (more of this kind are only counted)", origin.node, bad)

    async def _apply_one(self, batch: _Batch, reported: Reported, origin: Origin) -> None:
        match reported:
            case StatusReport():
                pod = await batch.pod(reported.namespace, reported.name, reported.uid)
                changed = with_status(pod, reported, origin) if pod else None
                if pod is None or changed is None:
                    self.refused["stale"] += 1
                else:
                    batch.put(changed)
            case GoneReport():
                pod = await batch.pod(reported.namespace, reported.name, reported.uid)
                if pod is not None:
                    batch.replace(pod, torn_down(pod, origin))
            case Node():
                stored = await batch.get(Node, None, origin.node)
                batch.put(with_report(stored, reported, self._new_uid(), self._now()))
            case Event():
                await self._add_event(batch, reported)

    async def _add_event(self, batch: _Batch, reported: Event) -> None:
        event = stored_event(reported, self._new_uid(), self._now())
        meta = event.metadata
        if await batch.get(Namespace, None, meta.namespace or "") is None:
            raise BadItem("homeless", f"an Event is about namespace {meta.namespace!r}, which does not exist")
        if await batch.get(Event, meta.namespace, meta.name) is None:
            batch.put(event)

    def _now(self) -> str:
        return timestamp(self._clock.now())

    # Sessions

    async def admit(self, node: str, facts: NodeFacts) -> None:
        """A node registers itself. Where its Node was deleted, what was heard of it is forgotten as well: the node
        notices that the hub holds less than it was told, and says everything again (S-10)."""
        if not _NODE_NAME.fullmatch(node) or not facts.store_id:
            raise NodeRefused(f"{node!r} is not a node name (RFC 1123), or the hello names no store")
        resource = self._registry.of(Node)
        async with self._turn[node]:
            if await self._store.get(key_of(resource, None, node)) is None:
                fresh = fresh_node(node, self._new_uid(), self._now())
                fresh.metadata.managed_fields = created(resource, fresh, _MANAGER, self._now())
                put = encode_put(resource, fresh, 0)
                try:
                    await self._store.commit(put, SetMeta(_meta(node), None))
                    _log.info("node %s registered", node)
                except Conflict:
                    pass  # somebody created it by hand just now
        self._heard(node)

    def connected(self) -> list[str]:
        return [node for node, session in self.sessions.items() if session.connected]

    def lease(self, lease: Lease) -> None:
        self._heard(lease.node)

    def link_changed(self, node: str, connected: bool, reason: str) -> None:
        self.sessions[node] = Session(connected, self._now(), reason)
        if connected:
            _log.info("node %s is connected", node)
            self._heard(node)
        else:
            _log.info("node %s is not connected: %s", node, reason)


@dataclass(slots=True)
class _Batch:
    """The objects a batch touches: read once, changed in memory, written with compare-and-swap."""

    store: Store
    registry: Registry
    at: str
    """The time."""
    rows: dict[Key, Row | None] = field(default_factory=dict)
    before: dict[Key, dict[str, Any]] = field(default_factory=dict)
    """The rows' values as data."""
    now: dict[Key, KubeObject | None] = field(default_factory=dict)

    async def get(self, model: type[T], namespace: str | None, name: str) -> T | None:
        key = key_of(self.registry.of(model), namespace, name)
        if key not in self.now:
            row = self.rows[key] = await self.store.get(key)
            if row:
                self.before[key] = orjson.loads(row.value)
            self.now[key] = model.from_dict(self.before[key]) if row else None
        found: Any = self.now[key]
        return found if isinstance(found, model) else None

    async def pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """Identity is the UID: another pod of that name is not it."""
        pod = await self.get(Pod, namespace, name)
        return pod if pod is not None and pod.metadata.uid == uid else None

    def put(self, obj: KubeObject) -> None:
        self.now[self._key(obj)] = obj

    def replace(self, obj: KubeObject, by: KubeObject | None) -> None:
        self.now[self._key(obj)] = by

    def _key(self, obj: KubeObject) -> Key:
        return key_of(self.registry.of(type(obj)), obj.metadata.namespace, obj.metadata.name)

    def ops(self) -> list[Op]:
        return [op for key, obj in self.now.items() if (op := self._op(key, obj)) is not None]

    def _op(self, key: Key, obj: KubeObject | None) -> Op | None:
        row = self.rows.get(key)
        if obj is None:
            return Delete(key, expect=row.revision, uid=row.uid) if row else None
        resource, meta = self.registry.of(type(obj)), obj.metadata
        if row and meta.managed_fields:
            given = meta.managed_fields
            meta.managed_fields = updated(resource, "status", self.before[key], obj, given, _MANAGER, self.at)
        put = encode_put(resource, obj, row.revision if row else 0)
        return None if row and put.value == row.value else put


def _stored(row: Row) -> Stored:
    return Stored(ItemKey(row.key.kind, row.key.namespace, row.key.name), row.uid, row.value)


def _meta(node: str) -> str:
    return f"upstream/{node}"


def _remember(node: str, node_store: str, high: int, held: Mapping[str, int]) -> SetMeta:
    others = [(store, number) for store, number in held.items() if store != node_store]
    newest = dict([*others, (node_store, high)][-_STORES_KEPT:])
    return SetMeta(_meta(node), orjson.dumps(newest).decode())
