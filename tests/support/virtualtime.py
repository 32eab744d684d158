"""An event loop whose time jumps to the next timer: a simulated hour takes a second."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing will ever happen again: no timer is set and no task can go on."""


class _Selector(selectors.SelectSelector):
    """Never waits: instead of sleeping, the loop's time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Deadlock
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


async def until(condition: Callable[[], bool], patience: float = 600.0) -> None:
    """Simulated seconds pass until the condition holds. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while not condition():
        if loop.time() >= deadline:
            raise TimeoutError(f"not so within {patience} simulated seconds")
        await asyncio.sleep(0.25)
