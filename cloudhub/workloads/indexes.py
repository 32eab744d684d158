"""Sets of completion indexes as a Job's status writes them: `0,2-4`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"[0-9]{1,10}")
_MOST = 1_000_000
"""Indexes in one range: whoever writes the status by hand could otherwise fill the memory."""


def parse(text: str | None) -> set[int]:
    """What cannot be read counts as nothing: the status is ours, and is written anew."""
    found: set[int] = set()
    for span in spans(text):
        if len(span) <= _MOST:
            found.update(span)
    return found


def spans(text: str | None) -> list[range]:
    """The same, not spelt out: for what people write, which may be of any size."""
    found = []
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
            found.append(range(int(first), int(last) + 1))
    return found


def format(indexes: Iterable[int]) -> str | None:
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(_words(first, last) for first, last in parts) or None


def _words(first: int, last: int) -> str:
    """Only three and more are written as a range."""
    return str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
