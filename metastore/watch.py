"""Watches: a backlog read from the log in pages, then live changes from a bounded buffer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from metastore.api import Change, Compacted

Page = Callable[[int, int, frozenset[str] | None], Awaitable[Sequence[Change]]]
"""(after, upto, kinds) → the next changes in that range, oldest first, at most a page of them. Raises Compacted."""


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
        self._wake = asyncio.Event()
        self._overrun = False
        self._closed = False

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
            self._wake.set()

    def overrun(self) -> None:
        """What comes next is lost to this watcher: after what it holds, it ends."""
        self._overrun = True
        self._wake.set()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            if self._closed:
                raise StopAsyncIteration
            change = await self._next()
            if change is not None:
                self._last = change.row.revision
                return change
            if self._overrun:
                self.close()
                raise Compacted(self._last, self._last + 1)
            self._wake.clear()
            await self._wake.wait()

    async def _next(self) -> Change | None:
        if not self._backlog and self._last < self._head:
            self._backlog.extend(await self._page(self._last, self._head, self._kinds))
            if not self._backlog:
                self._last = self._head
        if self._backlog:
            return self._backlog.popleft()
        return self._live.popleft() if self._live else None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wake.set()
            self._on_close(self)
