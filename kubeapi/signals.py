"""What a daemon does when it is told to stop while it still starts. Imports nothing, so that it can come first."""

from __future__ import annotations

import signal
import sys
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)


def stop_while_starting() -> None:
    """Until the daemon listens for them itself, these end it with 0: it stopped as asked, and nothing had begun."""
    for number in STOPS:
        signal.signal(number, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
