"""A program that runs in a guest while somebody watches: what `Runtime.spawn` and `Runtime.attach` give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

MAX_PROCESSES = 8
"""Watched at once in one VM: each costs it some 2 MiB, and three of the 31 ports that there are."""


class Source(IntEnum):
    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class Terminal:
    rows: int
    columns: int


class GuestProcess(Protocol):
    """Somebody must read `output` to its end or `close`. A reader that is slow slows the program, and nothing else."""

    def output(self) -> AsyncIterator[tuple[Source, bytes]]:
        """What it writes, as it comes, until it has ended and all is read; with a terminal all is STDOUT. Raises
        GuestUnavailable when the VM goes off, or the guest lost the program."""

    @property
    def code(self) -> int | None:
        """The exit code (128 + the signal that ended it), once `output` has ended."""

    async def write(self, data: bytes) -> None:
        """To its standard input; waits while it takes none. After its end, or `end_input`, nothing happens."""

    async def end_input(self) -> None:
        """Its standard input ends here (on a terminal: as if end-of-file had been typed)."""

    async def resize(self, size: Terminal) -> None:
        """The terminal's size from now on. Without a terminal nothing happens."""

    async def close(self) -> None:
        """End it if it still runs (hang-up, and a second later for good), and remove what was made for it."""
