"""What is on its way down to one node: the window of numbered changes, and what the node holds after each of them.

A change that is not acknowledged in time is not repeated: differences are computed anew from the last acknowledged
view, so that superseded wishes are never sent. An acknowledgement of a change that was already given up tells what the
node really holds, so those are remembered for a while.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from edgelink.digest import Held
from edgelink.pacing import Chance, RoundTrip, Timing

SIZE = 4
"""Changes in flight. A change that finds no room is merged into the next difference."""
_REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class Position:
    """What a node holds after change number `n`. Not `known`: only a snapshot can follow."""

    n: int
    revision: int
    held: Held
    known: bool


@dataclass(frozen=True, slots=True)
class Sent:
    position: Position
    at: float
    size: int


class Window:
    def __init__(self, base: Position, timing: Timing, chance: Chance) -> None:
        self.base = self.tip = base
        self.deadline: float | None = None
        self._trip = RoundTrip(timing, chance)
        self._attempt = 0
        self._highest = base.n
        self._flying: deque[Sent] = deque()
        self._remembered: dict[int, Sent] = {}

    @property
    def room(self) -> bool:
        return len(self._flying) < SIZE

    def next_number(self) -> int:
        """Numbers are never used twice in a session."""
        self._highest += 1
        return self._highest

    def sent(self, sent: Sent) -> None:
        self.tip = sent.position
        self._flying.append(sent)
        self._remembered[sent.position.n] = sent
        while len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._arm(sent.at)

    def acknowledged(self, n: int, gap: int, now: float) -> bool:
        """True when differences must be computed anew."""
        if n > self._highest or n < self.base.n:
            return False  # never said, or an old double
        if n == self.base.n:
            first = self._flying[0].position.n if self._flying else 0
            return bool(first and gap >= first) and self._rebase()
        sent = self._remembered.get(n)
        if sent is None:  # given up so long ago that what the node holds is forgotten
            self.base = replace(self.base, n=n, known=False)
            return self._rebase()
        self._trip.observe(now - sent.at)
        self.base, self._attempt = sent.position, 0
        self._remembered = {k: s for k, s in self._remembered.items() if k > n}
        if not any(s.position.n == n for s in self._flying):
            return self._rebase()
        while self._flying[0].position.n <= n:
            self._flying.popleft()
            if not self._flying:
                break
        self._arm(now)
        return bool(self._flying and gap >= self._flying[0].position.n) and self._rebase()

    def expired(self, now: float) -> bool:
        """True when what is in flight counts as lost; then differences must be computed anew."""
        if self.deadline is None or now < self.deadline:
            return False
        self._attempt += 1
        return self._rebase()

    def distrust(self) -> None:
        self.base = replace(self.base, known=False)
        self._rebase()

    def _rebase(self) -> bool:
        self._flying.clear()
        self.tip = self.base
        self.deadline = None
        return True

    def _arm(self, now: float) -> None:
        size = sum(s.size for s in self._flying)
        self.deadline = now + self._trip.timeout(self._attempt, size) if self._flying else None
