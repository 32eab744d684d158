"""A stop during the start, wherever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IN_A_DESTRUCTOR = """
import os
from kubeapi.signals import stop_while_starting

class Dying:
    def __del__(self):
        os.kill(os.getpid(), {number})
        for _ in range(1000):
            pass

stop_while_starting()
Dying()
os._exit(7)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_comes_in_a_destructor_is_obeyed(number: signal.Signals) -> None:
    """Where an exception would be printed and forgotten."""
    run = subprocess.run([sys.executable, "-c", IN_A_DESTRUCTOR.format(number=int(number))], timeout=60, check=False)
    assert run.returncode == 0
