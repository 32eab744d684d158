"""What edgelink asks of the daemon on each side, and what it hands over.

The protocol itself is two pure state machines (`edgelink.node`, `edgelink.hub`: events in, commands out). The shells
(`edgelink.runner`) execute their commands through the backends declared here and one transport. Wire messages are in
`edgelink.wire`; docs/adr/0002 explains the protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class ItemKey:
    """`kind` is the plural resource name with its group, as in the store."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """An object in a node's view."""

    key: ItemKey
    uid: str
    revision: int
    value: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a node has followed a hub's store. Only comparable within one hub store."""

    hub_store: str
    revision: int


class Removal(StrEnum):
    DELETED = "deleted"
    """The object is gone at the hub (a tombstone by UID)."""
    LEFT = "left"
    """It exists, but is no longer in this node's view."""


@dataclass(frozen=True, slots=True)
class Removed:
    key: ItemKey
    uid: str
    why: Removal


@dataclass(frozen=True, slots=True)
class ViewChange:
    """To be applied by the node in one transaction, together with its cursor."""

    cursor: Cursor
    put: tuple[Item, ...]
    """Dependencies before dependants."""
    removed: tuple[Removed, ...]
    complete: bool = False
    """True for a whole snapshot: what the node holds and `put` does not name is absent at the hub."""
    absence_deletes: bool = False
    """With `complete`: whether absence means deletion (same hub store, revision at or after the node's cursor).
    Otherwise what is absent stays and is Unclaimed."""


@dataclass(frozen=True, slots=True)
class UpItem:
    """One entry of the node's outbox on its way up. `subject` names what a level is about, e.g. `pods/<uid>`."""

    number: int
    lane: str
    """`level` or `log`."""
    subject: str
    value: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a `hello` says."""

    store_id: str
    boot_id: str
    cursor: Cursor | None
    high: int
    """The highest outbox number this store has ever given out."""
    acked: int = 0
    """The highest number known to be stored at the hub, written with the removal of those entries (`acknowledged`);
    0 where unknown, and again after `new_identity`. A hub that holds less was restored from an older copy."""


class NodeBackend(Protocol):
    """Implemented by edgecore over its metastore."""

    async def facts(self) -> NodeFacts: ...

    async def apply(self, change: ViewChange) -> None:
        """Store view and cursor durably in one transaction; the acknowledgement is sent when this returns."""

    async def held(self) -> Mapping[ItemKey, tuple[str, int]]:
        """What the node holds of its view: key → (UID, revision). Unclaimed objects are not in it."""

    async def outbox(self, limit: int) -> Sequence[UpItem]: ...

    async def acknowledged(self, upto: int) -> None:
        """The hub has stored everything up to this number."""

    async def new_identity(self) -> None:
        """The hub's memory of this store is not ours: the store is a copy (the hub holds higher numbers than it ever
        gave out), or the hub is another one or was restored. Take a new store id, enqueue every level again."""

    async def serve(self, request: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Answer a stream. `given` is what the hub sends, piece for piece (it sends when this is iterated, and only in
        conversations); it ends when the hub says so, and raises NodeOffline when a piece was lost. Raises
        StreamRefused, also while iterating."""

    def link_changed(self, connected: bool, reason: str) -> None:
        """For the agent's own status."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything a node should hold, true at `revision` of the hub's store."""

    revision: int
    items: Mapping[ItemKey, Item]
    """Iteration order is dependencies first."""


@dataclass(frozen=True, slots=True)
class Lease:
    node: str
    cursor: Cursor | None
    """As of the newest acknowledged delta."""
    view_digest: str
    up: int
    """Upstream number the node knows to be stored at the hub."""


class HubBackend(Protocol):
    """Implemented by cloudhub over its metastore."""

    @property
    def hub_store(self) -> str: ...

    async def view(self, node: str) -> View: ...

    async def view_at(self, node: str, revision: int) -> View | None:
        """The view as it was, or None where that is unknown (compacted, or the future)."""

    async def removal(self, key: ItemKey, uid: str) -> Removal: ...

    async def upstream(self, node: str, node_store: str) -> int:
        """The highest number stored from that node's store; 0 for a store not seen before."""

    async def apply(self, node: str, node_store: str, prev: int, high: int, items: Sequence[UpItem]) -> int:
        """Apply a batch and remember `high` in one transaction; returns the number now held. A batch whose `prev`
        is not the number held is not applied (the answer says what is held, the node continues from there)."""

    async def admit(self, node: str, facts: NodeFacts) -> None:
        """A node says hello. Raises NodeRefused."""

    def lease(self, lease: Lease) -> None:
        """The node is alive now."""

    def link_changed(self, node: str, connected: bool, reason: str) -> None:
        """A session began or ended (a broken link alone never makes a node NotReady: leases decide)."""


class NodeRefused(Exception):
    """The hub does not want this node; the reason is sent to it."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    kind: str
    """`logs`, `usage` (of the whole node: no pod), and the conversations `exec`, `attach`, `connect`."""
    pod_uid: str
    container: str
    options: Mapping[str, str] = field(default_factory=dict)
    """For logs: `tailLines`, `follow`, `previous`, `sinceSeconds`, as in the Kubernetes API."""


class Conversation(Protocol):
    """A stream in both directions, the hub's end. Pieces of at most 16 KiB arrive as they were sent, one for one."""

    def read(self) -> AsyncIterator[bytes]:
        """Until the node ends it. Raises StreamRefused when the node gave up, NodeOffline when the link did."""

    async def write(self, piece: bytes) -> None:
        """Waits while the node takes no more; after the stream's end nothing happens."""

    def end(self) -> None:
        """Nothing more will be written."""

    def close(self) -> None:
        """Whoever opened it must close it: the node ends what it serves."""


class StreamRefused(Exception):
    """The node cannot serve the stream; the message is for the user."""


class NodeOffline(Exception):
    """The node has no session now: a stream cannot be opened."""
