"""Watches: a backlog read from the log in pages, then live changes from a bounded buffer."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

from metastore.api import Change, Compacted

Page = Callable[[int, int, frozenset[str] | None], Awaitable[Sequence[Change]]]
"""(after, upto, kinds) → the next changes in that range, oldest first, at most a page of them. Raises Compacted."""


SOME = 64
"""Changes given at once at most."""


class LiveWatch:
    """One watcher. A buffer that overflows ends the watch with Compacted: bounded memory, nothing skipped silently."""

    def __init__(
        self,
        after: int,
        head: int,
        kinds: frozenset[str] | None,
        capacity: int,
        page: Page,
        closed: Callable[[LiveWatch], None],
    ) -> None:
        self._last = after
        self._head = head  # the backlog ends here; what is newer arrives live
        self._kinds = kinds
        self._capacity = capacity
        self._page = page
        self._on_close = closed
        self._backlog: deque[Change] = deque()
        self._live: deque[Change] = deque()
        self._waiter: asyncio.Future[None] | None = None  # a watch has one reader; an Event costs twice as much
        self._overrun = False
        self._poked = False
        self._closed = False

    @property
    def kinds(self) -> frozenset[str] | None:
        return self._kinds

    @property
    def closed(self) -> bool:
        return self._closed

    def offer(self, change: Change) -> None:
        """Called by the store for each committed change, in order."""
        if self._overrun or change.row.revision <= self._last:
            return
        if self._kinds is not None and change.row.key.kind not in self._kinds:
            return
        if len(self._live) >= self._capacity:
            self.overrun()
        else:
            self._live.append(change)
            self._wake()

    def overrun(self) -> None:
        """What comes next is lost to this watcher: after what it holds, it ends."""
        self._overrun = True
        self._wake()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            found = await self._some(1)
            if found:
                return found[0]
            if self._closed:
                raise StopAsyncIteration

    async def some(self) -> Sequence[Change]:
        return await self._some(SOME)

    def poke(self) -> None:
        self._poked = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _some(self, most: int) -> Sequence[Change]:
        while not self._closed:
            if not self._backlog and self._last < self._head:
                await self._read_on()
            waiting = self._backlog or self._live
            if waiting:
                found = [waiting.popleft() for _ in range(min(most, len(waiting)))]
                self._last = found[-1].row.revision
                return found
            if self._overrun:
                self.close()
                raise Compacted(self._last, self._last + 1)
            if self._poked:
                self._poked = False
                break
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return ()

    async def _read_on(self) -> None:
        self._backlog.extend(await self._page(self._last, self._head, self._kinds))
        if not self._backlog:
            self._last = self._head

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wake()
            self._on_close(self)


class Watches:
    """All watches of a store. A change costs those who watch its kind."""

    def __init__(self) -> None:
        self._by_kind: defaultdict[str | None, dict[LiveWatch, None]] = defaultdict(dict)

    def __iter__(self) -> Iterator[LiveWatch]:
        return iter({watch: None for watches in self._by_kind.values() for watch in watches})

    def add(self, watch: LiveWatch) -> None:
        for kind in _kinds(watch):
            self._by_kind[kind][watch] = None

    def discard(self, watch: LiveWatch) -> None:
        for kind in _kinds(watch):
            watches = self._by_kind[kind]
            watches.pop(watch, None)
            if not watches:
                del self._by_kind[kind]

    def offer(self, change: Change) -> None:
        """In the order in which they came."""
        for kind in (change.row.key.kind, None):
            for watch in self._by_kind.get(kind, ()):
                watch.offer(change)


def _kinds(watch: LiveWatch) -> Iterable[str | None]:
    return (None,) if watch.kinds is None else watch.kinds
