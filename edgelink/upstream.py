"""The node's way up: one batch in flight, read afresh from the outbox for every attempt, so that it carries the newest
levels. Part of the node's state machine (`edgelink.node`)."""

from __future__ import annotations

from collections.abc import Sequence

from edgelink.api import NodeFacts, UpItem
from edgelink.messages import Batch
from edgelink.node_events import Command, Dequeue, LoadOutbox, Send
from edgelink.pacing import Chance, RoundTrip, Timing, backoff

BATCH_BYTES = 64 * 1024


class Upstream:
    def __init__(self, timing: Timing, chance: Chance) -> None:
        self._timing, self._chance = timing, chance
        self._trip = RoundTrip(timing, chance)
        self.acked = 0
        self._given: int | None = None
        self.stop()

    def stop(self) -> None:
        self._session = ""
        self._loading = self._dirty = False
        self._batch: Batch | None = None
        self._sent_at = 0.0
        self._attempt = 0
        self.deadline: float | None = None

    # --- numbers that tell a copy from the original ---

    def remember(self, facts: NodeFacts) -> None:
        """The hub can hold no higher number than the store had given out when this process began, or this process
        sent since: what a restored store gave out before it met the hub again proves nothing."""
        if self._given is None:
            self._given = facts.high
        self.acked = max(self.acked, facts.acked)

    def renewed(self) -> None:
        self._given, self.acked = None, 0

    def plausible(self, up: int) -> bool:
        return self.acked <= up <= (self._given or 0)

    # --- the session ---

    def start(self, session: str, up: int, now: float) -> list[Command]:
        self.stop()
        self._session, self.acked = session, up
        return [*([Dequeue(up)] if up else []), *self._load()]

    def changed(self) -> list[Command]:
        if self._batch is None and not self._loading and self.deadline is None:
            return self._load()
        self._dirty = True
        return []

    def _load(self) -> list[Command]:
        self._loading, self._dirty = True, False
        self._batch, self.deadline = None, None
        return [LoadOutbox(self._session)]

    def loaded(self, items: Sequence[UpItem], now: float) -> list[Command]:
        self._loading = False
        fresh = [i for i in items if i.number > self.acked]
        if not fresh:
            if items:  # an earlier removal failed
                return [Dequeue(self.acked), *self._wait(now)]
            return self._load() if self._dirty else []
        chosen = _fitting(fresh)
        self._batch = Batch(self._session, self.acked, chosen[-1].number, chosen)
        self._given = max(self._given or 0, self._batch.high)
        self._sent_at = now
        size = sum(len(i.value) for i in chosen)
        self.deadline = now + self._trip.timeout(self._attempt, size)
        return [Send(self._batch)]

    def _wait(self, now: float) -> list[Command]:
        self.failed(now + backoff(self._timing, self._attempt, self._chance))
        self._attempt += 1
        return []

    def failed(self, again: float) -> None:
        self._loading, self.deadline = False, again

    def acknowledged(self, n: int, now: float) -> list[Command]:
        if not self.acked < n <= (self._given or 0):
            return []  # a double, or nothing we ever said
        if self._batch is not None and n == self._batch.high and self._attempt == 0:
            self._trip.observe(now - self._sent_at)
        self.acked, self._attempt = n, 0
        if self._loading:  # what is being read is filtered by `acked` when it comes
            return [Dequeue(n)]
        return [Dequeue(n), *self._load()]

    def tick(self, now: float) -> list[Command]:
        if self.deadline is None or now < self.deadline:
            return []
        self._attempt += 1
        return self._load()


def _fitting(items: Sequence[UpItem]) -> tuple[UpItem, ...]:
    """The first items that fit into one batch, at least one."""
    size = 0
    for count, item in enumerate(items):
        size += len(item.value)
        if size > BATCH_BYTES:
            return tuple(items[: max(1, count)])
    return tuple(items)
