"""exec, attach and port-forward by real kubectl, new and old, over WebSockets and over SPDY, on pretended guests."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import pytest
import yaml

from kubeapi.server.portforward import TUNNEL
from kubeapi.server.spdy import SynStream, Writer
from kubeapi.server.websockets import V5
from tests.support.kubectls import NEWEST, OLDER, kubectl
from tests.support.livehub import LiveHub
from tests.support.programs import Program
from tests.support.terminals import on_terminal

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  containers:
  - {name: vm, image: copepod/micro, resources: {limits: {cpu: 500m, memory: 96Mi}}}
"""
ENDING = POD.replace("image:", "command: [sh, -c, 'sleep 6; exit 0'], image:") % ("short", "n2")
READING = POD.replace("image:", "stdin: true, stdinOnce: true, tty: true, command: [sh], image:") % ("reading", "n2")
_SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
WEBSOCKETS: dict[str, str] = {}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
DATA = random.Random(4).randbytes(1 << 20)


@pytest.fixture(scope="module")
def newest(hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = kubectl(NEWEST, hub, tmp_path_factory.mktemp("home"), "default")
    for name, node in (("web", "n1"), ("elsewhere", "n9")):
        program.ok("create", "-f", "-", stdin=POD % (name, node))
    program.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    return program


@pytest.fixture(scope="module")
def older(hub: LiveHub, newest: Program, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return kubectl(OLDER, hub, tmp_path_factory.mktemp("older"), "default")


@pytest.fixture(params=["newest", "older"])
def program(request: pytest.FixtureRequest) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[pytest.param(WEBSOCKETS, id="websockets"), pytest.param(SPDY, id="spdy")])
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


def test_what_cannot_be_is_said(program: Program, way: dict[str, str]) -> None:
    offline = program.run("exec", "elsewhere", "--", "true", **way)
    assert offline.refused().endswith(": node n9 has not connected since this hub started; try again when it is back\n")
    assert 'pods "nobody" not found' in program.run("exec", "nobody", "--", "true", **way).refused()
    wrong = program.run("exec", "web", "-c", "wrong", "--", "true", **way)
    assert "container wrong is not valid for pod web" in wrong.refused() or "container not found" in wrong.refused()


def test_a_program_that_is_not_there(program: Program, way: dict[str, str]) -> None:
    ran = program.run("exec", "web", "--", "no-such-program", **way)
    assert ran.code == 127
    assert "no-such-program: not found" in ran.err


def test_a_terminal_echoes_and_has_the_size_of_ours(newest: Program, way: dict[str, str]) -> None:
    command = [newest.binary, *newest.options, "exec", "-it", "web", "--", "sh"]
    with on_terminal(command, environment(newest, way), 31, 97) as terminal:
        terminal.type("tty; stty size\r")
        terminal.shows("31 97\r\n")
        terminal.resize(44, 120)
        terminal.until("stty size\r", "44 120\r\n")
        terminal.type("exit 7\r")
        assert terminal.ends() == 7


def test_ports_are_forwarded(newest: Program, way: dict[str, str]) -> None:
    with forwarded(newest, "pod/web", 7, **way) as (port, kubectl):
        with (
            socket.create_connection(("127.0.0.1", port), 10) as first,
            socket.create_connection(("127.0.0.1", port), 10) as second,
        ):
            assert echoed(second, b"beside") == b"beside"
            assert echoed(first, DATA[:200_000]) == DATA[:200_000]
            first.shutdown(socket.SHUT_WR)
            assert first.recv(1) == b"", "the end is passed on too"
            assert echoed(second, b"goes on") == b"goes on"
        assert kubectl.poll() is None


def test_a_port_that_is_closed_is_said_and_ends_nothing(newest: Program, way: dict[str, str]) -> None:
    with forwarded(newest, "pod/web", 9, **way) as (port, kubectl):
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            assert connection.recv(1) == b""
        line = said(kubectl, "error occurred forwarding")
        assert "Connection refused" in line


def test_forwarding_to_an_offline_node_fails_at_once(newest: Program, way: dict[str, str]) -> None:
    ran = newest.run("port-forward", "pod/elsewhere", ":7", timeout=10, **way)
    assert ran.code != 0


def test_a_console_is_followed_and_takes_input(newest: Program, way: dict[str, str]) -> None:
    newest.ok("create", "-f", "-", stdin=READING)
    newest.ok("wait", "--for=condition=Ready", "pod/reading", "--timeout=60s")
    with on_terminal(
        [newest.binary, *newest.options, "attach", "-it", "reading"], environment(newest, way), 31, 97
    ) as terminal:
        terminal.type("echo hello\r")
        terminal.shows("echo hello\r\nhello\r\n")
        terminal.type("exit 3\r")
        assert terminal.ends() == 0
    newest.ok("delete", "pod", "reading", "--grace-period=1")


def test_input_from_a_pipe_ends_a_console_that_is_read_once(newest: Program, way: dict[str, str]) -> None:
    newest.ok("create", "-f", "-", stdin=READING)
    newest.ok("wait", "--for=condition=Ready", "pod/reading", "--timeout=60s")
    out = newest.run("attach", "-i", "reading", stdin="echo a line\n", timeout=20, **way).ok()
    assert "\na line\n" in out.replace("\r", "")
    newest.ok("delete", "pod", "reading", "--grace-period=1")


def test_a_console_is_followed(newest: Program) -> None:
    newest.ok("create", "-f", "-", stdin=ENDING)
    newest.ok("wait", "--for=condition=Ready", "pod/short", "--timeout=60s")
    assert newest.run("attach", "short").ok() == "copepod: exit 0\n"
    newest.ok("delete", "pod", "short", "--grace-period=1")


async def test_hostile_clients_end_no_more_than_themselves(newest: Program, hub: LiveHub) -> None:
    """The hub's log, which is looked at when it stops, has no traceback either."""
    user = yaml.safe_load(hub.kubeconfig.read_text())["users"][0]["user"]
    pod = f"{hub.url}/api/v1/namespaces/default/pods/web"
    cat = f"{pod}/exec?command=cat&stdin=true&stdout=true"
    syn_stream = Writer().bytes_of(SynStream(1, {"streamtype": "data", "requestid": "0", "port": "no port"}))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {user['token']}"}) as session:
        for sent in (b"", b"\x09what", b"\xff", b"\xff\x01", b"\x04{}", b"\x03{}", b"\x00" + b"x" * (1 << 20)):
            async with session.ws_connect(cat, ssl=False, protocols=(V5,)) as socket:
                await socket.send_bytes(sent)
        for wire in (b"GET / HTTP/1.1", b"\x80\x03" * 9, syn_stream, syn_stream * 2):
            async with session.ws_connect(f"{pod}/portforward", ssl=False, protocols=(TUNNEL,)) as socket:
                await socket.send_bytes(wire)
        for path in ("exec", "exec?stdout=true", "exec?command=a&stdout=true&stderr=true&tty=true", "attach"):
            async with session.post(f"{pod}/{path}", ssl=False) as answer:
                assert answer.status == 400, await answer.text()
        async with session.post(f"{pod}/portforward", ssl=False, headers=_SPDY) as answer:
            assert (answer.status, "unable to negotiate" in await answer.text()) == (403, True)
    assert newest.run("exec", "web", "--", "echo", "well").ok() == "well\n"


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


@contextmanager
def forwarded(program: Program, target: str, port: int, **extra: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The local port, and who listens on it."""
    with started(program, "port-forward", target, f":{port}", **extra) as kubectl:
        try:
            assert kubectl.stdout is not None
            line = kubectl.stdout.readline().decode()
            found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
            assert found, line or (kubectl.stderr.read() if kubectl.stderr else "")
            yield int(found[1]), kubectl
        finally:
            kubectl.terminate()


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    back = b""
    while len(back) < len(data) and (piece := connection.recv(65536)):
        back += piece
    return back


def said(process: subprocess.Popen[bytes], text: str) -> str:
    """The line of its standard error that has the text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text.encode() in line:
            return line.decode()
    pytest.fail(f"never said {text!r}")
