"""The node's side of a session: events in, commands out. No I/O, no clock, no chance of its own.

`handle` may be called at any moment; commands that touch the store are executed one after the other, in the order
given, and each reports back by one event. What must not happen here: an acknowledgement before `Applied`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from edgelink.api import Cursor, NodeFacts, ViewChange
from edgelink.digest import held_of, view_digest
from edgelink.messages import (
    Ack,
    Alive,
    Delta,
    Hello,
    Lease,
    Message,
    Open,
    Refused,
    UpAck,
    Welcome,
    Who,
    session_of,
)
from edgelink.node_events import (
    Applied,
    Apply,
    Command,
    Connected,
    DigestLoaded,
    Disconnected,
    Event,
    FactsLoaded,
    Failed,
    LoadDigest,
    LoadFacts,
    LoadOutbox,
    OutboxChanged,
    OutboxLoaded,
    Received,
    Renew,
    Renewed,
    Report,
    Send,
    Serve,
    Started,
    StoreCommand,
    Tick,
)
from edgelink.pacing import Chance, Timing, backoff
from edgelink.upstream import Upstream
from edgelink.wire import VERSIONS


class State(StrEnum):
    OFFLINE = "offline"
    """No broker."""
    GREETING = "greeting"
    """A broker, but no session: saying hello until answered."""
    LINKED = "linked"


class Step(StrEnum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    WELCOMED = "welcomed"
    REFUSED = "refused"
    RENEWED = "renewed"
    """The store took a new identity and must introduce itself again."""
    LOST = "lost"
    """The hub is silent, or does not know the session."""


TRANSITIONS: Final[Mapping[tuple[State, Step], State]] = {
    (State.OFFLINE, Step.CONNECTED): State.GREETING,
    (State.GREETING, Step.CONNECTED): State.GREETING,
    (State.LINKED, Step.CONNECTED): State.GREETING,
    (State.OFFLINE, Step.DISCONNECTED): State.OFFLINE,
    (State.GREETING, Step.DISCONNECTED): State.OFFLINE,
    (State.LINKED, Step.DISCONNECTED): State.OFFLINE,
    (State.GREETING, Step.WELCOMED): State.LINKED,
    (State.GREETING, Step.REFUSED): State.GREETING,
    (State.GREETING, Step.RENEWED): State.GREETING,
    (State.LINKED, Step.LOST): State.GREETING,
}
"""A step that a state does not list is late and changes nothing."""


class NodeSession:
    """`versions`: the wire versions it speaks."""

    def __init__(self, timing: Timing, chance: Chance, versions: tuple[int, ...] = VERSIONS) -> None:
        self._timing, self._chance, self._versions = timing, chance, versions
        self.state = State.OFFLINE
        self.token = ""
        self._now = 0.0
        self._out: list[Command] = []
        self._connection = ""
        self._greetings = 0
        self._nonce = ""
        self._facts: NodeFacts | None = None
        self._attempt = 0
        self._hello_due: float | None = None
        self._retry: tuple[float, LoadFacts | Renew] | None = None
        self._renewed = False
        self._renewed_for = self._renewing_for = ""
        self._up = Upstream(timing, chance)
        self._reset_down(None, "")

    def _reset_down(self, cursor: Cursor | None, hub: str) -> None:
        self._hub = hub
        self._cursor = self._tip = cursor
        self._applied = self._received = 0
        self._queue: deque[Delta] = deque()
        self._applying: Delta | None = None
        self._gap = 0
        self._digest = ""
        self._digest_age = 0
        self._digest_loading = False
        self._lease_due = self._heard = self._now

    # --- the door ---

    def handle(self, event: Event, now: float) -> list[Command]:
        """Commands, in the order in which to execute them. `now` is monotonic seconds."""
        self._now = now
        match event:
            case Started():
                self._out.append(LoadFacts(""))
            case Connected(connection):
                self._connection = connection
                if self._step(Step.CONNECTED):
                    self._greet()
            case Disconnected(reason):
                self._step(Step.DISCONNECTED)
                self._forget_session()
                self._out.append(Report(False, reason))
            case Received(message):
                self._on_message(message)
            case OutboxChanged():
                if self.state is State.LINKED:
                    self._out += self._up.changed()
            case Tick():
                self._on_tick()
            case _:
                self._on_done(event)
        out, self._out = self._out, []
        return out

    def deadline(self) -> float | None:
        """When `Tick` is wanted next."""
        due = [] if self._retry is None else [self._retry[0]]
        if self.state is State.LINKED:
            due += [self._lease_due, self._heard + self._silence]
            due += [] if self._up.deadline is None else [self._up.deadline]
        elif self.state is State.GREETING and self._hello_due is not None:
            due.append(self._hello_due)
        return min(due, default=None)

    @property
    def _silence(self) -> float:
        return self._timing.lease * self._timing.silent_leases

    def _step(self, step: Step) -> bool:
        target = TRANSITIONS.get((self.state, step))
        if target is None:
            return False
        self.state = target
        return True

    # --- greeting ---

    def _forget_session(self) -> None:
        self.token = self._nonce = ""
        self._facts = None
        self._hello_due = self._retry = None
        self._queue.clear()
        self._up.stop()

    def _greet(self) -> None:
        """Facts are read behind whatever is still being applied, so the cursor in the hello is the last word."""
        self._forget_session()
        self._attempt = 0
        self._greetings += 1
        self._nonce = f"{self._connection}.{self._greetings}"
        self._out.append(LoadFacts(self._nonce))

    def _lose(self, reason: str) -> None:
        if self._step(Step.LOST):
            self._out.append(Report(False, reason))
            self._greet()

    def _say_hello(self) -> None:
        if self._facts is None:
            return
        self._out.append(Send(Hello(self._nonce, self._versions, self._facts)))
        self._hello_due = self._now + backoff(self._timing, self._attempt, self._chance)
        self._attempt += 1

    def _on_facts(self, nonce: str, facts: NodeFacts) -> None:
        self._up.remember(facts)
        if self.state is State.GREETING and nonce == self._nonce:
            self._facts = facts
            self._say_hello()

    def _on_welcome(self, m: Welcome) -> None:
        if m.nonce != self._nonce:
            return
        if self.state is State.LINKED:
            if m.session != self.token:  # a hello that came twice opened a newer session, from older facts
                self._lose("the hub opened another session")
            return
        if self.state is not State.GREETING or self._facts is None:
            return
        if m.version not in self._versions:
            return self._turned_away(f"the hub chose wire version {m.version}, this node speaks {list(self._versions)}")
        if not self._renewed and self._unknown_to(m):
            self._step(Step.RENEWED)
            self._renewing_for = m.hub
            self._forget_session()
            self._out.append(Renew())
            return
        self._step(Step.WELCOMED)
        self._link(m, self._facts)

    def _turned_away(self, reason: str) -> None:
        """Asks again, seldom: what stands in the way may be mended at the other side."""
        if self._step(Step.REFUSED):
            self._out.append(Report(False, reason))
            self._hello_due = self._now + backoff(self._timing, 16, self._chance)

    def _unknown_to(self, m: Welcome) -> bool:
        """Whether the hub's memory of this store is not ours: we are a copy, or it is, or it is another hub."""
        cursor = self._facts.cursor if self._facts else None
        stranger = cursor is not None and cursor.hub_store != m.hub and self._renewed_for != m.hub
        return stranger or not self._up.plausible(m.up)

    def _link(self, m: Welcome, facts: NodeFacts) -> None:
        self.token, self._renewed = m.session, False
        self._hello_due = None
        self._reset_down(facts.cursor, m.hub)
        self._out.append(Report(True, ""))
        self._send_lease()
        self._out += self._up.start(m.session, m.up, self._now)

    # --- messages ---

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Welcome):
            return self._on_welcome(message)
        if isinstance(message, Refused):
            if message.nonce == self._nonce:
                self._turned_away(f"the hub refused this node: {message.reason}")
            return None
        if self.state is not State.LINKED or session_of(message) != self.token:
            return None
        if isinstance(message, Who):
            return self._lose("the hub does not know the session")
        self._heard = self._now
        match message:
            case Delta():
                self._on_delta(message)
            case UpAck(_, n):
                self._out += self._up.acknowledged(n, self._now)
            case Open():
                self._out.append(Serve(message))
            case Alive() | _:
                pass
        return None

    # --- down ---

    def _on_delta(self, d: Delta) -> None:
        if d.n <= self._applied:
            self._ack()
        elif d.n <= self._received:
            pass  # a double of one that is being applied
        elif d.prev != self._received or not self._fits(d):
            self._gap = d.n
            if self._applying is None:
                self._ack()
        else:
            self._received = d.n
            self._tip = Cursor(d.hub, d.rev)
            self._queue.append(d)
            self._apply_next()

    def _fits(self, d: Delta) -> bool:
        if d.hub != self._hub:
            return False
        if d.complete:
            return view_digest(held_of(d.put)) == d.digest
        return self._tip is not None and self._tip.hub_store == d.hub

    def _apply_next(self) -> None:
        if self._applying is not None or not self._queue:
            return
        d = self._applying = self._queue.popleft()
        cursor = Cursor(d.hub, d.rev)
        here = self._cursor
        deletes = d.absence and here is not None and here.hub_store == d.hub and here.revision <= d.rev
        change = ViewChange(cursor, d.put, d.removed, d.complete, deletes)
        self._out.append(Apply(self.token, d.n, change))

    def _ack(self) -> None:
        self._out.append(Send(Ack(self.token, self._applied, self._gap)))
        self._gap = 0

    def _on_applied(self, session: str, n: int) -> None:
        if session != self.token or self._applying is None:
            return
        self._applied, self._cursor = n, Cursor(self._applying.hub, self._applying.rev)
        self._applying = None
        self._digest = ""
        self._ack()
        self._apply_next()

    def _on_apply_failed(self, session: str) -> None:
        """Nothing is acknowledged; the hub will send anew what is wished by then."""
        if session == self.token:
            self._queue.clear()
            self._applying = None
            self._received, self._tip = self._applied, self._cursor

    # --- lease ---

    def _send_lease(self) -> None:
        self._out.append(Send(Lease(self.token, self._cursor, self._digest, self._up.acked)))
        self._lease_due = self._now + self._timing.lease
        self._digest_age += 1
        stale = not self._digest or self._digest_age >= self._timing.digest_every
        if stale and self._applying is None and not self._digest_loading:
            self._digest_loading = True
            self._digest_age = 0
            self._out.append(LoadDigest(self.token))

    def _on_tick(self) -> None:
        if self._retry is not None and self._now >= self._retry[0]:
            self._out.append(self._retry[1])
            self._retry = None
        if self.state is State.GREETING and self._hello_due is not None and self._now >= self._hello_due:
            self._say_hello()
        if self.state is not State.LINKED:
            return
        if self._now >= self._heard + self._silence:
            return self._lose(f"the hub is silent for {self._silence:.0f} s")
        if self._now >= self._lease_due:
            self._send_lease()
        self._out += self._up.tick(self._now)

    # --- what the store answered ---

    def _on_done(self, event: Event) -> None:
        match event:
            case FactsLoaded(nonce, facts):
                self._on_facts(nonce, facts)
            case Applied(session, n):
                self._on_applied(session, n)
            case DigestLoaded(session, digest) if session == self.token:
                self._digest_loading = False
                self._digest = digest
            case OutboxLoaded(session, items) if session == self.token:
                self._out += self._up.loaded(items, self._now)
            case Renewed():
                self._renewed, self._renewed_for = True, self._renewing_for
                self._up.renewed()
                if self.state is State.GREETING:
                    self._greet()
            case Failed(command):
                self._on_failed(command)
            case _:
                pass  # of an earlier session

    def _on_failed(self, command: StoreCommand) -> None:
        wait = self._now + backoff(self._timing, 1, self._chance)
        match command:
            case Apply(session):
                self._on_apply_failed(session)
            case LoadFacts(nonce) if self.state is State.GREETING and nonce == self._nonce:
                self._retry = (wait, command)
            case Renew() if self.state is State.GREETING:
                self._retry = (wait, command)
            case LoadOutbox(session) if session == self.token:
                self._up.failed(wait)
            case LoadDigest(session) if session == self.token:
                self._digest_loading = False
            case _:
                pass
