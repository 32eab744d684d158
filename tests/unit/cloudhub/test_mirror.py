"""What keeps a controller going."""

from __future__ import annotations

import asyncio

import pytest

from cloudhub import mirror
from kubeapi.errors import ApiError, unavailable


@pytest.mark.parametrize("fault", [unavailable("the store is away"), OverflowError("an object nobody thought of")])
async def test_a_pass_that_fails_is_tried_again(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also for what is a fault of ours: the hub must not end, start, meet the same object, and end again."""
    monkeypatch.setattr(mirror, "_RETRY", 0.001)
    passes, enough = 0, asyncio.Event()

    async def once() -> float | None:
        nonlocal passes
        passes += 1
        if passes == 1:
            raise fault
        enough.set()
        return None

    loop = asyncio.create_task(mirror.level_loop("test", asyncio.Event(), once))
    async with asyncio.timeout(5):
        await enough.wait()
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert ("Traceback" in caplog.text) == (not isinstance(fault, ApiError))
