"""Keys of objects to look at: each at most once, later ones on time, failing ones ever more rarely."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST, _MOST = 0.25, 60.0
"""Seconds before the first and between the later attempts at a key that fails."""


class WorkQueue(Generic[K]):
    """For one worker. All times are the event loop's."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._failures: Counter[K] = Counter()
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        self._ready[key] = None
        self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """The earliest time asked for counts."""
        loop = asyncio.get_running_loop()
        known = self._later.get(key)
        if known is not None:
            if known.when() <= loop.time() + seconds:
                return
            known.cancel()
        self._later[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._later.pop(key, None)
        self.add(key)

    async def get(self) -> K:
        """The key that waits longest."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def failed(self, key: K) -> None:
        self.add_after(key, min(_FIRST * 2.0 ** min(self._failures[key], 16), _MOST))
        self._failures[key] += 1

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)

    def close(self) -> None:
        for handle in self._later.values():
            handle.cancel()
        self._later.clear()
