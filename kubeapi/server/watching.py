"""A watch as a stream of JSON lines: existing objects where asked for, then changes, bookmarks between, an end in time.

A client that reads more slowly than the cluster changes is told 410 (the store's bounded buffer overran) and lists
again (S-82); one that does not read at all is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
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
from kubeapi.server.sharing import SharedLines
from metastore.api import Change, ChangeType, Compacted, Row, Watch

BOOKMARK_SECONDS = 60.0
"""Between bookmarks, about as often as the reference sends them."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A change as one watcher sees it."""

    type: WatchEventType
    entity: Entity[Any]


class WatchStream:
    """One watch request. `chunks()` is everything the client gets; closing the iterator ends the watch."""

    def __init__(
        self,
        objects: StoreObjects,
        resource: ResourceType[Any],
        selection: Selection,
        renderer: Renderer,
        options: WatchOptions,
        shared: SharedLines | None = None,
    ) -> None:
        self._objects = objects
        self._resource = resource
        self._selection = selection
        self._renderer = renderer
        self._options = options
        self._shared = shared or SharedLines()
        selectors = (options.label_selector, options.field_selector)
        self._audience = self._shared.audience(resource, (selection.namespace, selectors, renderer.form))
        self._begins_differently = renderer.begins_differently
        self._begun = False

    async def chunks(self, stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Whole lines, as many as there are to say. Ends at the timeout, or when `stopping` is set. Errors travel as an
        ERROR event."""
        try:
            after = self._options.after
            if not after:
                page = await self._objects.page(self._resource, self._selection.namespace)
                for entity in filter(self._selection.matches, page.entities):
                    yield self._event(WatchEventType.ADDED, entity)
                after = page.revision
                if self._options.initial_events and self._options.bookmarks:
                    yield _line(self._renderer.bookmark(after, initial_end=True))
            else:
                await self._require_known(after)
            watch = self._objects.open_watch(self._resource, after)
            # One task and two timers for the whole watch, none for an event: there may be thousands of watches.
            stop = asyncio.create_task(_poked_by(stopping, watch), name="watch-stop")
            try:
                async with aclosing(self._changes(watch, stopping)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                stop.cancel()
                watch.close()
        except ApiError as error:
            yield _line({"type": "ERROR", "object": error.to_dict()})

    async def _require_known(self, after: int) -> None:
        """Raises ApiError 410: a store that is behind its clients was restored from a copy; what they hold is of
        another history."""
        newest = self._objects.store.revision
        if after > newest:
            newest = await self._objects.store.refresh()
        if after > newest:
            raise errors.gone(after, newest)

    async def _changes(self, watch: Watch, stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_seconds
        end = loop.call_at(deadline, watch.poke)
        rest = _Rest(watch, BOOKMARK_SECONDS) if self._options.bookmarks else None
        try:
            while loop.time() < deadline and not stopping.is_set() and self._declared():
                # What was durable before an idle wait has been delivered after it.
                known = self._objects.store.revision
                changes = await _some(watch)
                if changes and rest:
                    rest.disturbed()
                if chunk := b"".join(map(self._line, changes)):
                    yield chunk
                if watch.closed:
                    return
                if not changes and rest and rest.over():
                    yield _line(self._renderer.bookmark(known, initial_end=False))
        finally:
            end.cancel()
            if rest:
                rest.cancel()

    def _declared(self) -> bool:
        """A kind that users define may go, or get another schema: its watches end, as soon as they are awake."""
        kind = self._resource
        return self._objects.registry.find(kind.group, kind.version, kind.plural) is kind

    def _line(self, change: Change) -> bytes:
        if self._begins_differently and not self._begun:
            return self._said(change)
        return self._shared.of(self._audience, change, self._said)

    def _said(self, change: Change) -> bytes:
        """To everybody in the audience, whenever their watches began."""
        renderer = self._renderer.at(self._objects.clock.now())
        return b"".join(self._event(selected.type, selected.entity, renderer) for selected in self._selected(change))

    def _event(self, kind: WatchEventType, entity: Entity[Any], renderer: Renderer | None = None) -> bytes:
        begun, self._begun = self._begun, True
        return _line((renderer or self._renderer).event(kind.value, entity, first=not begun))

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


class _Rest:
    """Says when nothing was to be said for `seconds`, and pokes the watch then."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._watch = watch
        self._seconds = seconds
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if now >= self._due:
            self._watch.poke()
        self._timer = self._loop.call_at(max(self._due, now + self._seconds), self._ring)

    def disturbed(self) -> None:
        self._due = self._loop.time() + self._seconds

    def over(self) -> bool:
        """Whether it is; then the next begins."""
        over = self._loop.time() >= self._due
        if over:
            self.disturbed()
        return over

    def cancel(self) -> None:
        self._timer.cancel()


async def _poked_by(event: asyncio.Event, watch: Watch) -> None:
    await event.wait()
    watch.poke()


async def _some(watch: Watch) -> Sequence[Change]:
    """Raises ApiError 410."""
    try:
        return await watch.some()
    except Compacted as error:
        raise errors.gone(error.asked, error.oldest) from error


def _line(event: Any) -> bytes:
    return orjson.dumps(event) + b"\n"
