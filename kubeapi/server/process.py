"""What a process that serves the API sets for itself as a whole. Not for libraries: only a main program may call it."""

from __future__ import annotations

import gc

_YOUNG = 20_000
"""Objects made before the collector looks for cycles among them. A request makes some thousands and leaves hardly a
cycle; with Python's 700 the collector takes an eighth of a create's time."""


def tune() -> None:
    """After everything is imported: that is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, 10)
