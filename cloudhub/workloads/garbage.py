"""The garbage collector: what becomes of objects whose owners go (ownerReferences, propagation policies).

It reads the store itself, all kinds by one watch: the order in which owners and dependents changed must not be lost
between kinds, or an object could be deleted that was just let go. Only an owner that is *certainly* gone has its
dependents deleted: one of a kind that is not served here counts as there. An index that lags decides nothing; every
write names the revision it was decided on.

Rules: https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and the reference's attemptToDeleteItem.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from cloudhub.workloads.queue import WorkQueue
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject, ObjectMeta, OwnerReference
from kubeapi.resource import ResourceType
from kubeapi.server.deletion import FOREGROUND, ORPHAN, DeleteOptions, Propagation
from kubeapi.server.entities import key_of
from kubeapi.server.objects import StoreObjects
from metastore.api import Change, ChangeType, Key, Row, StoreError

_RETRY = 5.0
_LAG = 0.02
"""Seconds until the index is asked again whether it has caught up."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Dependent:
    """What the index keeps of an object that has owners."""

    uid: str
    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True, slots=True)
class _Owners:
    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]
    """Being deleted, but not before this dependent is gone."""


class GarbageCollector:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._store = objects.store
        self._queue: WorkQueue[Key] = WorkQueue()
        self._dependents: dict[Key, _Dependent] = {}
        self._by_owner: defaultdict[str, set[Key]] = defaultdict(set)
        self._indexed = 0
        """Revision up to which the index is true."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except* StoreError as errors:  # outrun (then everything is looked at again), or the store is away
                _log.warning("the garbage collector starts again: %s", errors.exceptions[0])
            await asyncio.sleep(_RETRY)

    async def _follow(self) -> None:
        start = self._store.revision
        await self._load(start)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work(), name="garbage worker")
            await self._read(start)

    async def _load(self, start: int) -> None:
        self._dependents.clear()
        self._by_owner.clear()
        for kind in self._objects.registry.stored():
            for row in (await self._store.list(kind.key, at=start)).rows:
                self._note(row)
                if _concerns(row):
                    self._queue.add(row.key)
            await asyncio.sleep(0)
        self._indexed = start

    async def _read(self, start: int) -> None:
        watch = self._store.watch(start)
        try:
            async for change in watch:
                self._take(change)
                self._indexed = change.row.revision
        finally:
            watch.close()

    # The index

    def _take(self, change: Change) -> None:
        row, key = change.row, change.row.key
        before = self._dependents.get(key)
        if change.type is ChangeType.DELETE:
            self._forget(key)
            for dependent in self._by_owner.get(row.uid, ()):
                self._queue.add(dependent)
        else:
            self._note(row)
        after = self._dependents.get(key)
        if before != after:
            for owner in (before or after or _Dependent("", ())).owners:
                self._look_at(owner, key.namespace)
        if change.type is ChangeType.PUT and (before != after or _going(row)):
            self._queue.add(key)

    def _note(self, row: Row) -> None:
        self._forget(row.key)
        if b'"ownerReferences"' not in row.value:
            return
        owners = tuple(_meta(row).owner_references)
        self._dependents[row.key] = _Dependent(row.uid, owners)
        for owner in owners:
            self._by_owner[owner.uid].add(row.key)

    def _forget(self, key: Key) -> None:
        known = self._dependents.pop(key, None)
        for owner in known.owners if known else ():
            self._by_owner[owner.uid].discard(key)
            if not self._by_owner[owner.uid]:
                del self._by_owner[owner.uid]

    def _look_at(self, owner: OwnerReference, namespace: str) -> None:
        """An owner that waits for its dependents counts them again."""
        kind = self._kind_of(owner)
        if kind is not None:
            self._queue.add(key_of(kind, namespace, owner.name))

    def _kind_of(self, reference: OwnerReference) -> ResourceType[KubeObject] | None:
        """Looked up each time: kinds may come and go while the hub runs."""
        wanted = (reference.api_version, reference.kind)
        return next((item for item in self._objects.registry if (item.api_version, item.kind) == wanted), None)

    # The worker

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._check(key)
            except ApiError as error:
                if error.code not in (404, 409):
                    _log.warning("garbage %s: %s; retrying", key, error)
                self._queue.failed(key)
            else:
                self._queue.succeeded(key)

    async def _check(self, key: Key) -> None:
        row = await self._store.get(key)
        kind = self._objects.registry.by_key(key.kind)
        if row is None or kind is None:
            return
        if row.revision > self._indexed:
            self._queue.add_after(key, _LAG)
            return
        meta = _meta(row)
        if meta.deletion_timestamp and ORPHAN in meta.finalizers:
            await self._let_go(kind, row)
        elif meta.deletion_timestamp and FOREGROUND in meta.finalizers:
            await self._wait_for_dependents(kind, row)
        elif meta.owner_references and not meta.deletion_timestamp:
            await self._judge(kind, row, meta)

    async def _let_go(self, kind: ResourceType[KubeObject], row: Row) -> None:
        """Dependents first: the finalizer may go only when none names this owner any more."""
        dependents = [(key, self._dependents[key].uid) for key in sorted(self._by_owner.get(row.uid, ()))]
        for key, uid in dependents:
            dependent = self._objects.registry.by_key(key.kind)
            if dependent is not None:
                await self._drop_owners(dependent, key, uid, {row.uid})
        await self._drop_finalizer(kind, row, ORPHAN)

    async def _wait_for_dependents(self, kind: ResourceType[KubeObject], row: Row) -> None:
        blocking = False
        for key in sorted(self._by_owner.get(row.uid, ())):
            owners = self._dependents[key].owners
            blocking |= any(owner.block_owner_deletion for owner in owners if owner.uid == row.uid)
            self._queue.add(key)
        if not blocking:
            await self._drop_finalizer(kind, row, FOREGROUND)

    async def _judge(self, kind: ResourceType[KubeObject], row: Row, meta: ObjectMeta) -> None:
        owners = await self._owners(row.key, meta)
        if not owners.dangling and not owners.waiting:
            return
        if owners.solid:
            lost = {owner.uid for owner in (*owners.dangling, *owners.waiting)}
            await self._drop_owners(kind, row.key, row.uid, lost)
            return
        # Where the owner waits for this, and others wait for it, they go first, too.
        wait = bool(owners.waiting) and row.uid in self._by_owner
        options = DeleteOptions(
            uid=row.uid,
            resource_version=str(row.revision),
            propagation=Propagation.FOREGROUND if wait else None,
        )
        _log.info("deleting %s: its owner %s goes", row.key, meta.owner_references[0].name)
        await self._objects.delete_object(kind, row.key.namespace, row.key.name, options)

    async def _owners(self, key: Key, meta: ObjectMeta) -> _Owners:
        found = _Owners([], [], [])
        for reference in meta.owner_references:
            kind = self._kind_of(reference)
            if kind is None:
                found.solid.append(reference)
                continue
            owner = await self._store.get(key_of(kind, key.namespace, reference.name))
            if owner is None or owner.uid != reference.uid:
                found.dangling.append(reference)
            elif reference.block_owner_deletion and _deletes_dependents(owner):
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    # Writes

    async def _drop_owners(self, kind: ResourceType[KubeObject], key: Key, uid: str, lost: set[str]) -> None:
        def without(obj: KubeObject) -> KubeObject:
            obj.metadata.owner_references = [item for item in obj.metadata.owner_references if item.uid not in lost]
            return obj

        await self._change(kind, key, uid, without)

    async def _drop_finalizer(self, kind: ResourceType[KubeObject], row: Row, finalizer: str) -> None:
        def without(obj: KubeObject) -> KubeObject:
            obj.metadata.finalizers = [item for item in obj.metadata.finalizers if item != finalizer]
            return obj

        await self._change(kind, row.key, row.uid, without)

    async def _change(
        self, kind: ResourceType[KubeObject], key: Key, uid: str, edit: Callable[[KubeObject], KubeObject]
    ) -> None:
        def guarded(obj: KubeObject) -> KubeObject:
            return edit(obj) if obj.metadata.uid == uid else obj

        try:
            await self._objects.change(kind, key.namespace, key.name, guarded)
        except ApiError as error:
            if error.code != 404:
                raise


def _meta(row: Row) -> ObjectMeta:
    return ObjectMeta.from_dict(orjson.loads(row.value)["metadata"])


def _going(row: Row) -> bool:
    """Being deleted, with dependents to be dealt with."""
    return b'"deletionTimestamp"' in row.value and any(
        f'"{name}"'.encode() in row.value for name in (ORPHAN, FOREGROUND)
    )


def _concerns(row: Row) -> bool:
    return b'"ownerReferences"' in row.value or _going(row)


def _deletes_dependents(owner: Row) -> bool:
    if not _going(owner):
        return False
    meta = _meta(owner)
    return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers
