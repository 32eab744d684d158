"""Where wall-clock time and fresh identities enter the program.

Wall-clock time is for people only (timestamps in objects); everything that waits or compares uses the event loop's
monotonic time. Composition roots make one `SystemClock`; simulations bring their own.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall-clock time, in UTC."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def new_uid() -> str:
    """A fresh random UUID, as Kubernetes gives to every object."""
    return str(uuid.uuid4())


def timestamp(moment: datetime) -> str:
    """RFC 3339 with whole seconds, as `metav1.Time` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """RFC 3339 with microseconds, as `metav1.MicroTime` is written; Go clients read it with all six digits only."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime:
    """Inverse of `timestamp`; accepts fractions (`metav1.MicroTime`). Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def later(moment: datetime, seconds: float) -> datetime:
    """`moment` + `seconds`, within what a date can be: what people ask for may lie beyond the year 9999."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if seconds > 0 else datetime.min.replace(tzinfo=UTC)


async def woken(event: asyncio.Event, within: float | None) -> bool:
    """Wait for the event, at most so many seconds (None: for ever); whether it came.

    In place of asyncio.wait_for, which before Python 3.12 loses a cancellation that arrives together with the result
    (https://github.com/python/cpython/issues/86296): a daemon told to end would run on.
    """
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True
