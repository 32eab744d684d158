"""For every test: no event loop but those that tests ask for."""

from __future__ import annotations

import asyncio


def pytest_sessionstart() -> None:
    # looptime looks for the current loop in synchronous tests too, and asking makes one, which nobody would close.
    # Once a loop has been set, even to none, asking raises instead, which looptime expects.
    asyncio.set_event_loop(None)
