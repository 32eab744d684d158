"""The service account that every namespace has."""

from __future__ import annotations

from pathlib import Path

from kubeapi.core import Namespace, ServiceAccount
from kubeapi.meta import ObjectMeta
from tests.support.hub import in_memory, lab, until


async def test_every_namespace_has_a_default_account_and_gets_it_again(tmp_path: Path) -> None:
    async with lab(tmp_path, in_memory()) as hub:

        async def account(namespace: str) -> ServiceAccount:
            return await hub.objects.get(ServiceAccount, namespace, "default")

        await until(lambda: account("kube-system"))
        await hub.objects.create(Namespace(metadata=ObjectMeta(name="new")))
        first = await until(lambda: account("new"))
        await hub.objects.delete(ServiceAccount, "new", "default")

        async def another() -> bool:
            return bool((await account("new")).metadata.uid != first.metadata.uid)

        await until(another)
        await hub.objects.delete(Namespace, None, "new")

        async def gone() -> bool:
            return "new" not in {item.metadata.name for item in (await hub.objects.list(Namespace)).items}

        await until(gone, "the account does not hold the namespace, nor come back into it")
