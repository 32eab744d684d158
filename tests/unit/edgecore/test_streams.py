"""The node's conversations, without a link: what is passed on, and what ends a program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from edgecore.streams import talk
from edgelink.api import NodeOffline, StreamRefused
from edgelink.frames import Way, packed, packed_command, result, result_code, size_of, unpacked, unpacked_command
from edgelink.streams import CHUNK
from tests.support.vms import INSTALLATION, make_spec
from vmruntime.fake import FakeHost, FakeRuntime

SPEC = make_spec("talks")


@pytest.fixture
async def runtime() -> FakeRuntime:
    runtime = FakeRuntime(FakeHost(boot_delay=0.0), INSTALLATION)
    await runtime.create(SPEC)
    await runtime.start(SPEC.uuid)
    return runtime


async def nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def executed(
    runtime: FakeRuntime, *argv: str, given: AsyncIterator[bytes] | None = None, **options: str
) -> AsyncIterator[bytes]:
    return await talk(runtime, SPEC.uuid, "vm", "exec", options | packed_command(argv), given or nothing())


async def test_pieces_are_output_and_then_the_result(runtime: FakeRuntime) -> None:
    pieces = await executed(runtime, "sh", "-c", "echo a; echo b >&2; exit 4")
    assert [piece async for piece in pieces] == [b"\x01a\n", b"\x02b\n", result(4)]


async def test_input_sizes_and_the_ends_of_ways_reach_the_program(runtime: FakeRuntime) -> None:
    async def given() -> AsyncIterator[bytes]:
        yield bytes((Way.STDIN,)) + b"hello"
        yield bytes((Way.RESIZE,)) + b"no size"
        yield bytes((77,)) + b"of a later version"
        yield bytes((Way.CLOSE, Way.STDIN))
        await asyncio.Event().wait()

    pieces = await executed(runtime, "cat", given=given(), stdin="true")
    assert [piece async for piece in pieces] == [b"\x01hello", result(0)]


async def test_a_hole_in_the_input_ends_the_program(runtime: FakeRuntime) -> None:
    async def given() -> AsyncIterator[bytes]:
        yield b"\x00hello"
        raise NodeOffline("a piece of the stream was lost on the link")

    pieces = await executed(runtime, "sh", given=given(), stdin="true")
    with pytest.raises(NodeOffline, match="was lost"):
        async for _ in pieces:
            pass
    assert all(process.ended for process in runtime._processes[SPEC.uuid])


async def test_whoever_stops_listening_ends_the_program(runtime: FakeRuntime) -> None:
    pieces = await executed(runtime, "yes")
    assert await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    assert all(process.ended for process in runtime._processes[SPEC.uuid])


async def test_refusals_are_for_people(runtime: FakeRuntime) -> None:
    with pytest.raises(StreamRefused, match="no command"):
        await executed(runtime)
    with pytest.raises(StreamRefused, match="put them into its input"):
        await executed(runtime, "echo", "x" * 40_000)
    with pytest.raises(StreamRefused, match=r'container not found \("vm"\)'):
        await talk(runtime, make_spec("another").uuid, "vm", "exec", packed_command(["true"]), nothing())
    await runtime.stop(SPEC.uuid, 1)
    with pytest.raises(StreamRefused, match="not running"):
        await executed(runtime, "true")
    with pytest.raises(StreamRefused, match=r'container not found \("vm"\)'):
        await talk(runtime, SPEC.uuid, "vm", "attach", {}, nothing())


async def test_a_vm_that_goes_off_is_told(runtime: FakeRuntime) -> None:
    pieces = await executed(runtime, "sh", "-c", "echo up; sleep 60")
    assert await anext(pieces) == b"\x01up\n"
    runtime._host.crash(SPEC.uuid)
    with pytest.raises(StreamRefused, match="went off"):
        await anext(pieces)


@any_of(st.lists(st.text(max_size=3000), max_size=20))
def test_a_command_travels_in_options_that_the_wire_takes(argv: list[str]) -> None:
    options = packed_command(argv)
    assert all(len(value) <= 4096 for value in options.values())
    assert unpacked_command({"stdin": "true"} | options) == argv


@any_of(st.integers(0, 255), st.binary(max_size=3 * CHUNK))
def test_pieces_fit_and_keep_their_way(way: int, data: bytes) -> None:
    pieces = list(packed(way, data))
    assert all(len(piece) <= CHUNK for piece in pieces)
    assert {unpacked(piece)[0] for piece in pieces} == {way}
    assert b"".join(unpacked(piece)[1] for piece in pieces) == data


@any_of(st.binary(max_size=60) | st.sampled_from([b"[]", b"3", b'{"code": "x"}', b'{"Width": -1, "Height": 7}']))
def test_what_is_no_result_and_no_size_is_taken_for_none(data: bytes) -> None:
    assert result_code(data) == 255
    assert size_of(data) is None
