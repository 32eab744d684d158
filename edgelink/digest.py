"""The digest of a view: equal on both sides exactly when they hold the same objects at the same revisions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from edgelink.api import Item, ItemKey

Held = Mapping[ItemKey, tuple[str, int]]
"""What a side holds of a view: key → (UID, revision)."""


def held_of(items: Iterable[Item]) -> dict[ItemKey, tuple[str, int]]:
    return {item.key: (item.uid, item.revision) for item in items}


def view_digest(held: Held) -> str:
    """SHA-256, in hex, over the sorted lines `kind/ns/name uid rev` (ADR 0002)."""
    lines = sorted(f"{k.kind}/{k.namespace}/{k.name} {uid} {rev}" for k, (uid, rev) in held.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
