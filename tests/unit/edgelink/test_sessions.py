"""The two state machines, event by event."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import TypeVar

import pytest

from edgelink import hub, node
from edgelink import hub_events as he
from edgelink import messages as m
from edgelink import node_events as ne
from edgelink.api import Cursor, Item, ItemKey, NodeFacts, UpItem, View
from edgelink.digest import held_of, view_digest
from edgelink.pacing import Timing

T = TypeVar("T")
TIMING = Timing()


def pod(name: str, revision: int) -> Item:
    return Item(ItemKey("pods", "default", name), f"uid-{name}", revision, b"{}")


def view(revision: int, *items: Item) -> View:
    return View(revision, {i.key: i for i in items})


def only(commands: Sequence[object], kind: type[T]) -> T:
    [found] = [c for c in commands if isinstance(c, kind)]
    return found


def sent(commands: Sequence[object], kind: type[T]) -> list[T]:
    return [c.message for c in commands if isinstance(c, ne.Send | he.Send) and isinstance(c.message, kind)]


# --- node ---


def greeting_node(facts: NodeFacts) -> node.NodeSession:
    session = node.NodeSession(TIMING, random.Random(1))
    session.handle(ne.Started(), 0)
    session.handle(ne.FactsLoaded("", facts), 0)
    load = only(session.handle(ne.Connected("c1"), 0), ne.LoadFacts)
    [hello] = sent(session.handle(ne.FactsLoaded(load.nonce, facts), 0), m.Hello)
    assert hello.nonce.startswith("c1.")
    return session


def welcome(hub_store: str = "hub", up: int = 0, nonce: str = "c1.1") -> ne.Received:
    return ne.Received(m.Welcome("tok", nonce, 1, hub_store, up))


def linked_node(cursor: Cursor | None = None, high: int = 0) -> node.NodeSession:
    session = greeting_node(NodeFacts("store", "boot", cursor, high))
    session.handle(welcome(), 0)
    assert session.state is node.State.LINKED
    return session


def delta(n: int, prev: int, *put: Item, rev: int = 10) -> ne.Received:
    return ne.Received(m.Delta("tok", n, prev, "hub", rev, put, ()))


def snapshot(n: int, *put: Item, rev: int = 10, hub_store: str = "hub", absence: bool = True) -> ne.Received:
    digest = view_digest(held_of(put))
    return ne.Received(m.Delta("tok", n, 0, hub_store, rev, put, (), True, absence, digest))


def test_every_state_answers_connecting_and_disconnecting() -> None:
    for table, states in ((node.TRANSITIONS, node.State), (hub.TRANSITIONS, hub.State)):
        assert {state for state, _ in table} == set(states)
        assert set(table.values()) == set(states)
    assert all((s, step) in node.TRANSITIONS for s in node.State for step in ("connected", "disconnected"))


def test_nothing_is_acknowledged_before_it_is_applied() -> None:
    session = linked_node(Cursor("hub", 5))
    commands = session.handle(delta(1, 0, pod("a", 7)), 1)
    assert only(commands, ne.Apply).change.put == (pod("a", 7),)
    assert not sent(commands, m.Ack)
    assert sent(session.handle(ne.Applied("tok", 1), 2), m.Ack) == [m.Ack("tok", 1)]


def test_s20_doubles_are_acknowledged_again_and_not_applied() -> None:
    """S-20"""
    session = linked_node(Cursor("hub", 5))
    session.handle(delta(1, 0, pod("a", 7)), 1)
    assert session.handle(delta(1, 0, pod("a", 7)), 1) == []
    session.handle(ne.Applied("tok", 1), 2)
    assert session.handle(delta(1, 0, pod("a", 7)), 3) == [ne.Send(m.Ack("tok", 1))]


def test_s20_a_gap_is_told() -> None:
    """S-20"""
    session = linked_node(Cursor("hub", 5))
    assert session.handle(delta(2, 1), 1) == [ne.Send(m.Ack("tok", 0, 2))]


def test_a_failed_apply_is_not_acknowledged_and_what_was_built_on_it_is_dropped() -> None:
    session = linked_node(Cursor("hub", 5))
    command = only(session.handle(delta(1, 0, pod("a", 7)), 1), ne.Apply)
    session.handle(delta(2, 1, pod("a", 8)), 1)
    assert session.handle(ne.Failed(command), 2) == []
    assert only(session.handle(delta(3, 0, pod("a", 9)), 3), ne.Apply).n == 3


@pytest.mark.parametrize(
    ("cursor", "absence", "deletes"),
    [
        (Cursor("hub", 9), True, True),
        (Cursor("hub", 11), True, False),  # the hub is behind: restored from a backup
        (Cursor("hub", 9), False, False),  # the hub does not vouch for it
        (None, True, False),
    ],
)
def test_s86_absence_deletes_only_within_one_history(cursor: Cursor | None, absence: bool, deletes: bool) -> None:
    """S-86"""
    session = linked_node(cursor)
    command = only(session.handle(snapshot(1, pod("a", 3), absence=absence), 1), ne.Apply)
    assert command.change.complete
    assert command.change.absence_deletes is deletes


def test_s86_another_hub_deletes_nothing_and_is_told_everything() -> None:
    """S-86: levels are enqueued again for a hub that has never seen them."""
    session = greeting_node(NodeFacts("store", "boot", Cursor("old hub", 50), 8))
    assert session.handle(welcome(), 0) == [ne.Renew()]
    facts = NodeFacts("store 2", "boot", Cursor("old hub", 50), 12)
    load = only(session.handle(ne.Renewed(), 1), ne.LoadFacts)
    session.handle(ne.FactsLoaded(load.nonce, facts), 1)
    session.handle(welcome(nonce=load.nonce), 2)
    assert session.state is node.State.LINKED
    assert not only(session.handle(snapshot(1, pod("a", 60), rev=60), 3), ne.Apply).change.absence_deletes


def test_a_snapshot_whose_digest_is_wrong_is_not_applied() -> None:
    session = linked_node(Cursor("hub", 5))
    wrong = ne.Received(m.Delta("tok", 1, 0, "hub", 9, (pod("a", 3),), (), True, True, "0" * 64))
    assert session.handle(wrong, 1) == [ne.Send(m.Ack("tok", 0, 1))]


def test_s88_a_restored_store_takes_a_new_identity() -> None:
    """S-88: the hub holds more than the store has ever given out; nothing is dropped as stored."""
    session = greeting_node(NodeFacts("store", "boot", Cursor("hub", 5), 50))
    assert session.handle(welcome(up=80), 0) == [ne.Renew()]


def test_s88_numbers_given_out_since_do_not_hide_a_restored_store() -> None:
    """S-88: 40 new entries were made before the hub was met again."""
    session = node.NodeSession(TIMING, random.Random(1))
    session.handle(ne.Started(), 0)
    session.handle(ne.FactsLoaded("", NodeFacts("store", "boot", Cursor("hub", 5), 50)), 0)
    session.handle(ne.Connected("c1"), 0)
    session.handle(ne.FactsLoaded("c1.1", NodeFacts("store", "boot", Cursor("hub", 5), 90)), 0)
    assert session.handle(welcome(up=80), 0) == [ne.Renew()]


def test_s86_a_hub_that_forgot_what_it_had_stored_is_told_again() -> None:
    """S-86: restored from an older copy, it holds less than it acknowledged."""
    session = greeting_node(NodeFacts("store", "boot", Cursor("hub", 5), 50, acked=50))
    assert session.handle(welcome(up=40), 0) == [ne.Renew()]


def test_s21_an_unknown_session_and_silence_are_greeted_anew() -> None:
    """S-21"""
    session = linked_node()
    assert sent_facts(session.handle(ne.Received(m.Who("tok")), 1))
    session = linked_node()
    assert session.handle(ne.Tick(), 29) != []  # a lease
    assert sent_facts(session.handle(ne.Tick(), 30))


def sent_facts(commands: Sequence[object]) -> bool:
    return any(isinstance(c, ne.LoadFacts) for c in commands)


def test_s23_leases_go_on_while_a_store_command_hangs() -> None:
    """S-23: neither an apply nor a batch under way holds up the lease."""
    session = linked_node(Cursor("hub", 5))
    session.handle(delta(1, 0, pod("a", 7)), 1)
    commands = session.handle(ne.Tick(), 10)
    assert sent(commands, m.Lease) == [m.Lease("tok", Cursor("hub", 5), "", 0)]


def test_a_lost_batch_is_read_afresh() -> None:
    session = linked_node(high=1)
    [batch] = sent(session.handle(ne.OutboxLoaded("tok", [UpItem(1, "level", "a", b"1")]), 0), m.Batch)
    assert session.handle(ne.OutboxChanged(), 1) == []
    assert ne.LoadOutbox("tok") in session.handle(ne.Tick(), 9)
    [again] = sent(session.handle(ne.OutboxLoaded("tok", [UpItem(2, "level", "a", b"2")]), 9), m.Batch)
    assert (batch.high, again.prev, again.high) == (1, 0, 2)


@pytest.mark.parametrize("n", [0, 3, 99])
def test_s26_impossible_upstream_acknowledgements_drop_nothing(n: int) -> None:
    """S-26"""
    session = linked_node(high=1)
    session.handle(ne.OutboxLoaded("tok", [UpItem(1, "level", "a", b"1")]), 0)
    assert session.handle(ne.Received(m.UpAck("tok", n)), 1) == []


def test_offline_at_start_is_a_state_not_an_error() -> None:
    session = node.NodeSession(TIMING, random.Random(1))
    session.handle(ne.Started(), 0)
    assert session.handle(ne.Disconnected("refused"), 1) == [ne.Report(False, "refused")]
    assert session.handle(ne.OutboxChanged(), 2) == []
    assert session.deadline() is None


# --- hub ---


def hub_session() -> hub.HubSession:
    names = count(1)
    return hub.HubSession("n", "hub", TIMING, random.Random(1), lambda: f"tok{next(names)}")


def active_hub(base: View | None, cursor: Cursor | None, nonce: str = "c1.1") -> tuple[hub.HubSession, he.LoadView]:
    session = hub_session()
    hello = m.Hello(nonce, (1,), NodeFacts("store", "boot", cursor, 0))
    only(session.handle(he.Received(hello), 0), he.Admit)
    commands = session.handle(he.Admitted(nonce, 0, base), 0)
    assert sent(commands, m.Welcome) == [m.Welcome("tok1", nonce, 1, "hub", 0)]
    return session, only(commands, he.LoadView)


def loaded(command: he.LoadView, current: View) -> he.ViewLoaded:
    return he.ViewLoaded(command, current, {})


def test_s05_superseded_wishes_are_never_sent() -> None:
    """S-05, S-09: what is not acknowledged is not repeated but computed anew from what the node holds."""
    session, load = active_hub(view(5, pod("a", 5)), Cursor("hub", 5))
    [first] = sent(session.handle(loaded(load, view(6, pod("a", 6))), 0), m.Delta)
    load = only(session.handle(he.Tick(), 20), he.LoadView)
    [second] = sent(session.handle(loaded(load, view(9, pod("a", 9))), 20), m.Delta)
    assert (first.n, second.n, second.prev) == (1, 2, 0)
    assert second.put == (pod("a", 9),)


def test_an_acknowledgement_of_what_was_given_up_moves_the_base() -> None:
    """The node applied number 1 after all, and cannot place number 2, which was built on 0."""
    session, load = active_hub(view(5), Cursor("hub", 5))
    session.handle(loaded(load, view(6, pod("a", 6))), 0)
    load = only(session.handle(he.Tick(), 20), he.LoadView)
    session.handle(loaded(load, view(9, pod("b", 9))), 20)
    load = only(session.handle(he.Received(m.Ack("tok1", 1, 2)), 21), he.LoadView)
    [third] = sent(session.handle(loaded(load, view(9, pod("b", 9))), 21), m.Delta)
    assert (third.n, third.prev) == (3, 1)
    assert [r.key.name for r in third.removed] == ["a"], "it would have stayed for ever otherwise"


def test_changes_within_the_window_follow_each_other() -> None:
    session, load = active_hub(view(5), Cursor("hub", 5))
    session.handle(loaded(load, view(6, pod("a", 6))), 0)
    for i in range(2, 8):
        commands = session.handle(he.ViewChanged(), i)
        loads = [c for c in commands if isinstance(c, he.LoadView)]
        assert len(loads) == (1 if i <= 4 else 0), "the window is full"
        for load in loads:
            [d] = sent(session.handle(loaded(load, view(5 + i, pod("a", 5 + i))), i), m.Delta)
            assert (d.n, d.prev) == (i, i - 1)
    load = only(session.handle(he.Received(m.Ack("tok1", 4)), 9), he.LoadView)
    [last] = sent(session.handle(loaded(load, view(20, pod("a", 20))), 9), m.Delta)
    assert (last.prev, last.put) == (4, (pod("a", 20),))


def test_a_lost_snapshot_is_followed_by_a_snapshot() -> None:
    session, load = active_hub(None, Cursor("hub", 5))
    [first] = sent(session.handle(loaded(load, view(9, pod("a", 6))), 0), m.Delta)
    load = only(session.handle(he.Tick(), 20), he.LoadView)
    [second] = sent(session.handle(loaded(load, view(9, pod("a", 6))), 20), m.Delta)
    assert first.complete
    assert first.absence
    assert second.complete
    assert second.n == 2


@pytest.mark.parametrize("cursor", [None, Cursor("other", 5), Cursor("hub", 50)])
def test_s86_the_hub_vouches_for_absence_only_within_its_own_history(cursor: Cursor | None) -> None:
    """S-86: another store, or this store restored to before the cursor."""
    session, load = active_hub(None, cursor)
    [first] = sent(session.handle(loaded(load, view(9)), 0), m.Delta)
    assert first.complete
    assert not first.absence


def test_lasting_difference_of_digests_starts_a_resynchronisation_that_deletes_nothing() -> None:
    session, load = active_hub(view(5, pod("a", 5)), Cursor("hub", 5))
    session.handle(loaded(load, view(5, pod("a", 5))), 0)
    good = he.Received(m.Lease("tok1", Cursor("hub", 5), view_digest({pod("a", 5).key: ("uid-a", 5)}), 0))
    bad = he.Received(m.Lease("tok1", Cursor("hub", 5), "0" * 64, 0))
    elsewhere = he.Received(m.Lease("tok1", Cursor("hub", 4), "0" * 64, 0))
    for event in (bad, good, bad, elsewhere):
        assert not [c for c in session.handle(event, 1) if isinstance(c, he.LoadView)]
    load = only(session.handle(bad, 2), he.LoadView)
    [again] = sent(session.handle(loaded(load, view(5, pod("a", 5))), 2), m.Delta)
    assert again.complete
    assert not again.absence


def test_idle_cursors_are_moved_on() -> None:
    session, load = active_hub(view(5), Cursor("hub", 5))
    assert session.handle(loaded(load, view(100)), 0) == []
    for at in range(30, 300, 30):
        session.handle(he.Received(m.Lease("tok1", None, "", 0)), at)
    load = only(session.handle(he.Tick(), 300), he.LoadView)
    [empty] = sent(session.handle(loaded(load, view(101)), 300), m.Delta)
    assert (empty.rev, empty.put, empty.removed) == (101, (), ())


def test_newest_session_wins_and_doubled_hellos_are_answered_alike() -> None:
    session, _ = active_hub(view(5), Cursor("hub", 5))
    hello = m.Hello("c1.1", (1,), NodeFacts("store", "boot", None, 0))
    assert sent(session.handle(he.Received(hello), 1), m.Welcome)[0].session == "tok1"
    newer = m.Hello("c2.2", (1,), NodeFacts("store", "boot", None, 0))
    assert only(session.handle(he.Received(newer), 2), he.Report).connected is False
    assert sent(session.handle(he.Admitted("c1.1", 0, None), 3), m.Welcome) == []
    assert sent(session.handle(he.Admitted("c2.2", 0, None), 3), m.Welcome)[0].session == "tok2"
    assert session.handle(he.Received(m.Ack("tok1", 1)), 4) == [he.Send(m.Who("tok1"))]


def test_a_version_that_is_not_common_is_refused_with_both_named() -> None:
    hello = m.Hello("c1.1", (7,), NodeFacts("store", "boot", None, 0))
    [refusal] = sent(hub_session().handle(he.Received(hello), 0), m.Refused)
    assert "[7]" in refusal.reason


def test_the_newest_common_version_is_chosen() -> None:
    """A newer hub with an older agent, and the reverse; a hub that gave a version up says so to those who need it."""
    for spoken, offered, chosen in (
        ((1, 2), (1,), 1),
        ((1,), (1, 2, 3), 1),
        ((1, 2), (1, 2, 3), 2),
        ((2,), (1,), None),
    ):
        session = hub.HubSession("n", "hub", TIMING, random.Random(1), lambda: "t1", spoken)
        answer = session.handle(he.Received(m.Hello("c1.1", offered, NodeFacts("s", "b", None, 0))), 0)
        if chosen is None:
            [refused] = sent(answer, m.Refused)
            assert refused.reason == "no common wire version: the node speaks [1], this hub [2]"
        else:
            [welcomed] = sent(session.handle(he.Admitted("c1.1", 0, None), 0), m.Welcome)
            assert welcomed.version == chosen


def test_a_version_that_was_not_offered_is_not_spoken() -> None:
    session = greeting_node(NodeFacts("store", "boot", None, 0))
    [report] = session.handle(ne.Received(m.Welcome("tok", "c1.1", 7, "hub", 0)), 0)
    assert report == ne.Report(False, "the hub chose wire version 7, this node speaks [1]")
    assert session.state is node.State.GREETING
    due = session.deadline()
    assert due is not None
    assert sent(session.handle(ne.Tick(), due), m.Hello), "it asks again: the hub may come right"


def test_only_the_will_of_this_connection_ends_a_session() -> None:
    session, _ = active_hub(view(5), Cursor("hub", 5), nonce="c2.1")
    assert session.handle(he.Received(m.Will("c1")), 1) == []
    assert only(session.handle(he.Received(m.Will("c2")), 1), he.Report).connected is False
    assert session.state is hub.State.ABSENT


def test_s23_leases_are_answered_while_the_store_hangs() -> None:
    """S-23: a batch is being stored, a view is being loaded."""
    session, _ = active_hub(view(5), Cursor("hub", 5))
    session.handle(he.Received(m.Batch("tok1", 0, 1, (UpItem(1, "log", "e", b"1"),))), 1)
    commands = session.handle(he.Received(m.Lease("tok1", Cursor("hub", 5), "", 0)), 2)
    assert only(commands, he.Record).lease.node == "n"
    assert sent(commands, m.Alive)


def test_silence_ends_a_session() -> None:
    session, _ = active_hub(view(5), Cursor("hub", 5))
    assert session.deadline() is not None
    assert only(session.handle(he.Tick(), 40), he.Report).connected is False


@pytest.mark.parametrize("n", [1, 2, 10**9])
def test_s26_acknowledging_what_was_never_sent_changes_nothing(n: int) -> None:
    """S-26"""
    session, _ = active_hub(view(5), Cursor("hub", 5))
    assert session.handle(he.Received(m.Ack("tok1", n)), 1) == []
