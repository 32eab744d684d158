"""What a measurement gives: a median with its unit, and a peer's value measured in the same run (or published)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    value: float
    unit: str
    peer: float | None = None
    """The same thing done without Copepod, or by another program; None where nothing compares."""
    peer_is: str = ""
    note: str = ""


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float], digits: int = 3) -> str:
    return f"n={len(values)}, {min(values):.{digits}f}-{max(values):.{digits}f}"
