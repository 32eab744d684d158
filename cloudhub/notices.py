"""Tells the link whose view may have changed. A hint only: the link compares views itself and finds what was missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cloudhub.view import KINDS, nodes_concerned
from metastore.api import Change, ChangeType, Compacted, Store


async def follow_views(store: Store, connected: Callable[[], Iterable[str]], changed: Callable[[str], None]) -> None:
    """Call `changed` with the name of each node whose view a commit may have changed, until cancelled. What cannot be
    told from the object itself (a ConfigMap, a Secret) concerns all that are `connected`."""
    while True:
        watch = store.watch(store.revision, frozenset(KINDS))
        try:
            async for change in watch:
                for node in _concerned(change, connected):
                    changed(node)
            return  # the store was closed
        except Compacted:
            for node in list(connected()):
                changed(node)
        finally:
            watch.close()


def _concerned(change: Change, connected: Callable[[], Iterable[str]]) -> Iterable[str]:
    deleted = change.type is ChangeType.DELETE
    before = change.row.value if deleted else change.previous.value if change.previous else None
    after = None if deleted else change.row.value
    nodes = nodes_concerned(change.row.key.kind, before, after)
    return list(connected()) if nodes is None else nodes
