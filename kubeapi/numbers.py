"""Numbers that travel as text (pure)."""

from __future__ import annotations

import re

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

_DECIMAL = re.compile(r"[0-9]{1,19}")


def decimal(text: str) -> int | None:
    """Of ASCII digits alone, within int64; None for anything else.

    Anybody may write it into an annotation, and `int` is too generous (other scripts' digits, `_`, blanks) and too
    strict (ValueError beyond some thousands of digits).
    """
    value = int(text) if _DECIMAL.fullmatch(text) else None
    return value if value is not None and value <= INT64_MAX else None
