"""Custom resources in a whole hub: owners and owned across kinds, and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubeapi.apiextensions import CustomResourceDefinition
from kubeapi.core import ConfigMap
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject, ObjectMeta, OwnerReference
from kubeapi.objects import Objects
from kubeapi.server.deletion import DeleteOptions
from tests.support.hub import Lab, in_memory, lab, until

_SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}


def _definition() -> CustomResourceDefinition:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version],
    }
    return CustomResourceDefinition.from_dict({"metadata": {"name": "things.example.com"}, "spec": spec})


async def _things(made: Lab) -> Any:
    await until(lambda: made.hub.objects.registry.by_key("things.example.com"), "things are served")
    return made.hub.objects.registry.by_key("things.example.com")


def _owned(name: str, owner: KubeObject) -> ObjectMeta:
    meta = owner.metadata
    reference = OwnerReference(api_version=owner.api_version, kind=owner.kind, name=meta.name, uid=meta.uid or "")
    return ObjectMeta(name=name, namespace="default", owner_references=[reference])


async def _gone(objects: Objects, model: type[KubeObject], name: str) -> bool:
    try:
        await objects.get(model, "default", name)
    except ApiError as error:
        return error.code == 404
    return False


async def test_owners_and_owned_may_be_of_custom_kinds_and_all_outlive_a_restart(tmp_path: Path) -> None:
    async with lab(tmp_path, in_memory()) as made:
        await made.objects.create(_definition())
        things = await _things(made)
        thing = await made.objects.create(things.model.from_dict({"metadata": {"name": "a", "namespace": "default"}}))
        await made.objects.create(ConfigMap(metadata=_owned("of-a", thing)))
        config = await made.objects.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace="default")))
        await made.objects.create(things.model(metadata=_owned("b", config)))
    async with lab(tmp_path, in_memory()) as made:
        things = made.hub.objects.registry.by_key("things.example.com")
        assert things is not None, "served before anybody asks"
        assert (await made.objects.get(things.model, "default", "b")).metadata.owner_references
        await made.hub.objects.delete_object(things, "default", "a", DeleteOptions())
        await until(lambda: _gone(made.objects, ConfigMap, "of-a"), "what a custom object owned goes with it")
        await made.objects.delete(ConfigMap, "default", "owner")
        await until(lambda: _gone(made.objects, things.model, "b"), "an owned custom object goes with its owner")
