"""Fan-out of events to any number of listeners, each with a bounded buffer."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import ref

from vmruntime.api import EventType, VmEvent

CAPACITY = 256
RESYNC = VmEvent(EventType.RESYNC, "")


class Subscription:
    """One listener's events, from the moment it was made. A listener that falls behind finds one RESYNC instead."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: deque[VmEvent] = deque()
        self._capacity = capacity
        self._changed = asyncio.Event()
        self._closed = False

    def push(self, event: VmEvent) -> None:
        if len(self._events) >= self._capacity:
            self._events.clear()
            event = RESYNC
        self._events.append(event)
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> VmEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()


class Publisher:
    """Holds its subscriptions weakly: a listener that is dropped stops being served."""

    def __init__(self) -> None:
        self._subscriptions: list[ref[Subscription]] = []
        self._closed = False

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        if self._closed:
            subscription.close()
        self._subscriptions.append(ref(subscription))
        return subscription

    def publish(self, event: VmEvent) -> None:
        for subscription in self._living():
            subscription.push(event)

    def close(self) -> None:
        self._closed = True
        for subscription in self._living():
            subscription.close()

    def _living(self) -> list[Subscription]:
        """In the order they subscribed, so that a simulation wakes its listeners the same way each time."""
        living = [subscription for entry in self._subscriptions if (subscription := entry()) is not None]
        self._subscriptions = [ref(subscription) for subscription in living]
        return living
