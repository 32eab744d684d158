"""Admission that must look at other objects, between a kind's own validation and the write. The rules are pure
(`kubeapi.admission`, `podclasses`, `quotas`, `disruption`); this fetches what they look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from kubeapi import admission, podclasses, quotas, virtualmachineform
from kubeapi.core import LimitRange, Node, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.policies import PriorityClass, ResourceQuota, RuntimeClass
from kubeapi.resource import ResourceType

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

RESIZE = "resize"


def _resizes(subresource: str, new: Pod, old: Pod) -> bool:
    """By the subresource; in Arktos' form by an ordinary update as well."""
    if subresource == RESIZE:
        return new.spec != old.spec
    return not subresource and virtualmachineform.resizes(new.spec, old.spec)


M = TypeVar("M", bound=KubeObject)


class Admission:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def complete(self, obj: KubeObject) -> None:
        """Fill in what policies and classes give to a new object. Raises ApiError 403."""
        if not isinstance(obj, Pod):
            return
        form = virtualmachineform.form_of(obj)
        admission.apply_limit_defaults(obj, await self._limit_ranges(obj))
        podclasses.apply_priority(obj, await self._all(PriorityClass))
        podclasses.apply_runtime(obj, await self._found(RuntimeClass, obj.spec.runtime_class_name))
        virtualmachineform.realign(obj, form)

    async def admit(self, subresource: str, new: KubeObject, old: KubeObject | None) -> None:
        """Raises ApiError 403."""
        if not isinstance(new, Pod):
            return
        if old is None:
            admission.admit_limits(new, await self._limit_ranges(new))
        elif isinstance(old, Pod) and _resizes(subresource, new, old):
            admission.admit_resize(new, old, await self._found(Node, new.spec.node_name))
            admission.admit_limits(new, await self._limit_ranges(new))

    @asynccontextmanager
    async def reserving(
        self, resource: ResourceType[Any], subresource: str, new: KubeObject, old: KubeObject | None
    ) -> AsyncIterator[None]:
        """Around the write: checks that the namespace's quotas have room, which nobody else is given meanwhile.

        Several hub replicas do not see each other's: together they may overrun a quota by what they write at once.
        Raises ApiError 403.
        """
        namespace = new.metadata.namespace or ""
        found = await self._quotas(resource, namespace) if subresource in ("", RESIZE) and namespace else []
        if not found:
            yield
            return
        async with self.locked(namespace):
            page = await self._objects.page(resource, namespace, known=True)
            held = [entity.obj for entity in page.entities]
            for quota in found:
                quotas.check(quota, resource, new, old, quotas.total(quota, resource, held))
            yield

    def locked(self, namespace: str) -> asyncio.Lock:
        """For decisions that rest on the sum of a namespace's objects."""
        return self._locks.setdefault(namespace, asyncio.Lock())

    async def _quotas(self, resource: ResourceType[Any], namespace: str) -> list[ResourceQuota]:
        return [
            quota for quota in await self._all(ResourceQuota, namespace) if quotas.bounded(resource, quota.spec.hard)
        ]

    async def _limit_ranges(self, pod: Pod) -> Sequence[LimitRange]:
        return await self._all(LimitRange, pod.metadata.namespace)

    async def _all(self, model: type[M], namespace: str | None = None) -> Sequence[M]:
        """Read only: what it gives is shared. The request has read already, and so has refreshed what is known."""
        page = await self._objects.page(self._objects.registry.of(model), namespace, known=True)
        return [entity.obj for entity in page.entities]

    async def _found(self, model: type[M], name: str | None) -> M | None:
        if not name:
            return None
        try:
            return await self._objects.get(model, None, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
