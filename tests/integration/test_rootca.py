"""The hub's certificate authority in every namespace."""

from __future__ import annotations

from pathlib import Path

from cloudhub.rootca import NAME
from kubeapi.core import ConfigMap, Namespace
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from tests.support.hub import in_memory, lab, until


async def test_it_is_there_comes_back_and_goes_with_its_namespace(tmp_path: Path) -> None:
    async with lab(tmp_path / "hub", in_memory()) as here:
        authority = (tmp_path / "hub" / "ca.crt").read_text()

        async def as_it_should_be(namespace: str) -> ConfigMap | None:
            found = await here.objects.get(ConfigMap, namespace, NAME)
            return found if found.data == {"ca.crt": authority} else None

        await here.objects.create(Namespace(metadata=ObjectMeta(name="edge")))
        published: ConfigMap = await until(lambda: as_it_should_be("edge"), "published in a new namespace")
        await until(lambda: as_it_should_be("kube-system"), "published in those that were there")
        published.data = {"ca.crt": "another"}
        await here.objects.update(published)
        await until(lambda: as_it_should_be("edge"), "what was changed is put right")
        await here.objects.delete(ConfigMap, "edge", NAME)
        await until(lambda: as_it_should_be("edge"), "what was deleted comes back")
        await here.objects.delete(Namespace, None, "edge")

        async def gone() -> bool:
            try:
                await here.objects.get(Namespace, None, "edge")
            except ApiError as error:
                return error.code == 404
            return False

        await until(gone, "it holds up no namespace")
