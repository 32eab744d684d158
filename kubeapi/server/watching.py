"""A watch as a stream of JSON lines: existing objects where asked for, then changes, bookmarks between, an end in time.

A client that reads more slowly than the cluster changes is told 410 (the store's bounded buffer overran) and lists
again (S-82); one that does not read at all is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from kubeapi import errors
from kubeapi.errors import ApiError
from kubeapi.objects import WatchEventType
from kubeapi.resource import ResourceType
from kubeapi.server.entities import Entity
from kubeapi.server.objects import StoreObjects
from kubeapi.server.queries import WatchOptions
from kubeapi.server.rendering import Renderer
from kubeapi.server.selection import Selection
from metastore.api import Change, ChangeType, Compacted, Row, Watch

BOOKMARK_SECONDS = 60.0
"""Between bookmarks, about as often as the reference sends them."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A change as one watcher sees it."""

    type: WatchEventType
    entity: Entity[Any]


class WatchStream:
    """One watch request. `lines()` is everything the client gets; closing the iterator ends the watch."""

    def __init__(
        self,
        objects: StoreObjects,
        resource: ResourceType[Any],
        selection: Selection,
        renderer: Renderer,
        options: WatchOptions,
    ) -> None:
        self._objects = objects
        self._resource = resource
        self._selection = selection
        self._renderer = renderer
        self._options = options
        self._first = True

    async def lines(self, stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Ends at the timeout, or when `stopping` is set. Errors travel as an ERROR event."""
        try:
            async with aclosing(self._lines(stopping)) as lines:
                async for line in lines:
                    yield line
        except ApiError as error:
            yield _line({"type": "ERROR", "object": error.to_dict()})

    async def _lines(self, stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
        after = self._options.after
        newest = self._objects.store.revision
        if after > newest:
            newest = await self._objects.store.refresh()
        if after > newest:
            # A store that is behind its clients was restored from a copy; what they hold is of another history.
            raise errors.gone(after, newest)
        if not after:
            page = await self._objects.page(self._resource, self._selection.namespace)
            for entity in filter(self._selection.matches, page.entities):
                yield self._event(WatchEventType.ADDED, entity)
            after = page.revision
            if self._options.initial_events and self._options.bookmarks:
                yield _line(self._renderer.bookmark(after, initial_end=True))
        watch = self._objects.open_watch(self._resource, after)
        try:
            async with aclosing(self._changes(watch, stopping)) as lines:
                async for line in lines:
                    yield line
        finally:
            watch.close()

    async def _changes(self, watch: Watch, stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_seconds
        stop = asyncio.create_task(stopping.wait(), name="watch-stop")
        following: asyncio.Task[Change | None] | None = None
        try:
            while (left := deadline - loop.time()) > 0 and not stopping.is_set():
                # What was durable before an idle wait has been delivered after it.
                known = self._objects.store.revision
                following = following or asyncio.create_task(_next(watch), name="watch-next")
                await asyncio.wait(
                    {following, stop}, timeout=min(left, BOOKMARK_SECONDS), return_when=asyncio.FIRST_COMPLETED
                )
                if following.done():
                    change, following = following.result(), None
                    if change is None:
                        return
                    for selected in self._selected(change):
                        yield self._event(selected.type, selected.entity)
                elif self._options.bookmarks:
                    yield _line(self._renderer.bookmark(known, initial_end=False))
        finally:
            for task in (following, stop):
                if task:
                    task.cancel()

    def _event(self, kind: WatchEventType, entity: Entity[Any]) -> bytes:
        first, self._first = self._first, False
        return _line(self._renderer.event(kind.value, entity, first=first))

    def _selected(self, change: Change) -> list[Selected]:
        """An object that an update moved out of the selection is DELETED to this watcher, one moved in is ADDED."""
        entity = self._objects.entities.of(self._resource, change.row)
        matches = self._selection.matches(entity)
        if change.type is ChangeType.DELETE:
            return [Selected(WatchEventType.DELETED, entity)] if matches else []
        if change.row.created == change.row.revision:
            return [Selected(WatchEventType.ADDED, entity)] if matches else []
        if self._selection.everything:
            return [Selected(WatchEventType.MODIFIED, entity)] if matches else []
        if change.previous is None:
            raise errors.gone(change.row.revision - 1, change.row.revision)
        before = self._objects.entities.of(self._resource, change.previous)
        match (self._selection.matches(before), matches):
            case (True, True):
                return [Selected(WatchEventType.MODIFIED, entity)]
            case (False, True):
                return [Selected(WatchEventType.ADDED, entity)]
            case (True, False):
                return [Selected(WatchEventType.DELETED, self._left(before, change.row.revision))]
        return []

    def _left(self, before: Entity[Any], revision: int) -> Entity[Any]:
        row = before.row
        return Entity(self._resource, Row(row.key, row.uid, revision, row.created, row.value))


async def _next(watch: Watch) -> Change | None:
    """None: the store was closed. Raises ApiError 410."""
    try:
        return await watch.__anext__()
    except StopAsyncIteration:
        return None
    except Compacted as error:
        raise errors.gone(error.asked, error.oldest) from error


def _line(event: Any) -> bytes:
    return orjson.dumps(event) + b"\n"
