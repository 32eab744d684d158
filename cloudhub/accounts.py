"""Every namespace has a service account `default`, as everywhere: charts add pull secrets to it, people ask it for
tokens (`kubectl create token default`). One that is deleted comes back."""

from __future__ import annotations

import asyncio

from cloudhub.mirror import Mirror, each, level_loop
from kubeapi.core import Namespace, ServiceAccount
from kubeapi.meta import ObjectMeta
from kubeapi.objects import Objects

NAME = "default"


class DefaultAccounts:
    def __init__(self, objects: Objects, namespaces: Mirror[Namespace]) -> None:
        self._objects = objects
        self._namespaces = namespaces
        self._accounts = Mirror(objects, ServiceAccount)
        self._wake = asyncio.Event()
        namespaces.listen(lambda _: self._wake.set())
        self._accounts.listen(lambda _: self._wake.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._accounts.run(), name="service-accounts")
            await self._namespaces.synced.wait()
            await self._accounts.synced.wait()
            await level_loop("default service accounts", self._wake, self.check)

    async def check(self) -> None:
        await each(self._without(), self._create)

    def _without(self) -> list[str]:
        return [
            namespace.metadata.name
            for namespace in self._namespaces.items.values()
            if not namespace.metadata.deletion_timestamp and (namespace.metadata.name, NAME) not in self._accounts.items
        ]

    async def _create(self, namespace: str) -> None:
        await self._objects.create(ServiceAccount(metadata=ObjectMeta(name=NAME, namespace=namespace)))
