"""A "newc" cpio archive, the form in which Linux takes an initramfs (Documentation/driver-api/early-userspace).

Reproducible: entries sorted, owner root, times zero, inode numbers counted up. Pure.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    """Relative, without a leading slash."""
    mode: int
    """File type and permissions, as in `st_mode`."""
    content: bytes = b""
    """A file's bytes, or a symbolic link's target."""
    device: tuple[int, int] = (0, 0)
    """Major and minor of a device node."""


def directory(path: str) -> Entry:
    return Entry(path, stat.S_IFDIR | 0o755)


def file(path: str, content: bytes, *, executable: bool = False) -> Entry:
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), content)


def symlink(path: str, target: str) -> Entry:
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def character_device(path: str, major: int, minor: int) -> Entry:
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """Parents that no entry names are made. A path named twice raises ValueError."""
    by_path: dict[str, Entry] = {}
    for entry in entries:
        if entry.path in by_path:
            raise ValueError(f"{entry.path} is in the archive twice")
        by_path[entry.path] = entry
    for path in list(by_path):
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            parent = "/".join(parts[:end])
            by_path.setdefault(parent, directory(parent))
    blocks = [_block(number, by_path[path]) for number, path in enumerate(sorted(by_path), start=1)]
    blocks.append(_block(0, Entry("TRAILER!!!", 0)))
    whole = b"".join(blocks)
    return whole + b"\0" * (-len(whole) % 512)


def _block(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
