"""A terminal, as a person has one, for programs that want one."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Terminal:
    master: int
    process: subprocess.Popen[bytes]
    patience: float
    seen: str = ""
    whole: list[str] = field(default_factory=list)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def shows(self, text: str) -> None:
        """Wait until the screen shows it, after what was waited for before."""
        if not self._shows(text, self.patience):
            raise AssertionError(f"{text!r} was never shown: {''.join(self.whole)!r}")

    def until(self, typed: str, text: str) -> None:
        """Type it again and again until the answer is that."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            self.type(typed)
            if self._shows(text, 1.0):
                return
        raise AssertionError(f"{text!r} was never shown: {''.join(self.whole)!r}")

    def _shows(self, text: str, within: float) -> bool:
        deadline = time.monotonic() + within
        while text not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                return False
        self.seen = self.seen.partition(text)[2]
        return True

    def _read(self, within: float) -> bool:
        if not select.select([self.master], [], [], within)[0]:
            return True
        try:
            piece = os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # everybody has closed the other end
            return False
        self.seen += piece
        self.whole.append(piece)
        return bool(piece)

    def ends(self) -> int:
        """The exit code."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and self._read(0.1) and self.process.poll() is None:
            pass
        return self.process.wait(max(deadline - time.monotonic(), 0.1))


@contextmanager
def on_terminal(
    command: Sequence[str | Path], environment: Mapping[str, str], rows: int, columns: int, patience: float = 20.0
) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        command, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master, process, patience)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
