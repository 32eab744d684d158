"""What a daemon does when it is told to stop while it still starts. Imports next to nothing, so that it comes first."""

from __future__ import annotations

import os
import signal
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)


def stop_while_starting() -> None:
    """Until the daemon listens for them itself, these end it with 0: it stopped as asked, and nothing had begun."""
    for number in STOPS:
        signal.signal(number, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    # Not by an exception: one that is raised while a destructor or a weak reference's callback runs, as the imports
    # have many, is printed and forgotten.
    os._exit(0)
