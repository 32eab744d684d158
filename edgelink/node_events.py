"""What a node's session is told (events) and what it asks for (commands). See `edgelink.node`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgelink.api import NodeFacts, UpItem, ViewChange
from edgelink.messages import Message, Open

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started: ...


@dataclass(frozen=True, slots=True)
class Connected:
    connection: str
    """Names this connection; its last will carries it."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    message: Message


@dataclass(frozen=True, slots=True)
class OutboxChanged: ...


@dataclass(frozen=True, slots=True)
class Tick: ...


@dataclass(frozen=True, slots=True)
class FactsLoaded:
    nonce: str
    facts: NodeFacts


@dataclass(frozen=True, slots=True)
class Applied:
    session: str
    n: int


@dataclass(frozen=True, slots=True)
class DigestLoaded:
    session: str
    digest: str


@dataclass(frozen=True, slots=True)
class OutboxLoaded:
    session: str
    items: Sequence[UpItem]


@dataclass(frozen=True, slots=True)
class Renewed: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """A store command did not succeed (it was logged); nothing of it was written."""

    command: StoreCommand


Event = (
    Started | Connected | Disconnected | Received | OutboxChanged | Tick
    | FactsLoaded | Applied | DigestLoaded | OutboxLoaded | Renewed | Failed
)  # fmt: skip


# --- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class Report:
    """For the agent's own status."""

    connected: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer a stream of this session."""

    opening: Open


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """→ FactsLoaded"""

    nonce: str


@dataclass(frozen=True, slots=True)
class Apply:
    """→ Applied"""

    session: str
    n: int
    change: ViewChange


@dataclass(frozen=True, slots=True)
class LoadDigest:
    """→ DigestLoaded"""

    session: str


@dataclass(frozen=True, slots=True)
class LoadOutbox:
    """→ OutboxLoaded"""

    session: str


@dataclass(frozen=True, slots=True)
class Dequeue:
    """The hub holds everything up to here. Reports nothing: what stays is dropped with the next one."""

    upto: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Take a new store identity → Renewed"""


StoreCommand = LoadFacts | Apply | LoadDigest | LoadOutbox | Dequeue | Renew
Command = Send | Report | Serve | StoreCommand
