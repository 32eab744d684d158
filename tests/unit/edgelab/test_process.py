"""A supervised child: ready, restarted, ended, and gone with its starter."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from edgelab.process import Child, ChildFailed, ChildSpec, how_it_ended, next_backoff, trim
from edgelab.waiting import until

SLEEPER = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


def spec(tmp_path: Path, code: str = SLEEPER, **changes: object) -> ChildSpec:
    ready = tmp_path / "ready"
    values: dict[str, object] = {
        "name": "sleeper",
        "argv": (sys.executable, "-c", code, str(ready)),
        "log": tmp_path / "log" / "sleeper.log",
        "pid_file": tmp_path / "run" / "sleeper.pid",
        "ready": ready.exists,
        "stale": ready,
        "ready_timeout": 20.0,
    }
    return ChildSpec(**(values | changes))  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    """No such process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_it_is_ready_when_started_and_gone_when_left(tmp_path: Path) -> None:
    child = Child(spec(tmp_path), lambda _: None)
    async with child:
        pid = child.pid
        assert (tmp_path / "run" / "sleeper.pid").read_text() == f"{pid}\n"
        await until(lambda: "up" in (tmp_path / "log" / "sleeper.log").read_text(), "its output is in its log", 10)
    assert gone(pid)
    assert not child.running
    assert not (tmp_path / "run" / "sleeper.pid").exists()


async def test_one_that_dies_by_itself_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    async with Child(spec(tmp_path), said.append) as child:
        first = child.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.running and child.pid != first, "it runs again", 20)
    assert len(said) == 1
    assert "ended (signal SIGKILL); starting it again" in said[0]


async def test_one_that_was_killed_by_us_stays_down_until_started(tmp_path: Path) -> None:
    async with Child(spec(tmp_path), lambda _: None) as child:
        first = child.pid
        await child.kill()
        assert not child.running
        with pytest.raises(ChildFailed, match="not running"):
            _ = child.pid
        await child.start()
        assert child.pid != first


async def test_readiness_left_by_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    child = Child(spec(tmp_path, "import time; time.sleep(600)", ready_timeout=0.3), lambda _: None)
    with pytest.raises(ChildFailed, match="not ready within"):
        await child.start()
    assert not child.running


async def test_one_that_ends_before_it_is_ready_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = Child(spec(tmp_path, "raise SystemExit('no broker here')"), lambda _: None)
    with pytest.raises(ChildFailed, match=r"(?s)exit code 1.*no broker here"):
        await child.start()


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    child = Child(spec(tmp_path, argv=("/no/such/program",)), lambda _: None)
    with pytest.raises(ChildFailed, match="/no/such/program"):
        await child.start()


async def test_one_that_ignores_the_request_is_killed_at_the_deadline(tmp_path: Path) -> None:
    said: list[str] = []
    async with Child(spec(tmp_path, STUBBORN, grace=0.3), said.append) as child:
        pid = child.pid
    assert gone(pid)
    assert "killing it" in said[0]


STARTER = """
import asyncio, sys
from pathlib import Path
from edgelab.process import Child, ChildSpec
async def main():
    d = Path(sys.argv[1])
    code = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    child = Child(ChildSpec("c", (sys.executable, "-c", code, str(d / "ready")), d / "log", d / "pid",
                            (d / "ready").exists), print)
    await child.start()
    print(child.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_no_child_outlives_a_starter_that_was_killed(tmp_path: Path) -> None:
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert starter.stdout is not None
    pid = int(await starter.stdout.readline())
    assert not gone(pid)
    starter.kill()
    await starter.wait()
    await until(lambda: gone(pid), "the child went with its starter", 10)


def test_backoff_doubles_to_a_bound_and_is_forgiven_after_a_steady_run() -> None:
    delays, delay = [], 0.0
    for _ in range(9):
        delay = next_backoff(delay, lived=1)
        delays.append(delay)
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert next_backoff(30, lived=61) == 0.5


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (-9, "signal SIGKILL"), (-99, "signal 99")])
def test_an_end_is_put_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words


def test_a_log_past_its_limit_is_moved_aside(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 100)
    trim(log, limit=100)
    assert log.stat().st_size == 100
    log.write_bytes(b"y" * 101)
    trim(log, limit=100)
    assert log.stat().st_size == 0
    assert (tmp_path / "a.log.1").read_bytes() == b"y" * 100
