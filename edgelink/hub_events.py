"""What the hub's session with one node is told (events) and what it asks for (commands). See `edgelink.hub`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgelink.api import ItemKey, Lease, NodeFacts, Removal, View
from edgelink.digest import Held
from edgelink.messages import Batch, Message


@dataclass(frozen=True, slots=True)
class Received:
    message: Message


@dataclass(frozen=True, slots=True)
class ViewChanged: ...


@dataclass(frozen=True, slots=True)
class Tick: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    nonce: str
    up: int
    base: View | None
    """The view at the node's cursor, where that is known."""


@dataclass(frozen=True, slots=True)
class Rejected:
    nonce: str
    reason: str


@dataclass(frozen=True, slots=True)
class ViewLoaded:
    command: LoadView
    view: View
    why: Mapping[ItemKey, Removal]
    """For every key of the command's `held` that the view does not have."""


@dataclass(frozen=True, slots=True)
class Stored:
    session: str
    up: int
    """The number that the hub holds now."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The store did not answer (it was logged)."""

    command: StoreCommand


Event = Received | ViewChanged | Tick | Admitted | Rejected | ViewLoaded | Stored | Failed


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class Report:
    """A session began or ended."""

    connected: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """The node is alive now."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Admit:
    """→ Admitted or Rejected"""

    nonce: str
    facts: NodeFacts


@dataclass(frozen=True, slots=True)
class LoadView:
    """→ ViewLoaded"""

    session: str
    tip: int
    held: Held


@dataclass(frozen=True, slots=True)
class Store:
    """→ Stored"""

    session: str
    node_store: str
    batch: Batch


StoreCommand = Admit | LoadView | Store
Command = Send | Report | Record | StoreCommand
