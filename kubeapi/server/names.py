"""Names made from `metadata.generateName` (pure)."""

from __future__ import annotations

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own: no vowels, no look-alikes."""
_SUFFIX = 5
_MAX = 63


def generated_name(prefix: str, uid: str) -> str:
    """`prefix` plus five characters drawn from a random UUID, cut as the reference cuts it."""
    number, suffix = int(uid.replace("-", ""), 16), ""
    for _ in range(_SUFFIX):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return prefix[: _MAX - _SUFFIX] + suffix
