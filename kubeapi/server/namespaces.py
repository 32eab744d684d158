"""Empties namespaces that are being deleted, then lets them go.

Level-triggered: whatever wakes it, it looks at everything there is. Only what is in a namespace that says it is being
deleted is touched; that a namespace is missing deletes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kubeapi.core import Namespace, NamespaceSpec
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.resource import ResourceType
from kubeapi.server import setbacks
from kubeapi.server.deletion import DeleteOptions
from kubeapi.server.objects import StoreObjects
from metastore.api import Change, Compacted

_log = logging.getLogger(__name__)

DEFAULT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_FINALIZER = "kubernetes"
_RETRY_SECONDS = 5.0


async def ensure_namespaces(objects: StoreObjects, names: tuple[str, ...] = DEFAULT_NAMESPACES) -> None:
    """Create those that are missing: every cluster has them."""
    for name in names:
        try:
            await objects.create(Namespace(metadata=ObjectMeta(name=name)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


class NamespaceJanitor:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._namespaces = objects.registry.of(Namespace)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
                return  # the store was closed
            except Exception as error:  # noqa: BLE001 (a worker: it backs off and looks again)
                setbacks.note(_log, "namespaces that are being deleted", _RETRY_SECONDS, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        while True:
            watch = self._objects.store.watch(self._objects.store.revision)
            try:
                doomed = await self.sweep()
                async for change in watch:
                    if self._matters(change, doomed):
                        doomed = await self.sweep()
                return
            except Compacted:
                continue  # outrun: look at everything again
            finally:
                watch.close()

    def _matters(self, change: Change, doomed: frozenset[str]) -> bool:
        key = change.row.key
        if key.kind != self._namespaces.key:
            return key.namespace in doomed
        return b"deletionTimestamp" in change.row.value

    async def sweep(self) -> frozenset[str]:
        """One pass over everything. Returns the namespaces that are still on their way out."""
        page = await self._objects.page(self._namespaces)
        terminating = {item.row.key.name for item in page.entities if item.obj.metadata.deletion_timestamp}
        waiting: set[str] = set()
        kinds = [item for item in self._objects.registry.stored() if item.namespaced]
        for kind in kinds if terminating else ():
            waiting |= await self._empty(kind, terminating)
        for name in terminating - waiting:
            await self._release(name)
        return frozenset(terminating)

    async def _empty(self, kind: ResourceType[Any], terminating: set[str]) -> set[str]:
        """Delete the objects of that kind in those namespaces; returns the namespaces where some remain."""
        remaining = set()
        for entity in (await self._objects.page(kind)).entities:
            key = entity.row.key
            if key.namespace not in terminating:
                continue
            try:
                options = DeleteOptions(uid=entity.row.uid)
                deleted = await self._objects.delete_object(kind, key.namespace, key.name, options)
            except ApiError as error:
                if error.code not in (404, 409):  # gone already, or another object by now: the next sweep sees
                    raise
                remaining.add(key.namespace)
            else:
                if not deleted.gone:
                    remaining.add(key.namespace)
        return remaining

    async def _release(self, name: str) -> None:
        """Drop the namespace's own finalizer: with it goes the namespace, unless others hold it."""

        def released(namespace: Namespace) -> Namespace:
            namespace.spec = NamespaceSpec(finalizers=[f for f in namespace.spec.finalizers if f != _FINALIZER])
            return namespace

        try:
            await self._objects.change(self._namespaces, None, name, released, "finalize")
        except ApiError as error:
            if error.code != 404:
                raise
