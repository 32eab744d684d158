"""Regular expressions that users write (schemas' `pattern`). The only door to RE2.

The reference matches with RE2, too: the same syntax, and a time that is linear in the text whatever the expression is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any


class BadPattern(ValueError):
    """Not an expression; the message says why."""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    import re2  # the hub's: a node has no use for it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def check(pattern: str) -> None:
    """Raises BadPattern."""
    _compiled(pattern)


def found(pattern: str, text: str) -> bool:
    """Whether it matches anywhere in the text. Raises BadPattern."""
    return _compiled(pattern).search(text) is not None


def matches(pattern: str, text: str) -> Iterator[str]:
    """Every part of the text that matches, from the left. Raises BadPattern."""
    return (str(match.group()) for match in _compiled(pattern).finditer(text))
