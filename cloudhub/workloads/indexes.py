"""Sets of completion indexes as a Job's status writes them: `0,2-4`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str | None) -> set[int]:
    """What cannot be read counts as nothing: the status is ours, and is written anew."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            found.update(range(int(first), int(last if dash else first) + 1))
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
