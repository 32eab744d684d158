"""Every namespace has the hub's certificate authority in a ConfigMap, as everywhere (kube-controller-manager's
root-ca-cert-publisher): charts mount it to trust the API. One that is deleted or changed comes back as it was."""

from __future__ import annotations

import asyncio

from cloudhub.mirror import Mirror, each, level_loop
from kubeapi.core import ConfigMap, Namespace
from kubeapi.meta import ObjectMeta
from kubeapi.objects import Objects

NAME = "kube-root-ca.crt"
_DESCRIPTION = "kubernetes.io/description"
_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCa:
    def __init__(self, objects: Objects, namespaces: Mirror[Namespace], certificate: str) -> None:
        """`certificate` as PEM."""
        self._objects = objects
        self._namespaces = namespaces
        self._data = {"ca.crt": certificate}
        self._published = Mirror(objects, ConfigMap, lambda item: item.metadata.name == NAME)
        self._wake = asyncio.Event()
        namespaces.listen(lambda _: self._wake.set())
        self._published.listen(lambda _: self._wake.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._published.run(), name="root-ca-configmaps")
            await self._namespaces.synced.wait()
            await self._published.synced.wait()
            await level_loop("root certificate", self._wake, self.check)

    async def check(self) -> None:
        living = [item for item in self._namespaces.items.values() if not item.metadata.deletion_timestamp]
        await each((item.metadata.name for item in living), self._publish)

    async def _publish(self, namespace: str) -> None:
        found = self._published.items.get((namespace, NAME))
        if found is None:
            meta = ObjectMeta(name=NAME, namespace=namespace, annotations={_DESCRIPTION: _TEXT})
            await self._objects.create(ConfigMap(metadata=meta, data=self._data))
        elif found.data != self._data and not found.metadata.deletion_timestamp:
            restored = found.copied()
            restored.data, restored.binary_data = self._data, {}
            await self._objects.update(restored)
