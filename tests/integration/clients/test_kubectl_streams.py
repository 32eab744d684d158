"""exec, cp, attach and port-forward by real kubectl, new and old, over WebSockets and over SPDY, on pretended guests."""

from __future__ import annotations

import hashlib
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectls import NEWEST, OLDER, kubectl
from tests.support.livehub import LiveHub
from tests.support.programs import Program

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  containers:
  - {name: vm, image: copepod/micro, resources: {limits: {cpu: 500m, memory: 96Mi}}}
"""
WEBSOCKETS: dict[str, str] = {}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
DATA = random.Random(4).randbytes(1 << 20)


@pytest.fixture(scope="module")
def newest(hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = kubectl(NEWEST, hub, tmp_path_factory.mktemp("home"), "default")
    for name, node in (("web", "n1"), ("elsewhere", "n9")):
        program.ok("create", "-f", "-", stdin=POD % (name, node))
    program.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    return program


@pytest.fixture(scope="module")
def older(hub: LiveHub, newest: Program, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return kubectl(OLDER, hub, tmp_path_factory.mktemp("older"), "default")


@pytest.fixture(params=["newest", "older"])
def program(request: pytest.FixtureRequest) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[pytest.param(WEBSOCKETS, id="websockets")])
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    chosen: dict[str, str] = request.param
    return chosen


def test_exit_codes_come_back(program: Program, way: dict[str, str]) -> None:
    assert program.run("exec", "web", "--", "true", **way).code == 0
    assert program.run("exec", "web", "--", "false", **way).code == 1
    ran = program.run("exec", "web", "-c", "vm", "--", "sh", "-c", "echo out; echo err >&2; exit 3", **way)
    assert (ran.code, ran.out) == (3, "out\n")
    assert ran.err == "err\ncommand terminated with exit code 3\n"


def test_a_mebibyte_through_cat(newest: Program, way: dict[str, str]) -> None:
    done = piped(newest, DATA, "exec", "-i", "web", "--", "cat", **way)
    assert (done.returncode, done.stderr) == (0, b"")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(DATA).digest()
    assert piped(newest, b"", "exec", "-i", "web", "--", "wc", "-c", **way).stdout == b"0\n"


def test_a_client_that_reads_slowly_and_one_that_goes_hurt_no_other(newest: Program, way: dict[str, str]) -> None:
    with started(newest, "exec", "web", "--", "yes", **way) as slow:
        assert slow.stdout is not None
        assert slow.stdout.read(4) == b"y\ny\n"
        assert newest.run("exec", "web", "--", "echo", "quick", **way).ok() == "quick\n"
        assert slow.stdout.read(1 << 20).count(b"y\n") == 1 << 19
        slow.kill()


def test_what_cannot_be_is_said_at_once(program: Program, way: dict[str, str]) -> None:
    begun = time.monotonic()
    offline = program.run("exec", "elsewhere", "--", "true", **way)
    assert offline.refused().endswith(": node n9 has not connected since this hub started; try again when it is back\n")
    assert time.monotonic() - begun < 5
    assert 'pods "nobody" not found' in program.run("exec", "nobody", "--", "true", **way).refused()
    wrong = program.run("exec", "web", "-c", "wrong", "--", "true", **way)
    assert "container wrong is not valid for pod web" in wrong.refused() or "container not found" in wrong.refused()


def test_a_program_that_is_not_there(program: Program, way: dict[str, str]) -> None:
    ran = program.run("exec", "web", "--", "no-such-program", **way)
    assert ran.code == 127
    assert "no-such-program: not found" in ran.err


# -- helpers ----------------------------------------------------------------------------------------------------------


def environment(program: Program, extra: dict[str, str]) -> dict[str, str]:
    return {"HOME": str(program.home), "KUBECONFIG": str(program.kubeconfig), "PATH": "/usr/bin:/bin"} | extra


def piped(program: Program, given: bytes, *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [program.binary, *program.options, *arguments],
        input=given,
        env=environment(program, extra),
        capture_output=True,
        timeout=60,
        check=False,
    )


def started(program: Program, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [program.binary, *program.options, *arguments],
        env=environment(program, extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
