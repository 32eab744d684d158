"""What controllers share: a local mirror of one kind of object, and the level-triggered loop around a pass over it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from kubeapi.clock import woken
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.objects import Objects, WatchEvent, WatchEventType

T = TypeVar("T", bound=KubeObject)
U = TypeVar("U")
Identity = tuple[str, str]
"""(namespace, name)."""

_SHORTEST = 0.05
"""Seconds between two passes that nothing but time asked for."""
_RETRY = 1.0
"""Seconds before the store or API is asked again after it failed."""

_log = logging.getLogger(__name__)


class Mirror(Generic[T]):
    """All objects of a kind as of a moment ago. Read only: what it gives is shared."""

    def __init__(self, objects: Objects, model: type[T], only: Callable[[T], bool] = lambda obj: True) -> None:
        """`only`: what is kept and told of; it must not change in an object's life."""
        self._objects = objects
        self._model = model
        self._only = only
        self._listeners: list[Callable[[T], None]] = []
        self.items: dict[Identity, T] = {}
        self.synced = asyncio.Event()
        self.revision = 0
        """Of the newest change that is taken into account."""
        self._moved = asyncio.Event()

    def listen(self, changed: Callable[[T], None]) -> None:
        """`changed` is called with each object that came, changed or went (its last state)."""
        self._listeners.append(changed)

    async def moved(self) -> None:
        """Until the next change."""
        await self._moved.wait()

    async def reached(self, revision: int) -> None:
        """Until every change up to `revision` is taken into account."""
        while self.revision < revision:
            await self.moved()

    def _advance(self, revision: str | None) -> None:
        self.revision = max(self.revision, int(revision or 0))
        self._moved.set()
        self._moved = asyncio.Event()

    def _changed(self, obj: T) -> None:
        for listener in self._listeners:
            listener(obj)

    async def run(self) -> None:
        """Follow until cancelled; after a gap in the history the kind is listed again."""
        while True:
            try:
                await self._follow()
            except ApiError as error:
                if error.code != 410:
                    _log.warning("cannot follow %s: %s; retrying", self._model.__name__, error)
            await asyncio.sleep(_RETRY)

    async def _follow(self) -> None:
        listing = await self._objects.list(self._model)
        kept = [item for item in listing.items if self._only(item)]
        before, self.items = self.items, {_identity(item): item for item in kept}
        self.synced.set()
        for gone in before.keys() - self.items.keys():
            self._changed(before[gone])
        for item in kept:
            self._changed(item)
        self._advance(listing.resource_version)
        async for event in self._objects.watch(self._model, listing.resource_version):
            self._take(event)

    def _take(self, event: WatchEvent[T]) -> None:
        identity = _identity(event.object)
        if not self._only(event.object):
            self._advance(event.object.metadata.resource_version)
            return
        if event.type is WatchEventType.DELETED:
            self.items.pop(identity, None)
        else:
            self.items[identity] = event.object
        self._changed(event.object)
        self._advance(event.object.metadata.resource_version)


def _identity(obj: KubeObject) -> Identity:
    return obj.metadata.namespace or "", obj.metadata.name


async def level_loop(name: str, wake: asyncio.Event, once: Callable[[], Awaitable[float | None]]) -> None:
    """Run `once` whenever woken, until cancelled. It says after how many seconds it wants to run again at the latest
    (None: only when woken). A pass that the API refuses is logged and tried again."""
    delay: float | None = 0.0
    while True:
        await woken(wake, delay)
        wake.clear()
        try:
            left = await once()
            # A rest so short that the clock cannot tell it from none would be waited for forever.
            delay = None if left is None else max(left, _SHORTEST)
        except ApiError as error:
            _log.warning("%s: %s; retrying", name, error)
            delay = _RETRY
        except Exception:  # noqa: BLE001 (a worker's boundary: one object's fault must not end the hub, again and again)
            _log.exception("%s failed; retrying", name)
            delay = _RETRY


async def each(items: Iterable[U], act: Callable[[U], Awaitable[None]]) -> None:
    """Act on every item; one that is refused does not hold up the others. 404 and 409 mean that the object changed
    meanwhile, which the mirror will show and wake for; the first other error is raised at the end."""
    failed: ApiError | None = None
    for item in items:
        try:
            await act(item)
        except ApiError as error:
            if error.code not in (404, 409):
                failed = failed or error
        # A pass over many objects that need no write must not hold the event loop.
        await asyncio.sleep(0)
    if failed:
        raise failed
