"""Waiting for what nothing announces: a socket that answers, a file that appears, a field that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

POLL = 0.05
"""Seconds between two looks."""


class NotReached(Exception):
    """The deadline passed; the message says what was waited for and what was seen last."""


async def until(condition: Callable[[], bool], what: str, timeout: float) -> None:
    """Return when `condition` holds. Raises NotReached."""
    try:
        async with asyncio.timeout(timeout):
            while not condition():  # noqa: ASYNC110 - nothing would set an Event
                await asyncio.sleep(POLL)
    except TimeoutError as error:
        raise NotReached(f"{what}: not within {timeout:.0f} s") from error


async def until_none(look: Callable[[], Awaitable[str | None]], what: str, timeout: float) -> None:
    """Return when `look` has nothing left to complain of. Raises NotReached with its last complaint."""
    complaint: str | None = "not looked yet"
    try:
        async with asyncio.timeout(timeout):
            while True:
                complaint = await look()
                if complaint is None:
                    return
                await asyncio.sleep(POLL)
    except TimeoutError as error:
        raise NotReached(f"{what}: not within {timeout:.0f} s ({complaint})") from error
