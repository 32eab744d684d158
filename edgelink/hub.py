"""The hub's side of a session with one node: events in, commands out. No I/O, no clock, no chance of its own.

What must not happen here: a view that is not known to be held by the node used as a base for differences, and
absence declared as deletion where the two histories may have parted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from edgelink import api
from edgelink.api import Cursor, ItemKey, NodeFacts, Removal, Removed, View
from edgelink.digest import held_of, view_digest
from edgelink.downstream import Position, Sent, Window
from edgelink.hub_events import (
    Admit,
    Admitted,
    Command,
    Event,
    Failed,
    LoadView,
    Received,
    Record,
    Rejected,
    Report,
    Send,
    Store,
    Stored,
    Tick,
    ViewChanged,
    ViewLoaded,
)
from edgelink.messages import (
    Ack,
    Alive,
    Batch,
    Delta,
    Hello,
    Lease,
    Message,
    Refused,
    UpAck,
    Welcome,
    Who,
    Will,
    session_of,
)
from edgelink.pacing import Chance, Timing, backoff
from edgelink.view import diff_views
from edgelink.wire import VERSIONS, agreed


class State(StrEnum):
    ABSENT = "absent"
    ADMITTING = "admitting"
    ACTIVE = "active"


class Step(StrEnum):
    HELLO = "hello"
    ADMITTED = "admitted"
    REJECTED = "rejected"
    ENDED = "ended"
    """Silent for too long, or its last will came."""


TRANSITIONS: Final[Mapping[tuple[State, Step], State]] = {
    (State.ABSENT, Step.HELLO): State.ADMITTING,
    (State.ADMITTING, Step.HELLO): State.ADMITTING,
    (State.ACTIVE, Step.HELLO): State.ADMITTING,
    (State.ADMITTING, Step.ADMITTED): State.ACTIVE,
    (State.ADMITTING, Step.REJECTED): State.ABSENT,
    (State.ADMITTING, Step.ENDED): State.ABSENT,
    (State.ACTIVE, Step.ENDED): State.ABSENT,
}
"""A step that a state does not list is late and changes nothing."""


class HubSession:
    """`new_token` names sessions: unguessable in production, counted in tests. `versions`: those of the wire that it
    speaks."""

    def __init__(
        self,
        node: str,
        hub_store: str,
        timing: Timing,
        chance: Chance,
        new_token: Callable[[], str],
        versions: tuple[int, ...] = VERSIONS,
    ) -> None:
        self._node, self._hub = node, hub_store
        self._timing, self._chance, self._new_token = timing, chance, new_token
        self._versions, self._version = versions, 0
        self.state = State.ABSENT
        self.token = ""
        self._out: list[Command] = []
        self._now = self._heard = self._advance_due = 0.0
        self._nonce = ""
        self._facts = NodeFacts("", "", None, 0)
        self._welcome: Welcome | None = None
        self._reset(None)

    def _reset(self, base: View | None) -> None:
        held = held_of(base.items.values()) if base is not None else {}
        revision = base.revision if base is not None else 0
        self._window = Window(Position(0, revision, held, known=base is not None), self._timing, self._chance)
        self._dirty = self._loading = self._storing = False
        self._advance = False
        self._retry_at: float | None = None
        self._absence = True
        self._differences = 0
        self._digest: tuple[int, str] | None = None
        self._advance_due = self._now + self._timing.advance

    # --- the door ---

    def handle(self, event: Event, now: float) -> list[Command]:
        """Commands, in the order in which to execute them. `now` is monotonic seconds."""
        self._now = now
        match event:
            case Received(message):
                self._on_message(message)
            case ViewChanged():
                self._dirty = True
                self._pump()
            case Tick():
                self._on_tick()
            case Admitted(nonce, up, base) if nonce == self._nonce and self._step(Step.ADMITTED):
                self._welcome_node(up, base)
            case Rejected(nonce, reason) if nonce == self._nonce and self._step(Step.REJECTED):
                self._out.append(Send(Refused(nonce, reason)))
                self._nonce = ""
            case ViewLoaded(command) if command.session == self.token:
                self._on_view(event)
            case Stored(session, up) if session == self.token:
                self._storing = False
                self._out.append(Send(UpAck(self.token, up)))
            case Failed(command):
                self._on_failed(command)
            case _:
                pass  # of an earlier session
        out, self._out = self._out, []
        return out

    def deadline(self) -> float | None:
        """When `Tick` is wanted next."""
        if self.state is not State.ACTIVE:
            return None
        due = [self._heard + self._silence, self._advance_due]
        due += [at for at in (self._window.deadline, self._retry_at) if at is not None]
        return min(due)

    @property
    def _silence(self) -> float:
        return self._timing.lease * self._timing.hub_silent_leases

    def _step(self, step: Step) -> bool:
        target = TRANSITIONS.get((self.state, step))
        if target is None:
            return False
        self.state = target
        return True

    # --- the session ---

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Hello):
            return self._on_hello(message)
        if isinstance(message, Will):
            if self._nonce.rpartition(".")[0] == message.connection:
                self._end("the broker lost the node's connection")
            return None
        token = session_of(message)
        if self.state is not State.ACTIVE or token != self.token:
            if token and self.state is not State.ADMITTING:
                self._out.append(Send(Who(token)))
            return None
        self._heard = self._now
        match message:
            case Ack(_, n, gap):
                self._on_ack(n, gap)
            case Batch() if not self._storing:
                self._storing = True
                self._out.append(Store(self.token, self._facts.store_id, message))
            case Lease():
                self._on_lease(message)
            case _:
                pass
        return None

    def _on_hello(self, m: Hello) -> None:
        if m.nonce == self._nonce:
            if self._welcome is not None:  # the answer was lost
                self._out.append(Send(self._welcome))
            return
        version = agreed(m.versions, self._versions)
        if version is None:
            reason = f"no common wire version: the node speaks {list(m.versions)}, this hub {list(self._versions)}"
            self._out.append(Send(Refused(m.nonce, reason)))
            return
        if self.state is State.ACTIVE:
            self._out.append(Report(False, "the node began a newer session"))
        self._step(Step.HELLO)
        self._nonce, self._facts, self._version = m.nonce, m.facts, version
        self.token, self._welcome = "", None
        self._out.append(Admit(m.nonce, m.facts))

    def _welcome_node(self, up: int, base: View | None) -> None:
        self.token = self._new_token()
        self._heard = self._now
        self._reset(base)
        self._welcome = Welcome(self.token, self._nonce, self._version, self._hub, up)
        self._out += [Send(self._welcome), Report(True, "")]
        self._dirty = True
        self._pump()

    def _end(self, reason: str) -> None:
        active = self.state is State.ACTIVE
        if self._step(Step.ENDED):
            self.token = self._nonce = ""
            self._welcome = None
            self._reset(None)
            self._out += [Report(False, reason)] if active else []

    # --- down ---

    def _pump(self) -> None:
        """Compare views when there is reason to and room to say so. While a snapshot is under way, nothing else is."""
        window = self._window
        if self.state is not State.ACTIVE or not self._dirty or self._loading or not window.room:
            return
        self._dirty, self._loading = False, True
        self._out.append(LoadView(self.token, window.tip.n, window.tip.held))

    def _on_view(self, loaded: ViewLoaded) -> None:
        self._loading = False
        if loaded.command.tip != self._window.tip.n:  # acknowledgements have moved the base meanwhile
            self._dirty = True
            return self._pump()
        view, tip = loaded.view, self._window.tip
        delta = self._difference(view, loaded.why) if tip.known else self._snapshot(view)
        if delta is not None:
            position = Position(delta.n, view.revision, held_of(view.items.values()), known=True)
            size = sum(len(i.value) for i in delta.put)
            self._window.sent(Sent(position, self._now, size))
            self._out.append(Send(delta))
        return self._pump()

    def _difference(self, view: View, why: Mapping[ItemKey, Removal]) -> Delta | None:
        tip = self._window.tip
        diff = diff_views(tip.held, view)
        moved, self._advance = self._advance and view.revision > tip.revision, False
        if not diff and not moved:
            return None
        removed = tuple(Removed(key, uid, why.get(key, Removal.LEFT)) for key, uid in diff.gone)
        n = self._window.next_number()
        return Delta(self.token, n, tip.n, self._hub, view.revision, diff.put, removed)

    def _snapshot(self, view: View) -> Delta:
        cursor = self._facts.cursor
        here = cursor is not None and cursor.hub_store == self._hub and cursor.revision <= view.revision
        items = tuple(view.items.values())
        n, prev = self._window.next_number(), self._window.tip.n
        digest = view_digest(held_of(items))
        return Delta(
            self.token,
            n,
            prev,
            self._hub,
            view.revision,
            items,
            (),
            complete=True,
            absence=here and self._absence,
            digest=digest,
        )

    def _on_ack(self, n: int, gap: int) -> None:
        if self._window.acknowledged(n, gap, self._now):
            self._dirty = True
        self._pump()

    # --- lease ---

    def _on_lease(self, m: Lease) -> None:
        base = self._window.base
        cursor = Cursor(self._hub, base.revision) if base.known else self._facts.cursor
        self._out.append(Record(api.Lease(self._node, cursor, m.digest, m.up)))
        self._out.append(Send(Alive(self.token)))
        if not (base.known and m.digest and m.cursor == Cursor(self._hub, base.revision)):
            return
        if self._digest is None or self._digest[0] != base.n:
            self._digest = (base.n, view_digest(base.held))
        self._differences = 0 if m.digest == self._digest[1] else self._differences + 1
        if self._differences >= 2:
            self._resynchronise()

    def _resynchronise(self) -> None:
        """The node does not hold what it acknowledged. Since the histories have parted, absence proves nothing."""
        self._differences, self._absence = 0, False
        self._window.distrust()
        self._dirty = True
        self._pump()

    # --- time ---

    def _on_tick(self) -> None:
        if self.state is not State.ACTIVE:
            return None
        if self._now >= self._heard + self._silence:
            return self._end(f"silent for {self._silence:.0f} s")
        if self._window.expired(self._now):
            self._dirty = True
        if self._now >= self._advance_due:
            self._advance_due = self._now + self._timing.advance
            self._advance = self._dirty = True
        if self._retry_at is not None and self._now >= self._retry_at:
            self._retry_at = None
            self._dirty = True
        return self._pump()

    def _on_failed(self, command: Admit | LoadView | Store) -> None:
        match command:
            case Admit(nonce) if nonce == self._nonce:
                self._end("the hub's store did not answer")  # the node says hello again
            case LoadView(session) if session == self.token:
                self._loading = False
                self._retry_at = self._now + backoff(self._timing, 1, self._chance)
            case Store(session) if session == self.token:
                self._storing = False  # the node sends the batch again
            case _:
                pass
