"""A small disk for one node, which can be filled: a tmpfs over its state directory. Needs root."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from edgelab.faults import FaultError

_FILLER = "filler"
_BLOCK = 4096


class SmallDisk:
    """Mounted while it is entered; what is on it then stays behind in the directory."""

    def __init__(self, directory: Path, mib: int) -> None:
        self._directory, self._mib = directory, mib

    async def __aenter__(self) -> Self:
        if os.geteuid() != 0:
            raise FaultError("a small disk is a mount, which needs root: run the lab with sudo")
        await _run("mount", "-t", "tmpfs", "-o", f"size={self._mib}m,mode=0700", "copepod-lab", str(self._directory))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.free()
        kept = self._directory.with_name(f"{self._directory.name}.kept")
        await asyncio.to_thread(shutil.copytree, self._directory, kept)
        await _run("umount", str(self._directory))
        await asyncio.to_thread(shutil.copytree, kept, self._directory, dirs_exist_ok=True)
        await asyncio.to_thread(shutil.rmtree, kept)

    async def fill(self) -> None:
        """Not a block is free."""
        await asyncio.to_thread(_fill, self._directory / _FILLER)

    async def free(self) -> None:
        await asyncio.to_thread((self._directory / _FILLER).unlink, missing_ok=True)


def _fill(path: Path) -> None:
    with open(path, "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * _BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


async def unmount_below(root: Path) -> None:
    """What a lab that was killed left mounted."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]  # noqa: ASYNC240
    for point in sorted((Path(mount) for mount in mounts if Path(mount).is_relative_to(root)), reverse=True):
        await _run("umount", str(point))


async def _run(*command: str) -> None:
    """Raises FaultError."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, complaint = await process.communicate()
    if process.returncode != 0:
        raise FaultError(f"`{' '.join(command)}` failed: {complaint.decode(errors='replace').strip()}")
