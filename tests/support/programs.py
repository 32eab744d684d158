"""Client programs as people run them: each run must end, and none may be surprised by what the hub says."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(sys.prefix) / "tools"
"""Where scripts/client-tools puts them."""

SURPRISES = (
    "unexpected server response",
    "the server responded with the status code",
    "panic:",
    "Traceback",
    "unable to decode",
    "Internal error",
    "InternalError",
    "unknown (",
    "connection reset",
    "unexpected EOF",
)
"""What no command may ever print: the client did not understand the hub, or one of them broke."""

_OWN_DOING = "context canceled"
"""What a Go client says when it ends its own watch."""


@dataclass(frozen=True, slots=True)
class Ran:
    command: str
    code: int
    out: str
    err: str

    def ok(self) -> str:
        assert self.code == 0, f"`{self.command}` ended with {self.code}: {self.err or self.out}"
        return self.out

    def refused(self) -> str:
        assert self.code != 0, f"`{self.command}` should have failed: {self.out}"
        return self.err


@dataclass(frozen=True, slots=True)
class Program:
    """One binary with its own home; `options` go before every command's own."""

    binary: Path
    home: Path
    kubeconfig: Path
    options: tuple[str, ...] = ()

    def run(self, *arguments: str, stdin: str = "", timeout: float = 120.0, **environment: str) -> Ran:
        self.home.mkdir(exist_ok=True)
        base = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin:/bin"}
        said = f"{self.binary.name} {' '.join(arguments)}"
        try:
            done = subprocess.run(
                [self.binary, *self.options, *arguments],
                input=stdin,
                env=base | environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            pytest.fail(f"`{said}` did not end within {timeout:.0f} s: {expired.stdout!r} {expired.stderr!r}")
        ran = Ran(said, done.returncode, done.stdout, done.stderr)
        lines = [line for line in (ran.out + ran.err).splitlines() if _OWN_DOING not in line]
        for surprise in SURPRISES:
            assert surprise not in "\n".join(lines), f"`{said}`: {ran.out}{ran.err}"
        return ran

    def watch(self, *arguments: str, until: str, timeout: float = 120.0) -> Ran:
        """A command that goes on by itself: up to the line that matches `until`, and then it is ended."""
        said = f"{self.binary.name} {' '.join(arguments)}"
        environment = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin:/bin"}
        command = ["timeout", str(timeout), self.binary, *self.options, *arguments]
        seen: list[str] = []
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                seen.append(line)
                if re.search(until, line):
                    process.terminate()
                    return Ran(said, 0, "".join(seen), "")
        pytest.fail(f"`{said}` ended before it showed {until!r}: {''.join(seen)}")

    def ok(self, *arguments: str, stdin: str = "", timeout: float = 120.0) -> str:
        return self.run(*arguments, stdin=stdin, timeout=timeout).ok()


def tool(name: str) -> Path:
    """A tool that `make test` installs; skips where it is not to be had."""
    path = TOOLS / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: scripts/client-tools brings it on x86-64 Linux")
    return path


def eventually(find: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true answer, asked for again and again."""
    ended = threading.Event()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := find():
            return found
        ended.wait(0.05)
    raise AssertionError(f"never came true: {find}")
