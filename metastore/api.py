"""What a store promises: revisioned objects with compare-and-swap and watch, plus a node's outbox and journal.

The same interface serves the hub and the node. Everything that must be true together is written together:
`commit` takes any mix of operations and makes all of them durable, or none. Its return is the only
acknowledgement: what it returned for survives `kill -9` and power loss.

Nothing here knows what the values mean; they are bytes (JSON by convention of the callers).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

STORE_ID = "store_id"
"""The scalar that holds the store's identity."""
QUARANTINED = "quarantined"
"""The scalar that names rows that went into quarantine (a JSON list of labels), until whoever mends it removes it."""


class StoreError(Exception):
    """Base of everything a store raises."""


class Conflict(StoreError):
    """A compare-and-swap found another revision than expected. Nothing of that commit was written."""

    def __init__(self, key: Key, expected: int, actual: int) -> None:
        super().__init__(f"{key}: expected revision {expected}, found {actual}")
        self.key, self.expected, self.actual = key, expected, actual


class NotFound(StoreError):
    """A delete, or a put that expects a revision, named a row that does not exist."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


class UidMismatch(StoreError):
    """The row exists under that name but is another object (identity is the UID, never the name)."""

    def __init__(self, key: Key, expected: str, actual: str) -> None:
        super().__init__(f"{key}: expected UID {expected}, found {actual}")
        self.key, self.expected, self.actual = key, expected, actual


class Compacted(StoreError):
    """History from the asked revision is gone (or, for a watcher, was outrun). List again and watch from there."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is compacted away; the oldest kept is {oldest}")
        self.asked, self.oldest = asked, oldest


class Unavailable(StoreError):
    """The database refused (disk full, read-only, I/O error, not reachable). Nothing of that commit was written; retry
    later. One case cannot be told apart: a server's connection that broke just when it was told to commit; whoever
    retries a compare-and-swap then finds a Conflict, and reads."""


class Incompatible(StoreError):
    """The file is not a store, or one written by a newer Copepod."""


class Damaged(StoreError):
    """The file, or a row of it, is not what was written. Retrying does not help."""


class InUse(Unavailable):
    """Another process has this store open: a store has one writer."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """`kind` is the plural resource name with its group, as in a URL: `pods`, `deployments.apps`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    key: Key
    uid: str
    revision: int
    """Revision of the last change. Unique in a store and rising in commit order."""
    created: int
    """Revision at which the row was created."""
    value: bytes


class ChangeType(StrEnum):
    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    type: ChangeType
    row: Row
    """For a delete: the last value, with the revision of the deletion."""
    previous: Row | None
    """The row before this change; None for a creation, or where compaction has removed it."""


@dataclass(frozen=True, slots=True)
class Put:
    """Create or replace. `expect`: None = whatever is there, 0 = must not exist, n = must be at revision n.

    With `uid` differing from the stored row's the put is refused (UidMismatch) unless `replace` is set.
    """

    key: Key
    uid: str
    value: bytes
    expect: int | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """`missing_ok` makes deleting what is not there a no-op. `uid`, when given, must match."""

    key: Key
    expect: int | None = None
    uid: str | None = None
    missing_ok: bool = False


@dataclass(frozen=True, slots=True)
class SetMeta:
    """A named scalar (cursor, boot id). None removes it. Setting STORE_ID gives the store a new identity."""

    name: str
    value: str | None


class Lane(StrEnum):
    LEVEL = "level"
    """Newest per subject wins: an older waiting entry of the same subject is replaced."""
    LOG = "log"
    """Every entry counts, in order; at the bound the oldest are dropped and counted."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Add to the outbox. Numbers rise by one per entry; a replaced entry's number is never used again."""

    lane: Lane
    subject: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Drop outbox entries numbered up to and including `upto` (they are stored on the other side)."""

    upto: int


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """Write an intent before the act. `id` is chosen by the caller; opening it again replaces its detail."""

    id: str
    subject: str
    action: str
    detail: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class CloseEntry:
    id: str


Op = Put | Delete | SetMeta | Enqueue | Dequeue | OpenEntry | CloseEntry


@dataclass(frozen=True, slots=True)
class Committed:
    revision: int
    """The store's revision after this commit (unchanged if no object was touched)."""
    changes: tuple[Change, ...]
    """One for each Put and each Delete that did something, in order."""


@dataclass(frozen=True, slots=True)
class Listing:
    rows: tuple[Row, ...]
    revision: int
    """The revision that this list is true at: watch from here to miss nothing."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    number: int
    lane: Lane
    subject: str
    value: bytes


@dataclass(frozen=True, slots=True)
class JournalEntry:
    id: str
    subject: str
    action: str
    detail: bytes


class Watch(Protocol):
    """Changes in revision order, from just after the asked revision. Iterating raises Compacted when outrun."""

    def __aiter__(self) -> AsyncIterator[Change]: ...

    async def __anext__(self) -> Change: ...

    async def some(self) -> Sequence[Change]:
        """The next changes, as many as wait (within reason). None when it was poked, or is closed."""

    def poke(self) -> None:
        """Let `some` return, if it waits or when it next would."""

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


class Store(Protocol):
    @property
    def store_id(self) -> str:
        """Made once, when the store was created. A cursor is only meaningful together with it."""

    @property
    def revision(self) -> int:
        """The newest durable revision; of a shared database, the newest known here (at least that of every read)."""

    @property
    def damaged(self) -> asyncio.Event:
        """Set when something was not what was written. Only a new start, which looks at everything, helps."""

    async def refresh(self) -> int:
        """Take in what other processes have committed by now. Returns the revision."""

    async def commit(self, *ops: Op) -> Committed:
        """Write all of `ops` durably, or none. Raises Conflict, NotFound, UidMismatch, Unavailable."""

    async def get(self, key: Key, *, known: bool = False) -> Row | None:
        """As of now, or later. `known`: as of `revision` or later, which spares a shared database a question; for
        whoever has refreshed, read or committed in the same piece of work."""

    async def list(
        self, kind: str, namespace: str | None = None, *, at: int | None = None, known: bool = False
    ) -> Listing:
        """Rows ordered by namespace, then name. `at` reads the past; raises Compacted below the kept history. `known`
        as in `get`."""

    def held(self, kind: str, namespace: str | None = None) -> Sequence[Row] | None:
        """What `list` would give with `known`, where that is in memory: nobody waits. None: `list` must be asked."""

    def watch(self, after: int, kinds: frozenset[str] | None = None, *, capacity: int = 1024) -> Watch:
        """Raises Compacted (here or while iterating) when history after `after` is not whole any more."""

    async def meta(self, name: str) -> str | None: ...

    async def outbox(self, limit: int = 100) -> Sequence[OutboxEntry]:
        """The oldest `limit` entries, by number."""

    async def outbox_high(self) -> int:
        """The highest number ever given out (0 for none)."""

    async def outbox_dropped(self) -> int:
        """How many LOG entries the bound has dropped."""

    async def journal(self) -> Sequence[JournalEntry]:
        """Open entries, oldest first."""

    async def compact(self, upto: int) -> None:
        """Forget history up to `upto` (current objects stay)."""

    async def close(self) -> None: ...
