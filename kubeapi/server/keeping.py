"""Keeps the status of quotas and disruption budgets true: both are sums over a namespace.

Level-triggered: a change only marks its namespace; the marked ones are then computed anew from all there is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kubeapi import quantity, quotas
from kubeapi.errors import ApiError
from kubeapi.policies import PodDisruptionBudget, ResourceQuota, ResourceQuotaStatus
from kubeapi.server import evicting, setbacks
from kubeapi.server.objects import StoreObjects
from metastore.api import Compacted

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0
_GATHER_SECONDS = 0.1
"""A burst of changes is summed up once."""
_UNCOUNTED = frozenset({"events", "leases.coordination.k8s.io"})
"""Kinds that come by the thousand, and whose quotas nobody keeps."""


class StatusKeeper:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._marked: set[str] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="status-keeper-follow")
            group.create_task(self._keep(), name="status-keeper")

    async def _follow(self) -> None:
        while True:
            watch = self._objects.store.watch(self._objects.store.revision)
            try:
                self._mark(await self._everywhere())
                async for change in watch:
                    if change.row.key.namespace and change.row.key.kind not in _UNCOUNTED:
                        self._mark({change.row.key.namespace})
                return  # the store was closed
            except Compacted:
                continue  # outrun: look at everything again
            except Exception as error:  # noqa: BLE001 (a worker: it backs off and looks again)
                setbacks.note(_log, "quotas and disruption budgets", _RETRY_SECONDS, error)
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                watch.close()

    def _mark(self, namespaces: set[str]) -> None:
        self._marked |= namespaces
        self._wake.set()

    async def _everywhere(self) -> set[str]:
        found: set[str] = set()
        for model in (ResourceQuota, PodDisruptionBudget):
            page = await self._objects.page(self._objects.registry.of(model))
            found |= {entity.row.key.namespace for entity in page.entities}
        return found

    async def _keep(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(_GATHER_SECONDS)
            marked, self._marked = self._marked, set()
            for namespace in sorted(marked):
                try:
                    await self.refresh(namespace)
                except Exception as error:  # noqa: BLE001 (a worker: it backs off and looks again)
                    setbacks.note(_log, f"the quotas of namespace {namespace}", _RETRY_SECONDS, error)
                    await asyncio.sleep(_RETRY_SECONDS)
                    self._mark({namespace})

    async def refresh(self, namespace: str) -> None:
        """All quotas and budgets of a namespace."""
        for quota in (await self._objects.list(ResourceQuota, namespace)).items:
            await self._write(quota, await self._quota_status(quota))
        for budget in (await self._objects.list(PodDisruptionBudget, namespace)).items:
            await self._write(budget, await evicting.budget_status(self._objects, budget))

    async def _quota_status(self, quota: ResourceQuota) -> ResourceQuotaStatus:
        used = dict.fromkeys(quota.spec.hard, quantity.parse("0"))
        for kind in self._objects.registry.stored():
            if kind.namespaced and kind.key not in _UNCOUNTED and quotas.bounded(kind, quota.spec.hard):
                page = await self._objects.page(kind, quota.metadata.namespace)
                found = quotas.total(quota, kind, (entity.obj for entity in page.entities))
                used = {name: used[name] + found[name] for name in used}
        return ResourceQuotaStatus(hard=dict(quota.spec.hard), used={name: str(value) for name, value in used.items()})

    async def _write(self, obj: Any, status: Any) -> None:
        if obj.status == status:
            return
        obj.status = status
        try:
            await self._objects.update_status(obj)
        except ApiError as error:
            if error.code not in (404, 409):  # gone, or changed meanwhile: that change marks it again
                raise
