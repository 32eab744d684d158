"""For every test: no event loop but those that tests ask for, and no judging by the clock."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings

# How long an example takes says more of what else the machine does than of the test.
settings.register_profile("copepod", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("copepod")


def pytest_sessionstart() -> None:
    # looptime looks for the current loop in synchronous tests too, and asking makes one, which nobody would close.
    # Once a loop has been set, even to none, asking raises instead, which looptime expects.
    asyncio.set_event_loop(None)
