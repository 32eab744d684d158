"""exec, cp, port-forward, attach and run -it by real kubectl into a real guest, through hub, broker and agent."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from edgelab.box import Box, BoxConfig
from edgelab.clean import clean
from edgelab.demo import manifests
from edgelab.waiting import until_none
from edgelab.world import World, opened
from tests.support import libvirtd
from tests.support.terminals import Terminal, on_terminal

STATE = Path(os.environ.get("COPEPOD_TEST_STATE", "/var/lib/copepod-test")) / "streams"
BOOT = 90.0
IMAGE = "copepod/micro:latest"
DATA = random.Random(8).randbytes(1 << 20)

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(180),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(libvirtd.unavailable()), reason=libvirtd.unavailable() or "-"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    await clean(STATE, lambda _: None)
    said: list[str] = []
    async with Box(BoxConfig(STATE, nodes=1), said.append) as box, opened(box, manifests()) as lab:
        limits = {"cpu": "500m", "memory": "96Mi"}
        container = {"name": "vm", "image": IMAGE, "resources": {"limits": limits}}
        container["envFrom"] = [{"configMapRef": {"name": "site"}}, {"secretRef": {"name": "login"}}]
        await lab.kubectl.ok("create", "configmap", "site", "--from-literal=place=Åland")
        await lab.kubectl.ok("create", "secret", "generic", "login", "--from-literal=password=a b$c")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}
        await lab.kubectl.ok("create", "-f", "-", stdin=json.dumps(pod))
        await lab.kubectl.ok("wait", "--for=condition=Ready", "pod/web", f"--timeout={BOOT:.0f}s", timeout=BOOT + 5)
        yield lab
    await clean(STATE, lambda _: None)


def kubectl(world: World, *arguments: str) -> list[str]:
    return [str(world.kubectl.binary), "--kubeconfig", str(world.kubectl.kubeconfig), *arguments]


async def run(world: World, *arguments: str, given: bytes = b"", within: float = 30.0) -> tuple[int, bytes, str]:
    """Exit code, output, complaints."""
    command = kubectl(world, *arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within):
            out, err = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out, err.decode()


async def test_exit_codes_output_and_input(world: World) -> None:
    assert await run(world, "exec", "web", "--", "true") == (0, b"", "")
    assert (await run(world, "exec", "web", "--", "false"))[0] == 1
    assert await run(world, "exec", "web", "--", "sh", "-c", 'echo "$place,$password"') == (
        0, "Åland,a b$c\n".encode(), "",
    )  # fmt: skip
    assert await run(world, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3") == (
        3, b"out\n", "err\ncommand terminated with exit code 3\n",
    )  # fmt: skip
    code, out, err = await run(world, "exec", "-i", "web", "--", "cat", given=DATA)
    assert (code, hashlib.sha256(out).digest(), err) == (0, hashlib.sha256(DATA).digest(), "")


async def test_a_shell_on_a_terminal(world: World) -> None:
    def session(terminal: Terminal) -> int:
        terminal.type("tty; stty size\r")
        terminal.shows("/dev/pts/")
        terminal.until("stty size\r", "31 97\r\n")
        terminal.resize(44, 120)
        terminal.until("stty size\r", "44 120\r\n")
        terminal.type("cat\r")
        terminal.until("hello\r", "hello\r\nhello\r\n")  # what was typed, and cat's answer
        terminal.type("\x03")
        terminal.shows("^C")
        terminal.type("exit 7\r")
        return terminal.ends()

    command = kubectl(world, "exec", "-it", "web", "--", "sh")
    with on_terminal(command, os.environ, 31, 97) as terminal:
        assert await asyncio.to_thread(session, terminal) == 7


async def test_a_vm_of_ones_own_at_the_terminal(world: World) -> None:
    """`kubectl run -it` gives a shell on the VM's console, as it would in a container; `attach` finds it again."""
    limits = {"cpu": "500m", "memory": "96Mi"}
    container = {"name": "own", "image": IMAGE, "command": ["sh"], "resources": {"limits": limits}}
    overrides = {"spec": {"containers": [container | {"stdin": True, "stdinOnce": True, "tty": True}]}}
    run_it = ("run", "-it", "own", f"--image={IMAGE}", "--restart=Never", "--pod-running-timeout=90s")
    command = kubectl(world, *run_it, f"--overrides={json.dumps(overrides)}")

    def session(terminal: Terminal) -> None:
        terminal.until("stty size\r", "31 97\r\n")
        terminal.type("cat\r")
        terminal.until("hello\r", "hello\r\nhello\r\n")
        terminal.type("\x03")
        terminal.shows("^C")

    def second(terminal: Terminal) -> int:
        terminal.resize(44, 120)
        terminal.until("stty size\r", "44 120\r\n")
        terminal.type("exit 7\r")
        return terminal.ends()

    with on_terminal(command, os.environ, 31, 97, patience=BOOT) as terminal:
        await asyncio.to_thread(session, terminal)
    with on_terminal(kubectl(world, "attach", "-it", "own"), os.environ, 31, 97) as terminal:
        assert await asyncio.to_thread(second, terminal) == 0
    wait = ("wait", "--for=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=7", "pod/own")
    assert (await run(world, *wait, "--timeout=60s", within=40))[0] == 0
    await world.kubectl.ok("delete", "pod", "own")


async def test_files_are_copied_both_ways(world: World, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "inner").mkdir(parents=True)
    (there / "inner" / "data").write_bytes(DATA)
    (there / "note").write_text("grüße\n")
    assert (await run(world, "cp", str(there), "web:/tmp/copied"))[0] == 0
    _, out, _ = await run(world, "exec", "web", "--", "sha256sum", "/tmp/copied/inner/data")
    assert out.split()[0].decode() == hashlib.sha256(DATA).hexdigest()
    assert (await run(world, "cp", "web:/tmp/copied", str(tmp_path / "back")))[0] == 0
    assert (tmp_path / "back" / "inner" / "data").read_bytes() == DATA
    assert (tmp_path / "back" / "note").read_text() == "grüße\n"


async def test_a_web_server_in_the_guest_is_reached_without_a_network(world: World) -> None:
    serve = "mkdir -p /tmp/www; head -c 300000 /dev/urandom >/tmp/www/data; httpd -p 127.0.0.1:8080 -h /tmp/www"
    assert (await run(world, "exec", "web", "--", "sh", "-c", serve))[0] == 0
    _, out, _ = await run(world, "exec", "web", "--", "sha256sum", "/tmp/www/data")
    async with forwarded(world, 8080) as port, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"http://127.0.0.1:{port}/data") as answer:
                assert hashlib.sha256(await answer.read()).hexdigest() == out.split()[0].decode()


async def test_nothing_stays_in_the_guest(world: World) -> None:
    """No port, no file and no program of a conversation is left when its client has gone."""
    command = kubectl(world, "exec", "web", "--", "sh", "-c", "echo up; exec sleep 4321")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    process.kill()
    await process.wait()
    vm = await world.vm("web")
    look = "ls -d /dev/vport* /run/copepod-* 2>/dev/null; ps | grep '[s]leep 4321'"

    async def left() -> str | None:
        found = (await world.runtime.exec(vm.uuid, ["sh", "-c", look])).stdout.decode()
        return None if found == "/dev/vport0p1\n" else found

    await until_none(left, "the guest is as it was", 15)


async def test_a_node_that_goes_ends_its_conversations_at_once(world: World) -> None:
    [agent] = world.box.agents
    command = kubectl(world, "exec", "web", "--", "sh", "-c", "echo up; sleep 600")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    await agent.kill()
    try:
        async with asyncio.timeout(10):
            _, err = await process.communicate()
            assert b"lost its session" in err
            code, _, said = await run(world, "exec", "web", "--", "true")
        assert (code, "is offline since" in said) == (1, True), said
    finally:
        await agent.start()

    async def refused() -> str | None:
        code, _, err = await run(world, "exec", "web", "--", "true")
        return err if code else None

    await until_none(refused, "the node is back", 30)


@contextlib.asynccontextmanager
async def forwarded(world: World, port: int) -> AsyncIterator[int]:
    """The local port."""
    command = kubectl(world, "port-forward", "web", f":{port}")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        found = re.search(rb"127\.0\.0\.1:(\d+) ->", await process.stdout.readline())
        assert found
        yield int(found[1])
    finally:
        process.kill()
        await process.wait()
