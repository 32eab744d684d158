"""Small files that others read while they are written, and that must outlive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o644) -> None:
    """Replace a file in one step: a reader sees what was there before, or all of `content`, never a part.

    Once this returns, the content outlives a power cut. `mode` holds from the first byte. Raises OSError; the old
    file then stays as it was.
    """
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)  # left by a crash, perhaps with another mode
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """The new name is an entry of the directory, and reaches the disk with it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
