"""Admission: the chain of plug-ins that every write goes through, and the quotas around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from kubeapi import quotas
from kubeapi.meta import KubeObject
from kubeapi.policies import ResourceQuota
from kubeapi.resource import ResourceType
from kubeapi.server import caller
from kubeapi.server.chain import Chain, Operation, Request
from kubeapi.server.customrules import CustomRules
from kubeapi.server.evaluator import Evaluator
from kubeapi.server.plugins import RESIZE, LimitRanger, PodDefaults, PodResize, Priority, RuntimeClasses, known
from kubeapi.server.validatingpolicies import ValidatingPolicies
from kubeapi.server.webhookcalls import WebhookCaller
from kubeapi.server.webhooks import MutatingWebhooks, ValidatingWebhooks

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

T = TypeVar("T", bound=KubeObject)


class Admission:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._evaluator = Evaluator()
        self._calls = WebhookCaller(objects)
        limits = LimitRanger(objects)
        defaults = PodDefaults(limits, Priority(objects), RuntimeClasses(objects))
        self._chain = Chain(
            mutating=(defaults, MutatingWebhooks(objects, self._calls, self._evaluator, defaults)),
            validating=(
                PodResize(objects),
                limits,
                CustomRules(self._evaluator),
                ValidatingPolicies(objects, self._evaluator),
                ValidatingWebhooks(objects, self._calls, self._evaluator),
            ),
        )

    async def mutate(
        self, resource: ResourceType[T], new: T, old: T | None, subresource: str = "", *, dry_run: bool = False
    ) -> T:
        """`new`, completed and changed; it may be another object. Raises ApiError 400, 403, 500, or a webhook's own."""
        request = _request(resource, new, old, subresource, dry_run)
        await self._chain.mutate(request)
        assert isinstance(request.new, resource.model)  # a plug-in puts nothing else there
        return request.new

    async def validate(
        self, resource: ResourceType[T], new: T, old: T | None, subresource: str = "", *, dry_run: bool = False
    ) -> None:
        """Raises ApiError 403, 422, 500, or a webhook's own."""
        await self._chain.validate(_request(resource, new, old, subresource, dry_run))

    async def admit_deletion(self, resource: ResourceType[T], old: T, *, dry_run: bool = False) -> None:
        """Raises as `validate`."""
        request = _request(resource, None, old, "", dry_run)
        await self._chain.mutate(request)
        await self._chain.validate(request)

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

    async def close(self) -> None:
        """Ends what was started for it; should something be admitted after that, it starts again."""
        await self._calls.close()
        await self._evaluator.close()

    async def _quotas(self, resource: ResourceType[Any], namespace: str) -> list[ResourceQuota]:
        listed = await known(self._objects, ResourceQuota, namespace)
        return [quota for quota in listed if quotas.bounded(resource, quota.spec.hard)]


def _request(
    resource: ResourceType[Any], new: KubeObject | None, old: KubeObject | None, subresource: str, dry_run: bool
) -> Request:
    operation = Operation.CREATE if old is None else Operation.DELETE if new is None else Operation.UPDATE
    return Request(operation, resource, caller.current(), new, old, subresource, dry_run)
