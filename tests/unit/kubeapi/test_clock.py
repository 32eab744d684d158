"""Time at the edges: timestamps, and waits that a cancellation always ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from kubeapi.clock import parse_timestamp, timestamp, woken


def test_timestamps_round_trip_in_whole_seconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    assert timestamp(moment) == "2026-01-02T03:04:05Z"
    assert parse_timestamp("2026-01-02T03:04:05.5Z").microsecond == 500_000


@pytest.mark.looptime
async def test_waits_end_by_the_event_or_by_time() -> None:
    event = asyncio.Event()
    assert not await woken(event, 5.0)
    event.set()
    assert await woken(event, None)
    assert await woken(event, 0.0)


async def test_a_cancellation_that_comes_with_the_event_is_not_lost() -> None:
    """A worker that is woken and ended at the same moment ends."""
    event, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            while True:
                event.clear()
                await woken(event, 60.0)
        finally:
            ended.set()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)
    task.cancel()
    event.set()
    await asyncio.wait({task}, timeout=5)
    assert ended.is_set()
