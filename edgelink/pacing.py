"""When to speak again: intervals, back-off with jitter, and a retransmission timer that learns the round trip.

Fixed timers make most of what a large fleet sends retransmissions; so the timeout follows the measured round trip
(which includes the other side's commit) and doubles with every attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Chance(Protocol):
    """The part of `random.Random` used here; given by the composition root."""

    def random(self) -> float:
        """Uniform in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds. Both sides of a cluster should be given the same lease interval."""

    lease: float = 10.0
    silent_leases: int = 3
    """Unanswered leases after which a node greets again."""
    hub_silent_leases: int = 4
    """Missed leases after which the hub forgets a session."""
    first: float = 1.0
    """First wait of every back-off, and the least retransmission timeout."""
    most: float = 30.0
    """The longest wait of every back-off."""
    slowest: float = 8192.0
    """Bytes per second that a link is granted before what was sent counts as lost."""
    advance: float = 300.0
    """How often an idle cursor is moved on, so that compaction never forces a snapshot."""
    digest_every: int = 30
    """Leases after which a node computes the digest of what it holds afresh although nothing was applied."""


def backoff(timing: Timing, attempt: int, chance: Chance) -> float:
    """Wait before attempt number `attempt` (from 0): doubling, capped, spread over the upper half."""
    wait = min(timing.most, timing.first * 2.0 ** min(attempt, 16))
    return wait * (0.5 + chance.random() / 2)


class RoundTrip:
    """Retransmission timeout after RFC 6298: smoothed round trip plus four deviations, within Timing's bounds."""

    def __init__(self, timing: Timing, chance: Chance) -> None:
        self._timing, self._chance = timing, chance
        self._smooth: float | None = None
        self._deviation = 0.0

    def observe(self, seconds: float) -> None:
        if self._smooth is None:
            self._smooth, self._deviation = seconds, seconds / 2
            return
        self._deviation += (abs(seconds - self._smooth) - self._deviation) / 4
        self._smooth += (seconds - self._smooth) / 8

    def timeout(self, attempt: int, size: int) -> float:
        """Seconds to wait for the answer to `size` bytes sent the `attempt`-th time (from 0)."""
        first = 2 * self._timing.first
        learned = first if self._smooth is None else self._smooth + 4 * self._deviation
        base = min(self._timing.most, max(self._timing.first, learned) * 2.0 ** min(attempt, 16))
        return base * (1.0 + self._chance.random() / 4) + size / self._timing.slowest
