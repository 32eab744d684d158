"""What keeps the store from growing without bound: Events are removed by age and number, history is compacted.

Age is counted by the hub's monotonic clock from when it last saw an Event change: a clock that jumps, here or on a
node, must not make everything expire at once (S-12). A restart of the hub starts the count anew.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from cloudhub.mirror import Identity, Mirror, each, level_loop
from cloudhub.settings import EventSettings
from kubeapi.core import Event
from kubeapi.objects import Objects

_SWEEP = 30.0
"""Seconds between two looks at the Events."""


@dataclass(frozen=True, slots=True, order=True)
class Seen:
    """Orders by age, and where that is equal (at the hub's start) by the store's order."""

    at: float
    revision: int


def surplus(seen: Mapping[Identity, Seen], now: float, settings: EventSettings) -> list[Identity]:
    """Which Events to remove: too old, or the oldest above the number that a namespace may have."""
    by_namespace: defaultdict[str, list[tuple[Seen, Identity]]] = defaultdict(list)
    for identity, when in seen.items():
        by_namespace[identity[0]].append((when, identity))
    doomed = []
    for events in by_namespace.values():
        events.sort()
        over = max(0, len(events) - settings.max_per_namespace)
        doomed += [
            identity
            for index, (when, identity) in enumerate(events)
            if index < over or now - when.at > settings.max_age
        ]
    return doomed


class EventRetention:
    def __init__(self, objects: Objects, settings: EventSettings) -> None:
        self._objects = objects
        self._settings = settings
        self.known: dict[Identity, Seen] = {}
        self._events = Mirror(objects, Event)
        self._events.listen(self._changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run(), name="events")
            await level_loop("event retention", asyncio.Event(), self.sweep)

    def _changed(self, event: Event) -> None:
        meta = event.metadata
        identity = (meta.namespace or "", meta.name)
        if identity not in self._events.items:
            self.known.pop(identity, None)
            return
        revision = int(meta.resource_version or 0)
        before = self.known.get(identity)
        if before is None or before.revision != revision:
            self.known[identity] = Seen(asyncio.get_running_loop().time(), revision)

    async def sweep(self) -> float:
        """Returns the seconds until the next."""
        now = asyncio.get_running_loop().time()
        await each(surplus(self.known, now, self._settings), self._remove)
        return _SWEEP

    async def _remove(self, identity: Identity) -> None:
        await self._objects.delete(Event, *identity, grace_seconds=0)
