"""The node's book: pods and records in memory, always as they are in the metastore.

Every change is one commit that also carries what must go upstream with it (status, events), and memory follows after
the commit. Objects of the hub's that a foreign or older hub does not know are kept as kind `unclaimed`, by UID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from edgecore.events import Note, about_node, about_pod, enqueue
from edgecore.record import RECORDS, PodRecord
from edgelink.api import Cursor, Item, ItemKey, ViewChange
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Node, Pod, PodStatus
from metastore.api import QUARANTINED, STORE_ID, Delete, Dequeue, Enqueue, Key, Lane, Op, Put, Row, SetMeta, Store

PODS = "pods"
UNCLAIMED = "unclaimed"
NODE_STATUS = "nodestatus"
_HELD_KINDS = ("pods", "configmaps", "secrets", "runtimeclasses.node.k8s.io")
_CURSOR = "cursor"
_ACKED = "acked"


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """An object kept against the hub's silence."""

    key: ItemKey
    uid: str


class Book:
    """`changed(uid)` is called after a pod's wish changed, `outgoing()` after something was put into the outbox."""

    def __init__(self, store: Store, clock: Clock, node: str) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self.pods: dict[str, Pod] = {}
        self.records: dict[str, PodRecord] = {}
        self.unclaimed: dict[str, Unclaimed] = {}
        self._held: dict[ItemKey, tuple[str, int]] = {}
        self.cursor: Cursor | None = None
        self.changed: Callable[[str], None] = lambda _uid: None
        self.outgoing: Callable[[], None] = lambda: None
        self.claims_changed: Callable[[], None] = lambda: None
        self.distrusted: set[str] = set()
        """UIDs whose pods the store may have lost: that they are not there does not mean that they are not wished."""
        self._events = 0

    @property
    def store(self) -> Store:
        return self._store

    def now(self) -> str:
        return timestamp(self._clock.now())

    async def load(self) -> None:
        """Read everything once, at start."""
        for row in (await self._store.list(RECORDS)).rows:
            self.records[row.uid] = PodRecord.from_json(row.value)
        for kind in _HELD_KINDS:
            for row in (await self._store.list(kind)).rows:
                self._hold(row)
        for row in (await self._store.list(UNCLAIMED)).rows:
            self._keep_unclaimed(row.value)
        if text := await self._store.meta(_CURSOR):
            found = orjson.loads(text)
            self.cursor = Cursor(found["hub"], found["revision"])

    def _hold(self, row: Row) -> None:
        envelope = orjson.loads(row.value)
        self._held[ItemKey(row.key.kind, row.key.namespace, row.key.name)] = (row.uid, envelope["revision"])
        if row.key.kind == PODS:
            self.pods[row.uid] = Pod.from_dict(envelope["object"])

    def _keep_unclaimed(self, value: bytes) -> None:
        found = orjson.loads(value)
        key, uid = ItemKey(found["kind"], found["namespace"], found["name"]), found["uid"]
        self.unclaimed[uid] = Unclaimed(key, uid)
        if key.kind == PODS:
            self.pods[uid] = Pod.from_dict(found["object"])

    # The hub's side: views

    def held(self) -> Mapping[ItemKey, tuple[str, int]]:
        return self._held

    async def object(self, key: ItemKey) -> Mapping[str, Any] | None:
        """What the hub has sent beside the pods: ConfigMaps, Secrets."""
        row = await self._store.get(_store_key(key))
        return None if row is None else orjson.loads(row.value)["object"]

    async def apply(self, change: ViewChange) -> None:
        """A delta or snapshot, with its cursor, in one commit (architecture, "Synchronisation")."""
        removed = [(item.key, item.uid) for item in change.removed]
        absent: list[tuple[ItemKey, str]] = []
        if change.complete:
            named = {item.key for item in change.put}
            absent = [(key, uid) for key, (uid, _) in self._held.items() if key not in named]
            if change.absence_deletes:
                removed, absent = removed + absent, []
        ops: list[Op] = []
        for item in change.put:
            ops.append(Put(_store_key(item.key), item.uid, _envelope(item), replace=True))
            ops.append(Delete(Key(UNCLAIMED, "", item.uid), missing_ok=True))
        for key, uid in removed:
            ops.append(Delete(_store_key(key), uid=uid, missing_ok=True))
            ops.append(Delete(Key(UNCLAIMED, "", uid), missing_ok=True))
        for key, uid in absent:
            ops += await self._to_unclaimed(key, uid)
        ops.append(_cursor_op(change.cursor))
        if told := not change.complete or change.absence_deletes:
            ops.append(SetMeta(QUARANTINED, None))
        await self._store.commit(*ops)
        self._follow(change, removed, absent)
        if told:
            missing, self.distrusted = self.distrusted - self.pods.keys(), set()
            for uid in missing:
                self.changed(uid)

    async def _to_unclaimed(self, key: ItemKey, uid: str) -> list[Op]:
        row = await self._store.get(_store_key(key))
        if row is None:
            return []
        found = orjson.loads(row.value)
        value = {"kind": key.kind, "namespace": key.namespace, "name": key.name, "uid": uid, "object": found["object"]}
        return [
            Put(Key(UNCLAIMED, "", uid), uid, orjson.dumps(value), replace=True),
            Delete(_store_key(key), uid=uid, missing_ok=True),
        ]

    def _follow(
        self, change: ViewChange, removed: list[tuple[ItemKey, str]], absent: list[tuple[ItemKey, str]]
    ) -> None:
        touched: set[str] = set()
        claims = len(self.unclaimed)
        self.cursor = change.cursor
        for key, uid in absent:
            self._held.pop(key, None)
            self.unclaimed[uid] = Unclaimed(key, uid)
            touched.add(uid)
        for key, uid in removed:
            if self._held.get(key, ("", 0))[0] == uid:
                del self._held[key]
            self.unclaimed.pop(uid, None)
            self.pods.pop(uid, None)
            touched.add(uid)
        for item in change.put:
            replaced = self._held.get(item.key)
            if replaced is not None and replaced[0] != item.uid:
                self.pods.pop(replaced[0], None)
                touched.add(replaced[0])
            self._held[item.key] = (item.uid, item.revision)
            self.unclaimed.pop(item.uid, None)
            if item.key.kind == PODS:
                self.pods[item.uid] = Pod.from_json(item.value)
            touched.add(item.uid)
        for uid in touched:
            self.changed(uid)
        if claims != len(self.unclaimed):
            self.claims_changed()

    async def adopt(self, pod: Pod) -> None:
        """A VM of ours runs for a pod that the store has lost: keep it as Unclaimed, from the domain's metadata."""
        key = ItemKey(PODS, pod.metadata.namespace or "", pod.metadata.name)
        uid = pod.metadata.uid or ""
        value = {"kind": PODS, "namespace": key.namespace, "name": key.name, "uid": uid, "object": pod.to_dict()}
        await self._store.commit(Put(Key(UNCLAIMED, "", uid), uid, orjson.dumps(value), replace=True))
        self.unclaimed[uid] = Unclaimed(key, uid)
        self.pods[uid] = pod
        self.distrusted.discard(uid)
        self.claims_changed()

    # The node's side: records, statuses, events

    def record(self, pod: Pod) -> PodRecord:
        uid = pod.metadata.uid or ""
        known = self.records.get(uid)
        grace = pod.spec.termination_grace_period_seconds
        if known is None:
            known = PodRecord(uid=uid, namespace=pod.metadata.namespace or "", name=pod.metadata.name)
        return known.model_copy(update={"grace": 30 if grace is None else grace})

    async def save(
        self, record: PodRecord, *, pod: Pod | None = None, status: PodStatus | None = None, notes: Iterable[Note] = ()
    ) -> PodRecord:
        """Store the record; with it its new status and events on their way up. Returns what was stored."""
        ops: list[Op] = []
        if status is not None:
            record = record.model_copy(update={"status": status, "sequence": record.sequence + 1})
            ops.append(_status_op(record))
        notes = tuple(notes)
        if pod is not None:
            when = self.now()
            for note in notes:
                self._events += 1
                ops.append(enqueue(about_pod(pod), note, self._node, when, self._events))
        if record != self.records.get(record.uid):
            ops.append(Put(Key(RECORDS, "", record.uid), record.uid, record.to_json()))
        if ops:
            await self._store.commit(*ops)
            self.records[record.uid] = record
        if status is not None or notes:
            self.outgoing()
        return record

    async def gone(self, record: PodRecord) -> None:
        """Its VMs are gone for good: remembered and reported in one commit."""
        record = record.model_copy(update={"torn_down": True, "sequence": record.sequence + 1})
        await self._store.commit(Put(Key(RECORDS, "", record.uid), record.uid, record.to_json()), _gone_op(record))
        self.records[record.uid] = record
        self.outgoing()

    async def forget(self, record: PodRecord) -> None:
        """Neither hub nor host has it any more. The hub is told even so: it may have asked without our seeing it."""
        await self._store.commit(Delete(Key(RECORDS, "", record.uid), missing_ok=True), _gone_op(record))
        self.records.pop(record.uid, None)
        self.outgoing()

    async def report_node(self, node: Node) -> None:
        """The node's own status; sent only when it differs from the newest sent."""
        key, value = Key(NODE_STATUS, "", node.metadata.name), node.to_json()
        known = await self._store.get(key)
        if known is not None and known.value == value:
            return
        await self._store.commit(Put(key, "self", value), Enqueue(Lane.LEVEL, f"nodes/{node.metadata.name}", value))
        self.outgoing()

    # The outbox

    async def new_identity(self, store_id: str) -> None:
        """The hub's memory of this store is not ours: another id, and everything that is a level goes up again."""
        await self._store.commit(SetMeta(STORE_ID, store_id), SetMeta(_ACKED, None), *await self._levels())
        self.outgoing()

    async def distrust(self, trouble: str) -> None:
        """Something of what was stored is lost: ask the hub for all its wishes, and send all levels up, again."""
        ops = await self._levels()
        if self.cursor is not None:
            self.cursor = Cursor(self.cursor.hub_store, 0)
            ops.append(_cursor_op(self.cursor))
        self.distrusted = {uid for uid in self.records if uid not in self.pods}
        self._events += 1
        note = Note("StoreDamaged", trouble, warning=True)
        ops.append(enqueue(about_node(self._node), note, self._node, self.now(), self._events))
        await self._store.commit(*ops)
        self.outgoing()

    async def _levels(self) -> list[Op]:
        ops: list[Op] = []
        for record in self.records.values():
            if record.torn_down:
                ops.append(_gone_op(record))
            elif record.status is not None:
                ops.append(_status_op(record))
        for row in (await self._store.list(NODE_STATUS)).rows:
            ops.append(Enqueue(Lane.LEVEL, f"nodes/{row.key.name}", row.value))
        return ops

    async def acknowledged(self, upto: int) -> None:
        """The hub has stored everything up to this number."""
        await self._store.commit(Dequeue(upto), SetMeta(_ACKED, str(upto)))

    async def acked(self) -> int:
        return int(await self._store.meta(_ACKED) or 0)


def _cursor_op(cursor: Cursor) -> Op:
    return SetMeta(_CURSOR, orjson.dumps({"hub": cursor.hub_store, "revision": cursor.revision}).decode())


def _store_key(key: ItemKey) -> Key:
    return Key(key.kind, key.namespace, key.name)


def _envelope(item: Item) -> bytes:
    """The hub's object with the hub's revision beside it: ours counts its own."""
    return b'{"revision":%d,"object":%s}' % (item.revision, item.value)


def _status_op(record: PodRecord) -> Enqueue:
    assert record.status is not None
    value = {
        "kind": "PodStatus",
        "namespace": record.namespace,
        "name": record.name,
        "uid": record.uid,
        "observedGeneration": record.status.observed_generation or 0,
        "sequence": record.sequence,
        "status": record.status.to_dict(),
    }
    return Enqueue(Lane.LEVEL, f"pods/{record.uid}", orjson.dumps(value))


def _gone_op(record: PodRecord) -> Enqueue:
    value = {"kind": "PodGone", "namespace": record.namespace, "name": record.name, "uid": record.uid}
    return Enqueue(Lane.LEVEL, f"pods/{record.uid}", orjson.dumps(value))
