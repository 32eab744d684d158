"""Reading and following the serial console's log, which virtlogd writes and rotates (its size is bounded there)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

FOLLOW_SECONDS = 0.2


def read_all(log: Path) -> bytes:
    """Rotated files too (`log.2`, `log.1`, `log.0`), oldest first. Empty where nothing was written yet."""
    rotated = [path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit()]
    rotated.sort(key=lambda path: int(path.suffix[1:]), reverse=True)
    return b"".join(_read(path, 0) for path in [*rotated, log])


def last_lines(text: bytes, count: int) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join(lines[max(len(lines) - count, 0) :])


@dataclass
class _Place:
    inode: int
    offset: int


def _place(log: Path) -> _Place:
    try:
        seen = log.stat()
    except OSError:
        return _Place(0, 0)
    return _Place(seen.st_ino, seen.st_size)


def read_on(log: Path, place: _Place) -> bytes:
    """What came since, and move the place there. A rotation in between starts with the new file."""
    seen = _place(log)
    if seen.inode != place.inode or seen.offset < place.offset:
        place.inode, place.offset = seen.inode, 0
    fresh = _read(log, place.offset)
    place.offset += len(fresh)
    return fresh


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as source:
            source.seek(offset)
            return source.read()
    except OSError:
        return b""


async def follow(
    log: Path, *, tail: int | None, follows: bool, is_running: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Until the VM is off and everything it wrote has been given."""
    place = await asyncio.to_thread(_place, log)
    text = await asyncio.to_thread(read_all, log)
    start = text if tail is None else last_lines(text, tail)
    if start:
        yield start
    while follows:
        goes_on = await is_running()
        fresh = await asyncio.to_thread(read_on, log, place)
        if fresh:
            yield fresh
        elif not goes_on:
            return
        await asyncio.sleep(FOLLOW_SECONDS)
