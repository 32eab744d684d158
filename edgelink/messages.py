"""The messages of wire version 1, as the state machines see them. `edgelink.wire` turns them into bytes and back."""

from __future__ import annotations

from dataclasses import dataclass

from edgelink.api import Cursor, Item, NodeFacts, Removed, StreamRequest, UpItem


@dataclass(frozen=True, slots=True)
class Hello:
    nonce: str
    """`<connection id>.<attempt>`: the last will names the connection, the answer the attempt."""
    versions: tuple[int, ...]
    facts: NodeFacts


@dataclass(frozen=True, slots=True)
class Welcome:
    session: str
    nonce: str
    version: int
    hub: str
    up: int


@dataclass(frozen=True, slots=True)
class Refused:
    nonce: str
    reason: str


@dataclass(frozen=True, slots=True)
class Who:
    """The hub does not know `session`."""

    session: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A change of the view, or with `complete` the whole view (a snapshot)."""

    session: str
    n: int
    prev: int
    hub: str
    rev: int
    put: tuple[Item, ...]
    removed: tuple[Removed, ...]
    complete: bool = False
    absence: bool = False
    """With `complete`: the hub vouches that absence means deletion. The node still checks its own cursor."""
    digest: str = ""
    """With `complete`: the digest of `put`."""


@dataclass(frozen=True, slots=True)
class Ack:
    session: str
    n: int
    gap: int = 0
    """The number of a delta that could not be placed after `n`; 0 for none."""


@dataclass(frozen=True, slots=True)
class Batch:
    session: str
    prev: int
    high: int
    items: tuple[UpItem, ...]


@dataclass(frozen=True, slots=True)
class UpAck:
    session: str
    n: int


@dataclass(frozen=True, slots=True)
class Lease:
    session: str
    cursor: Cursor | None
    digest: str
    """Empty while the node does not know it; then it is not compared."""
    up: int


@dataclass(frozen=True, slots=True)
class Alive:
    session: str


@dataclass(frozen=True, slots=True)
class Will:
    connection: str


@dataclass(frozen=True, slots=True)
class Open:
    session: str
    id: str
    request: StreamRequest
    credit: int


@dataclass(frozen=True, slots=True)
class Data:
    """`n` counts from 0; number 0 is empty and says that the stream is open."""

    session: str
    n: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class End:
    session: str
    n: int
    error: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Credit:
    session: str
    size: int


@dataclass(frozen=True, slots=True)
class Cancel:
    session: str


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a longer message's compressed bytes."""

    session: str
    id: str
    i: int
    of: int
    data: bytes


Message = (
    Hello | Welcome | Refused | Who | Delta | Ack | Batch | UpAck | Lease | Alive | Will
    | Open | Data | End | Credit | Cancel | Part
)  # fmt: skip


def session_of(message: Message) -> str:
    """The token a message was said under; empty for those that precede a session."""
    return "" if isinstance(message, Hello | Refused | Will) else message.session
