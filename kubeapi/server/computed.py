"""Kinds that are not in the store: their objects are made when they are asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kubeapi import errors
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.server.entities import Entity, EntityPage
from kubeapi.server.listing import ListPage
from kubeapi.server.paths import Target
from kubeapi.server.rendering import ListMeta
from kubeapi.server.selection import Selection
from metastore.api import Key

Source = Callable[[str, str], Awaitable[Sequence[KubeObject]]]
"""(namespace, name) → objects; empty = any. It may give more than was asked for."""
Sources = Mapping[str, Source]
"""By the kind's key."""


async def read(source: Source, resource: ResourceType[Any], target: Target) -> Entity[Any]:
    """Raises ApiError 404, in metrics-server's words."""
    for obj in await source(target.namespace or "", target.name):
        if obj.metadata.name == target.name and (obj.metadata.namespace or "") == (target.namespace or ""):
            return Entity.of_object(resource, obj)
    full = f"{target.namespace}/{target.name}" if target.namespace else target.name
    raise errors.not_found(resource.kind.lower(), full, resource.group)


async def page(source: Source, resource: ResourceType[Any], selection: Selection) -> ListPage:
    """All of them: such lists have no revisions, so there is nothing to continue from."""
    namespace = selection.namespace or ""
    made = [obj for obj in await source(namespace, "") if namespace in ("", obj.metadata.namespace)]
    entities = [Entity.of_object(resource, obj) for obj in made]
    return ListPage(EntityPage(sorted(filter(selection.matches, entities), key=_key)), ListMeta(0))


def _key(entity: Entity[Any]) -> Key:
    return entity.row.key
