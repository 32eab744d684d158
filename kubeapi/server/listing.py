"""One page of a list: as of now or of a revision, selected, cut at the limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kubeapi import errors
from kubeapi.resource import ResourceType
from kubeapi.server.continuation import Continuation
from kubeapi.server.entities import Entity, EntityPage
from kubeapi.server.objects import Page, StoreObjects
from kubeapi.server.queries import ListOptions, Match
from kubeapi.server.rendering import ListMeta
from kubeapi.server.selection import Selection
from metastore.api import Compacted


@dataclass(frozen=True, slots=True)
class ListPage:
    entities: tuple[Entity[Any], ...]
    meta: ListMeta


async def page(
    objects: StoreObjects, resource: ResourceType[Any], selection: Selection, options: ListOptions
) -> ListPage:
    """Raises ApiError 410 for a past that is gone, 504 for a revision that has not been."""
    found = await _read(objects, resource, selection, options)
    matching = _chosen(found.entities, selection, options.resume)
    if not options.limit or len(matching) <= options.limit:
        return ListPage(matching, ListMeta(found.revision))
    last = matching[options.limit - 1].row.key
    scope = "" if selection.namespace else last.namespace
    token = Continuation(found.revision, scope, last.name).encode()
    # With a selector the reference does not count what is left, since it would have to read it.
    remaining = len(matching) - options.limit if selection.everything else None
    return ListPage(EntityPage(matching[: options.limit]), ListMeta(found.revision, token, remaining))


def _chosen(entities: EntityPage[Any], selection: Selection, resume: Continuation | None) -> EntityPage[Any]:
    """Of the selection's namespace already."""
    if resume:
        entities = EntityPage(item for item in entities if not resume.passed(item.row.key.namespace, item.row.key.name))
    return entities if selection.everything else EntityPage(filter(selection.matches, entities))


async def _read(
    objects: StoreObjects, resource: ResourceType[Any], selection: Selection, options: ListOptions
) -> Page[Any]:
    newest = objects.store.revision
    if options.revision > newest:
        newest = await objects.store.refresh()
    if options.match is not Match.NEWEST and options.revision > newest:
        raise errors.too_large_version(options.revision, newest)
    resume = options.resume
    at = options.revision if options.match is Match.EXACT else None
    if resume and resume.revision > 0:
        at = min(resume.revision, newest)
    try:
        return await objects.page(resource, selection.namespace, at=at)
    except Compacted as error:
        if resume:
            raise errors.continue_expired(replace(resume, revision=-1).encode()) from error
        raise errors.gone(error.asked, error.oldest) from error
