"""Lines of watches, made once for all watchers who see the same.

Watchers of one kind, selection and form are one audience. What a change says to an audience is kept as bytes until
newer lines push it out, by when all who keep up have sent it; whoever comes later makes it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from weakref import WeakValueDictionary

from metastore.api import Change

BOUND = 8 * 1024 * 1024
"""Bytes of lines kept."""
_LINE = 256
"""Bytes that keeping a line takes beside it."""


class Audience:
    """Lives as long as one of its watchers, or of the lines made for it."""

    __slots__ = ("__weakref__", "of")

    def __init__(self, of: object) -> None:
        self.of = of


class SharedLines:
    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._audiences: WeakValueDictionary[Hashable, Audience] = WeakValueDictionary()
        self._lines: OrderedDict[tuple[Audience, int], tuple[Change, bytes]] = OrderedDict()
        self._bytes = 0

    def audience(self, of: object, sees: Hashable) -> Audience:
        """The watchers of the kind `of` (that very declaration), who all see it so."""
        return self._audiences.setdefault((id(of), sees), Audience(of))

    def of(self, audience: Audience, change: Change, make: Callable[[Change], bytes]) -> bytes:
        """What `make` says of the change to everybody in the audience; empty for nothing."""
        at = (audience, change.row.revision)
        found = self._lines.get(at)
        # A store that was restored gives a revision to another change.
        if found is not None and found[0] is change:
            return found[1]
        line = make(change)
        self._bytes += len(line) + _LINE - (len(found[1]) + _LINE if found else 0)
        self._lines[at] = (change, line)
        while self._bytes > self._bound:
            _, (_, gone) = self._lines.popitem(last=False)
            self._bytes -= len(gone) + _LINE
        return line
