"""What a lab's hub has acknowledged: the wishes that must come true, whatever happens on the way."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Size:
    cpu: str
    memory: str


@dataclass
class Wish:
    """One pod, by UID; a name that comes again is another wish."""

    name: str
    uid: str
    sizes: list[Size]
    """Acknowledged, oldest first."""
    unsure: list[Size] = field(default_factory=list)
    """Asked for after the newest of `sizes`, without an answer: each may or may not be what the hub holds."""
    unanswered: list[Size] = field(default_factory=list)
    """All that were ever `unsure`."""
    offline: list[Size] = field(default_factory=list)
    """Of `sizes`, those wished while the node was not heard from, since it was last heard."""
    superseded: set[Size] = field(default_factory=set)
    """Wished while the node was away, and taken back before it returned: must never come into force."""
    node: str | None = None
    """Where it was first seen bound."""
    may_leave: bool = False
    """It asked to be given up when its node is silent."""
    deleted: bool = False
    forced: bool = False

    @property
    def possible(self) -> list[Size]:
        """What the hub may hold as the newest wish."""
        return [self.sizes[-1], *self.unsure]

    @property
    def asked(self) -> list[Size]:
        """Every size that may ever have been the wish."""
        return [*self.sizes, *self.unanswered, *self.unsure]

    def resized(self, size: Size, *, away: bool) -> None:
        """The hub has acknowledged `size`."""
        self.unsure.remove(size)
        self.unanswered += self.unsure
        self.unsure.clear()
        self.sizes.append(size)
        if away:
            self.offline.append(size)

    def node_returns(self) -> None:
        """The newest of what was wished meanwhile counts; earlier ones do not come into force any more."""
        newest = self.sizes[-1]
        self.superseded |= {size for size in self.offline if size != newest}
        self.offline.clear()


@dataclass
class Ledger:
    wishes: list[Wish] = field(default_factory=list)
    agent_kills: int = 0
    """Each may have come between an act and its record, so that the act's step was begun once more."""

    @property
    def living(self) -> list[Wish]:
        return [wish for wish in self.wishes if not wish.deleted]

    def of(self, name: str) -> Wish | None:
        """The pod that has this name now."""
        return next((wish for wish in reversed(self.wishes) if wish.name == name and not wish.deleted), None)

    def named(self, name: str) -> list[Wish]:
        return [wish for wish in self.wishes if wish.name == name]
