"""Current rows in memory, kind by kind: each read from the database once, then kept true by what the store publishes.

Nothing here reads or waits. What a kind holds is always exactly what was current at the store's revision: the store
applies each change, in order, before anybody can know that revision.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from metastore.api import Change, ChangeType, Key, Listing, Row

ROW_BYTES = 512
"""What a row takes beside its value: measured, rounded up."""
_PENDING_MAX = 10_000
"""Changes that are kept for a kind while it is read; beyond, it is not kept."""


class _Namespace:
    """Rows of one kind in one namespace, by name."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._names: list[str] = []
        self._listed: tuple[Row, ...] | None = None

    def put(self, row: Row) -> Row | None:
        """The row that was there before."""
        name = row.key.name
        before = self.rows.get(name)
        if before is None:
            insort(self._names, name)
        self.rows[name] = row
        self._listed = None
        return before

    def remove(self, name: str) -> Row | None:
        before = self.rows.pop(name, None)
        if before is not None:
            del self._names[bisect_left(self._names, name)]
            self._listed = None
        return before

    def listed(self) -> tuple[Row, ...]:
        if self._listed is None:
            self._listed = tuple(map(self.rows.__getitem__, self._names))
        return self._listed


class KindRows:
    """All rows of one kind."""

    def __init__(self, listing: Listing) -> None:
        self.changed = listing.revision
        """Since when they are as they are, as far as is known."""
        self.bytes = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._listed: tuple[Row, ...] | None = None
        for row in listing.rows:
            self._put(row)

    def get(self, key: Key) -> Row | None:
        found = self._namespaces.get(key.namespace)
        return found.rows.get(key.name) if found else None

    def listed(self, namespace: str | None) -> tuple[Row, ...]:
        """By namespace, then name; the same tuple until something in it changes."""
        if namespace is not None:
            found = self._namespaces.get(namespace)
            return found.listed() if found else ()
        if self._listed is None:
            self._listed = tuple(row for _, rows in sorted(self._namespaces.items()) for row in rows.listed())
        return self._listed

    def apply(self, change: Change) -> None:
        """What is contained already is left out."""
        if change.row.revision <= self.changed:
            return
        self.changed = change.row.revision
        self._listed = None
        if change.type is ChangeType.PUT:
            self._put(change.row)
        else:
            self._remove(change.row.key)

    def _put(self, row: Row) -> None:
        namespace = self._namespaces.get(row.key.namespace)
        if namespace is None:
            namespace = self._namespaces[row.key.namespace] = _Namespace()
        self.bytes += _size(row) - _size(namespace.put(row))

    def _remove(self, key: Key) -> None:
        namespace = self._namespaces.get(key.namespace)
        if namespace is None:
            return
        self.bytes -= _size(namespace.remove(key.name))
        if not namespace.rows:
            del self._namespaces[key.namespace]


class RowCache:
    """Kinds that are held. One that does not fit into what the others leave of `bound` bytes is not, and is read from
    the database each time: no kind drives out another, so a workload that does not fit costs no more than without."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._kinds: dict[str, KindRows] = {}
        self._bytes = 0
        self._pending: dict[str, list[Change]] = {}
        self._refused: set[str] = set()

    @property
    def bytes(self) -> int:
        return self._bytes

    def find(self, kind: str) -> KindRows | None:
        return self._kinds.get(kind)

    def wants(self, kind: str) -> bool:
        return self._bound > 0 and kind not in self._kinds and kind not in self._refused

    def begin(self, kind: str) -> None:
        """The kind is being read: what is published meanwhile is remembered, until `install` or `abandon`."""
        self._pending[kind] = []

    def abandon(self, kind: str) -> None:
        self._pending.pop(kind, None)

    def install(self, kind: str, listing: Listing) -> KindRows | None:
        """What was read since `begin`. None: it does not fit, or changes were lost meanwhile."""
        pending = self._pending.pop(kind, None)
        if pending is None:
            return None
        rows = KindRows(listing)
        for change in pending:
            rows.apply(change)
        if self._bytes + rows.bytes > self._bound:
            self._refused.add(kind)
            return None
        self._kinds[kind] = rows
        self._bytes += rows.bytes
        return rows

    def apply(self, change: Change) -> None:
        kind = change.row.key.kind
        if (pending := self._pending.get(kind)) is not None:
            pending.append(change)
            if len(pending) > _PENDING_MAX:
                self.abandon(kind)
        rows = self._kinds.get(kind)
        if rows is None:
            return
        before = rows.bytes
        rows.apply(change)
        self._bytes += rows.bytes - before
        if self._bytes > self._bound and rows.bytes > before:
            self._drop(kind)

    def clear(self) -> None:
        """Changes were lost: all is read anew."""
        self._kinds.clear()
        self._pending.clear()
        self._bytes = 0

    def reconsider(self) -> None:
        """Kinds that did not fit may do so now."""
        self._refused.clear()

    def _drop(self, kind: str) -> None:
        self._bytes -= self._kinds.pop(kind).bytes
        self._refused.add(kind)


def _size(row: Row | None) -> int:
    return len(row.value) + ROW_BYTES if row is not None else 0
