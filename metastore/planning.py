"""What a batch of commits does to objects, decided on the rows it found and nothing else (pure).

Only puts and deletes can be refused, so this is where a commit fails: it leaves no trace in the plan, and those after
it see what those before it wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from metastore.api import Change, ChangeType, Conflict, Delete, Key, NotFound, Op, Put, Row, UidMismatch


@dataclass
class ObjectPlan:
    """`found` are the rows in the database under all keys that the batch names."""

    found: Mapping[Key, Row]
    revision: int
    changes: list[Change] = field(default_factory=list)
    """Of all commits that succeeded, in order."""
    final: dict[Key, Row | None] = field(default_factory=dict)
    """What the database must hold under each key that was changed; None for nothing."""

    def commit(self, ops: Sequence[Op]) -> tuple[Change, ...]:
        """Raises Conflict, NotFound, UidMismatch, having changed nothing."""
        revision, changes = self.revision, list[Change]()
        own: dict[Key, Row | None] = {}
        for op in ops:
            if not isinstance(op, (Put, Delete)):
                continue
            old = own[op.key] if op.key in own else self._row(op.key)
            if isinstance(op, Put):
                change = _put(op, old, revision + 1)
                own[op.key] = change.row
            elif (gone := _delete(op, old, revision + 1)) is not None:
                change = gone
                own[op.key] = None
            else:
                continue
            revision += 1
            changes.append(change)
        self.revision = revision
        self.changes += changes
        self.final |= own
        return tuple(changes)

    def _row(self, key: Key) -> Row | None:
        return self.final[key] if key in self.final else self.found.get(key)


def _put(op: Put, old: Row | None, revision: int) -> Change:
    if op.expect is not None and op.expect != (old.revision if old else 0):
        if old is None:
            raise NotFound(op.key)
        raise Conflict(op.key, op.expect, old.revision)
    if old and old.uid != op.uid and not op.replace:
        raise UidMismatch(op.key, op.uid, old.uid)
    created = old.created if old and old.uid == op.uid else revision
    return Change(ChangeType.PUT, Row(op.key, op.uid, revision, created, op.value), old)


def _delete(op: Delete, old: Row | None, revision: int) -> Change | None:
    """None: there is nothing to delete, and that is all right."""
    if old is None:
        if op.missing_ok:
            return None
        raise NotFound(op.key)
    if op.uid is not None and old.uid != op.uid:
        if op.missing_ok:
            return None
        raise UidMismatch(op.key, op.uid, old.uid)
    if op.expect is not None and op.expect != old.revision:
        raise Conflict(op.key, op.expect, old.revision)
    return Change(ChangeType.DELETE, Row(op.key, old.uid, revision, old.created, old.value), old)
