"""What `Runtime.spawn` and `Runtime.attach` promise, on the pretended guest and on a real one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.support import libvirtd
from tests.support.rigs import FakeRig, LibvirtRig, Rig, booted, remove_leftovers, until
from tests.support.vms import make_spec
from vmruntime.api import Exit, ExitReason, GuestUnavailable, Runtime, VmError, VmNotFound, VmSpec, VmState
from vmruntime.libvirt_driver.runtime import LibvirtRuntime
from vmruntime.process import MAX_PROCESSES, GuestProcess, Source, Terminal

ENVIRONMENT = (
    ("GREETING", "hello\nworld"),
    ("my.name", "no name for a shell"),
    ("x;reboot", "$(reboot)"),
    ("command", "init has a variable of that name"),
    ("PATH", "/sbin:/bin:/pod"),
)
SHARED = make_spec("process-shared", env=ENVIRONMENT, working_dir="/srv/it's here", command=("sleep", "86400"))
DATA = random.Random(5).randbytes(1 << 20)


@pytest.fixture(scope="module")
def real_host() -> Iterator[None]:
    if reason := libvirtd.unavailable():
        pytest.skip(f"no real guests: {reason}")
    libvirtd.ensure()
    remove_leftovers("process-")
    yield
    remove_leftovers("process-")


@pytest.fixture(params=["fake", pytest.param("libvirt", marks=pytest.mark.vm)])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    if request.param == "libvirt":
        request.getfixturevalue("real_host")
    rig: Rig = FakeRig() if request.param == "fake" else LibvirtRig()
    yield rig
    await rig.close()


@pytest.fixture
async def runtime(rig: Rig) -> Runtime:
    runtime = rig.open()
    await booted(runtime, SHARED)
    return runtime


@asynccontextmanager
async def spawned(
    runtime: Runtime, *argv: str, stdin: bool = False, terminal: Terminal | None = None
) -> AsyncIterator[GuestProcess]:
    process = await runtime.spawn(SHARED.uuid, argv, stdin=stdin, terminal=terminal)
    try:
        yield process
    finally:
        await process.close()


async def said(process: GuestProcess, within: float = 30.0) -> tuple[int | None, bytes, bytes]:
    """Exit code, standard output, standard error."""
    got = {Source.STDOUT: b"", Source.STDERR: b""}
    async with asyncio.timeout(within):
        async for source, data in process.output():
            got[source] += data
    return process.code, got[Source.STDOUT], got[Source.STDERR]


async def run(runtime: Runtime, *argv: str, given: bytes | None = None) -> tuple[int | None, bytes, bytes]:
    async with spawned(runtime, *argv, stdin=given is not None) as process:
        if given is None:
            return await said(process)
        feeding = asyncio.create_task(feed(process, given))
        try:
            return await said(process)
        finally:
            await feeding


async def feed(process: GuestProcess, data: bytes) -> None:
    for at in range(0, len(data), 16384):
        await process.write(data[at : at + 16384])
    await process.end_input()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("true",), (0, b"", b"")),
        (("false",), (1, b"", b"")),
        (("sh", "-c", "exit 3"), (3, b"", b"")),
        (("sh", "-c", "echo out; echo err >&2; exit 9"), (9, b"out\n", b"err\n")),
        (("echo", 'it\'s "quoted" $HOME  and spaced'), (0, b'it\'s "quoted" $HOME  and spaced\n', b"")),
    ],
)
async def test_output_and_exit_code(runtime: Runtime, argv: Sequence[str], expected: tuple[int, bytes, bytes]) -> None:
    assert await run(runtime, *argv) == expected


async def test_a_program_that_is_not_there(runtime: Runtime) -> None:
    code, out, err = await run(runtime, "no-such-program", "x")
    assert (code, out) == (127, b"")
    assert b"no-such-program: not found" in err


async def test_a_mebibyte_goes_in_and_comes_out_unchanged(runtime: Runtime) -> None:
    code, out, err = await run(runtime, "cat", given=DATA)
    assert (code, hashlib.sha256(out).digest(), err) == (0, hashlib.sha256(DATA).digest(), b"")


async def test_input_that_ends_at_once_and_input_that_nobody_reads(runtime: Runtime) -> None:
    assert await run(runtime, "wc", "-c", given=b"") == (0, b"0\n", b"")
    assert await run(runtime, "true", given=DATA) == (0, b"", b"")


async def test_a_program_without_input_finds_it_at_its_end(runtime: Runtime) -> None:
    assert await run(runtime, "cat") == (0, b"", b"")


async def test_output_comes_while_the_program_runs_and_closing_ends_it(runtime: Runtime) -> None:
    async with spawned(runtime, "sh", "-c", "echo first; sleep 600; echo second") as process:
        async with asyncio.timeout(10):
            assert await anext(aiter(process.output())) == (Source.STDOUT, b"first\n")
    result = await runtime.exec(SHARED.uuid, ["sh", "-c", "ps | grep -c '[s]leep 600'"])
    assert result.stdout in (b"0\n", b"")


async def test_a_slow_reader_stops_its_program_and_no_other(runtime: Runtime) -> None:
    async with spawned(runtime, "yes") as stuck:
        output = aiter(stuck.output())
        await anext(output)
        assert await run(runtime, "sh", "-c", "echo meanwhile") == (0, b"meanwhile\n", b"")
        async with asyncio.timeout(5):
            assert (await runtime.inspect(SHARED.uuid)).boot_id is not None
        for _ in range(100):
            source, data = await anext(output)
            assert (source, set(data)) == (Source.STDOUT, {0x79, 0x0A})


async def test_a_terminal_has_a_size_that_changes_and_echoes(runtime: Runtime) -> None:
    async with spawned(runtime, "sh", stdin=True, terminal=Terminal(30, 100)) as process:
        output = aiter(process.output())
        seen = b""

        async def shows(text: bytes) -> None:
            nonlocal seen
            async with asyncio.timeout(10):
                while text not in seen:
                    source, data = await anext(output)
                    assert source is Source.STDOUT
                    seen += data
            seen = seen.partition(text)[2]

        await process.write(b"tty; stty size\r")
        await shows(b"/dev/pts/")
        await shows(b"30 100\r\n")
        await process.resize(Terminal(55, 210))
        await process.write(b"stty size\r")
        await shows(b"55 210\r\n")
        await process.write(b"exit 7\r")
        async for _ in output:
            pass
        assert process.code == 7


async def test_there_is_room_for_so_many_and_no_more(runtime: Runtime) -> None:
    async with spawned(runtime, "cat", stdin=True) as first:
        others = [await runtime.spawn(SHARED.uuid, ["sleep", "60"]) for _ in range(MAX_PROCESSES - 1)]
        with pytest.raises(VmError, match="end one first"):
            await runtime.spawn(SHARED.uuid, ["true"])
        await asyncio.gather(*(process.close() for process in others))
        assert await run(runtime, "echo", "again") == (0, b"again\n", b"")
        await first.write(b"still here")
        assert await anext(aiter(first.output())) == (Source.STDOUT, b"still here")


async def test_whoever_is_cancelled_while_closing_leaves_nothing_taken(runtime: Runtime) -> None:
    for _ in range(MAX_PROCESSES):
        process = await runtime.spawn(SHARED.uuid, ["sleep", "60"])
        closing = asyncio.create_task(process.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(VmError):
                assert await run(runtime, "true") == (0, b"", b"")
                break
            await asyncio.sleep(0.1)


async def test_nothing_runs_in_what_is_not_there_or_off(runtime: Runtime) -> None:
    with pytest.raises(VmNotFound):
        await runtime.spawn(make_spec("process-never").uuid, ["true"])
    off = make_spec("process-off")
    await runtime.create(off)
    try:
        with pytest.raises(GuestUnavailable):
            await runtime.spawn(off.uuid, ["true"])
    finally:
        await runtime.delete(off.uuid)


async def test_the_pods_environment_is_the_programs(rig: Rig, runtime: Runtime) -> None:
    if isinstance(rig, FakeRig):
        pytest.skip("a pretended guest's programs ask for no environment")
    assert await run(runtime, "sh", "-c", 'echo "$GREETING" $#') == (0, b"hello\nworld 0\n", b"")
    assert await run(runtime, "pwd") == (0, b"/srv/it's here\n", b"")
    pod_command = 'cat "/proc/$(pidof sleep)/environ"; printf "%s\\0" "$(readlink "/proc/$(pidof sleep)/cwd")"'
    for program in (("/bin/env", "-0"), ("sh", "-c", pod_command)):
        code, out, err = await run(runtime, *program)
        assert (code, err) == (0, b"")
        found = out.decode().split("\0")
        assert [f"{name}={value}" for name, value in ENVIRONMENT if f"{name}={value}" not in found] == []
    assert found[-2] == "/srv/it's here"


async def test_a_guest_that_goes_takes_its_programs_along(rig: Rig, runtime: Runtime) -> None:
    spec = make_spec("process-ends")
    await booted(runtime, spec)
    try:
        for end in (rig.reboot_guest, rig.kill_vmm):
            process = await runtime.spawn(spec.uuid, ["sh", "-c", "echo up; sleep 600"])
            output = aiter(process.output())
            assert await anext(output) == (Source.STDOUT, b"up\n")
            await end(spec)
            with pytest.raises(GuestUnavailable):
                async with asyncio.timeout(60):
                    await anext(output)
            await process.close()
            if end == rig.reboot_guest:
                await until(runtime, spec.uuid, lambda status: status.boot_id is not None)
    finally:
        await runtime.delete(spec.uuid)


async def test_what_an_agent_left_behind_is_removed(rig: Rig, runtime: Runtime) -> None:
    """An agent that is killed leaves its ports plugged: the next one's first program removes them."""
    if isinstance(rig, FakeRig):
        pytest.skip("a pretended guest has no ports")
    left = await runtime.spawn(SHARED.uuid, ["sleep", "600"])
    another = rig.open()
    assert await run(another, "sh", "-c", "ls /dev/vport* | wc -l") == (0, b"3\n", b""), "the agent's and two"
    await left.close()


async def test_a_guest_that_boots_refuses(rig: Rig) -> None:
    runtime, spec = rig.open(), make_spec("process-early")
    await runtime.create(spec)
    try:
        await runtime.start(spec.uuid)
        with pytest.raises(GuestUnavailable, match="may still be booting"):
            await runtime.spawn(spec.uuid, ["true"])
    finally:
        await runtime.delete(spec.uuid)


# -- the console ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def attached(runtime: Runtime, spec: VmSpec) -> AsyncIterator[GuestProcess]:
    console = await runtime.attach(spec.uuid)
    try:
        yield console
    finally:
        await console.close()


async def shows(console: GuestProcess, text: bytes, within: float = 30.0) -> None:
    seen = b""
    async with asyncio.timeout(within):
        async for _, piece in console.output():
            seen += piece
            if text in seen:
                return
    raise AssertionError(f"the console ended without {text!r}: {seen!r}")


@pytest.fixture
async def typist(runtime: Runtime) -> AsyncIterator[VmSpec]:
    """A VM whose command is a shell on its console."""
    spec = make_spec("process-console", command=("sh",), stdin=True, tty=True)
    await booted(runtime, spec)
    yield spec
    await runtime.delete(spec.uuid)


async def test_a_shell_on_the_console_is_shared_by_all_who_are_attached(runtime: Runtime, typist: VmSpec) -> None:
    async with attached(runtime, typist) as one, attached(runtime, typist) as other:
        await one.write(b"echo a$((1))\r" if isinstance(runtime, LibvirtRuntime) else b"echo a1\r")
        await shows(one, b"\na1\r\n")
        await shows(other, b"\na1\r\n")
        await other.resize(Terminal(31, 97))
        await other.write(b"exit 5\r")
        assert (await said(one))[0] == (await said(other))[0] == 0
    ended = await until(runtime, typist.uuid, lambda status: status.exit is not None)
    assert ended.exit == Exit(ExitReason.SHUTDOWN, 5)


async def test_the_consoles_input_ends_in_the_middle_of_a_line_too(runtime: Runtime) -> None:
    spec = make_spec("process-input", command=("cat",), stdin=True)
    await booted(runtime, spec)
    async with attached(runtime, spec) as console:
        await console.write(b"half a line")
        await console.end_input()
        assert (await said(console))[0] == 0
    ended = await until(runtime, spec.uuid, lambda status: status.exit is not None)
    assert ended.exit == Exit(ExitReason.SHUTDOWN, 0)
    await runtime.delete(spec.uuid)


async def test_a_console_that_nobody_reads_only_echoes(runtime: Runtime) -> None:
    async with attached(runtime, SHARED) as console:
        await console.write(b"anybody there\r")
        await shows(console, b"anybody there")
    assert (await runtime.inspect(SHARED.uuid)).state is VmState.RUNNING


async def test_whoever_reads_a_console_slowly_holds_nobody_up(runtime: Runtime, typist: VmSpec) -> None:
    async with attached(runtime, typist) as one, attached(runtime, typist):  # of whom the second never reads
        for _ in range(3):
            await one.write(b"echo " + b"x" * 1000 + b"\r")
            await shows(one, b"\n" + b"x" * 1000)


async def test_nothing_is_attached_to_what_is_not_there_or_off(runtime: Runtime) -> None:
    off = make_spec("process-off")
    with pytest.raises(VmNotFound):
        await runtime.attach(off.uuid)
    await runtime.create(off)
    with pytest.raises(GuestUnavailable, match=r"process-off is .*, not running"):
        await runtime.attach(off.uuid)
    await runtime.delete(off.uuid)
