"""Which Events are removed: too old by the hub's own clock, or too many."""

from __future__ import annotations

from cloudhub.retention import Seen, surplus
from cloudhub.settings import EventSettings

RULES = EventSettings(max_age=100, max_per_namespace=3)


def test_old_events_go() -> None:
    seen = {("a", "old"): Seen(0, 1), ("a", "new"): Seen(50, 2)}
    assert surplus(seen, 100, RULES) == []
    assert surplus(seen, 101, RULES) == [("a", "old")]


def test_too_many_in_a_namespace_the_oldest_go() -> None:
    seen = {("a", str(n)): Seen(0, 10 - n) for n in range(5)} | {("b", "only"): Seen(0, 0)}
    assert surplus(seen, 1, RULES) == [("a", "4"), ("a", "3")]


def test_each_is_named_once() -> None:
    seen = {("a", str(n)): Seen(n, n) for n in range(5)}
    assert sorted(surplus(seen, 1000, RULES)) == sorted(seen)
