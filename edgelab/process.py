"""One supervised child process: started, found ready, watched, restarted with back-off, and never left behind.

The kernel kills a child whose starter is gone (PR_SET_PDEATHSIG), so that no broker, hub or agent outlives a lab that
was itself killed. A child that changes its user id would lose that, hence none here does. The signal is tied to the
*thread* that forked: start children from the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from edgelab.waiting import POLL
from metastore.files import write_whole

Say = Callable[[str], None]
"""Tells the user one line of progress (never on stdout, which belongs to scripts)."""

PR_SET_PDEATHSIG = 1
LOG_LIMIT = 8 * 1024 * 1024
"""Bytes a log may reach before it is moved to `.1`; so two of these bound what a child can write."""
BACKOFF_FIRST = 0.5
BACKOFF_MOST = 30.0
STEADY = 60.0
"""A child that ran this many seconds has earned a fresh back-off."""

_libc = ctypes.CDLL(None, use_errno=True)


class ChildFailed(Exception):
    """The child ended, or was not ready in time. The message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    name: str
    argv: tuple[str, ...]
    log: Path
    pid_file: Path
    ready: Callable[[], bool]
    """Looked at until true after each start."""
    stale: Path | None = None
    """Removed before each start: what an earlier run left there would be taken for readiness."""
    ready_timeout: float = 60.0
    grace: float = 15.0
    """Seconds between SIGTERM and SIGKILL."""
    env: Mapping[str, str] = field(default_factory=dict)


def next_backoff(previous: float, lived: float) -> float:
    """Seconds to wait before a child that lived `lived` seconds is started again; 0 as `previous` for the first."""
    if previous == 0 or lived >= STEADY:
        return BACKOFF_FIRST
    return min(previous * 2, BACKOFF_MOST)


def how_it_ended(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


def trim(log: Path, limit: int = LOG_LIMIT) -> None:
    """Move a log that has grown past `limit` aside. The writer appends through its own descriptor, so copy and cut."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > limit:
            log.with_name(log.name + ".1").write_bytes(log.read_bytes()[-limit:])
            os.truncate(log, 0)


def tail(log: Path, lines: int = 12) -> str:
    try:
        text = log.read_bytes()[-16384:].decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "(its log is empty)"


class Child:
    """`start`, `stop` and `kill` are what a test does to it; in between it is kept running if `supervise` is set."""

    def __init__(self, spec: ChildSpec, say: Say, *, supervise: bool = True) -> None:
        self.spec = spec
        self._say = say
        self._supervise = supervise
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Raises ChildFailed while the child is down."""
        if self._process is None or self._process.returncode is not None:
            raise ChildFailed(f"{self.name} is not running")
        return self._process.pid

    async def start(self) -> None:
        """Start if it is down, and return when it is ready. Raises ChildFailed; then nothing runs."""
        if not self.running:
            await self._unwatch()
            await self._spawn()
        try:
            await self._await_ready()
        except BaseException:
            await self._end(signal.SIGKILL)
            raise
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when the grace is over. Returns when it is gone."""
        await self._unwatch()
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL, as a power cut would; stays down until started again."""
        await self._unwatch()
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _spawn(self) -> None:
        spec = self.spec
        for path in (spec.log, spec.pid_file):
            path.parent.mkdir(parents=True, exist_ok=True)
        if spec.stale is not None:
            spec.stale.unlink(missing_ok=True)
        trim(spec.log)
        starter = os.getpid()
        with _append(spec.log) as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *spec.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(spec.env),
                    start_new_session=True,  # Ctrl-C reaches the lab alone, which then stops its children in order
                    preexec_fn=lambda: _die_with(starter),
                )
            except OSError as error:
                raise ChildFailed(f"cannot start {spec.name} ({spec.argv[0]}): {error.strerror}") from error
        write_whole(spec.pid_file, f"{self._process.pid}\n")

    async def _await_ready(self) -> None:
        spec, process = self.spec, self._process
        assert process is not None
        try:
            async with asyncio.timeout(spec.ready_timeout):
                while not spec.ready():
                    if process.returncode is not None:
                        how = how_it_ended(process.returncode)
                        raise ChildFailed(
                            f"{spec.name} ended before it was ready ({how}); the end of {spec.log}:\n{tail(spec.log)}"
                        )
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            raise ChildFailed(
                f"{spec.name} was not ready within {spec.ready_timeout:.0f} s; the end of {spec.log}:\n{tail(spec.log)}"
            ) from error

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = 0.0
        while self._process is not None:
            started = loop.time()
            ended = await self._ended(self._process)
            if not self._supervise:
                self._say(f"{self.name} ended ({ended})")
                return
            backoff = next_backoff(backoff, loop.time() - started)
            self._say(f"{self.name} ended ({ended}); starting it again in {backoff:g} s, see {self.spec.log}")
            await asyncio.sleep(backoff)
            try:
                await self._spawn()
            except ChildFailed as error:
                self._say(str(error))

    async def _ended(self, process: asyncio.subprocess.Process) -> str:
        """Wait for the end of the process, keeping its log in bounds meanwhile."""
        while True:
            try:
                async with asyncio.timeout(10):
                    return how_it_ended(await process.wait())
            except TimeoutError:
                trim(self.spec.log)

    async def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(how)
            try:
                async with asyncio.timeout(self.spec.grace):
                    await process.wait()
            except TimeoutError:
                self._say(f"{self.name} did not end within {self.spec.grace:.0f} s of {how.name}; killing it")
                process.kill()
                await process.wait()
        self.spec.pid_file.unlink(missing_ok=True)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours, less what would let a child speak to the service manager in our name."""
    ours = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
    return {**ours, **extra}


def _append(log: Path) -> BinaryIO:
    return open(log, "ab", buffering=0)


def _die_with(starter: int) -> None:
    """In the child, before exec: ask to be killed with the starter, who may be gone already."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:
        os._exit(1)
