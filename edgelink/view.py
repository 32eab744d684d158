"""Differences between views. Pure: what a node must be told so that what it holds becomes the view as it is now."""

from __future__ import annotations

from dataclasses import dataclass

from edgelink.api import Item, ItemKey, View
from edgelink.digest import Held


@dataclass(frozen=True, slots=True)
class ViewDiff:
    put: tuple[Item, ...]
    """New or changed, in the view's own order (dependencies first), each with its whole content."""
    gone: tuple[tuple[ItemKey, str], ...]
    """(key, UID) of what is held and is not in the view any more, dependants first."""

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


def diff_views(held: Held, view: View) -> ViewDiff:
    """A key that came back with another UID is only put: the new object takes the place of the old."""
    put = tuple(i for i in view.items.values() if held.get(i.key) != (i.uid, i.revision))
    gone = tuple((key, uid) for key, (uid, _) in held.items() if key not in view.items)
    return ViewDiff(put, gone[::-1])
