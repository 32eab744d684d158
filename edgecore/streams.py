"""The node's conversations: programs in a VM (`exec`), a port of it (`connect`), its console (`attach`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from edgelink.api import StreamRefused
from edgelink.frames import Way, packed, result, size_of, unpacked, unpacked_command
from vmruntime.api import Runtime, VmError, VmNotFound, VmState
from vmruntime.process import GuestProcess, Terminal

log = logging.getLogger(__name__)

_FIRST_SIZE = Terminal(24, 80)
"""Until the client says its own."""
_NOT_FOUND = 'container not found ("{}")'
_LONGEST_COMMAND = 32 * 1024
"""Characters. The guest's agent takes no requests without end."""


async def talk(
    runtime: Runtime, uuid: str, container: str, kind: str, options: Mapping[str, str], given: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """The node's pieces of such a conversation. Options of `exec`: `command…` (see `frames.packed_command`), `stdin`,
    `tty` (`true`); of `attach`: `stdin`, and `once` where the console's input ends with the client's; of `connect`:
    `port`. Raises StreamRefused."""
    argv: Sequence[str]
    terminal = None
    if kind == "attach":
        return await _attached(runtime, uuid, container, options, given)
    if kind == "connect":
        # No network is needed: a program in the guest connects to it from within.
        argv, stdin = ["nc", "127.0.0.1", options.get("port", "")], True
    else:
        argv, stdin = _command(options), options.get("stdin") == "true"
        terminal = _FIRST_SIZE if options.get("tty") == "true" else None
    try:
        process = await runtime.spawn(uuid, argv, stdin=stdin, terminal=terminal)
    except VmNotFound as error:
        raise StreamRefused(_NOT_FOUND.format(container)) from error
    except VmError as error:
        raise StreamRefused(str(error)) from error
    return _watched(process, given)


async def _attached(
    runtime: Runtime, uuid: str, container: str, options: Mapping[str, str], given: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """What its console shows from now on, until the VM is off; and input for it, if wanted."""
    try:
        if options.get("stdin") == "true":
            console = await runtime.attach(uuid)
            return _watched(console, given, ends_input=options.get("once") == "true")
        status = await runtime.inspect(uuid)
    except VmNotFound as error:
        raise StreamRefused(_NOT_FOUND.format(container)) from error
    except VmError as error:
        raise StreamRefused(str(error)) from error
    if status.state is not VmState.RUNNING:
        raise StreamRefused(_NOT_FOUND.format(container))
    return _console(runtime, uuid)


async def _console(runtime: Runtime, uuid: str) -> AsyncIterator[bytes]:
    try:
        async for chunk in runtime.console(uuid, tail=0, follow=True):
            for piece in packed(Way.STDOUT, chunk):
                yield piece
    except VmError as error:
        raise StreamRefused(str(error)) from error


def _command(options: Mapping[str, str]) -> Sequence[str]:
    """Raises StreamRefused."""
    argv = unpacked_command(options)
    if not argv or not argv[0]:
        raise StreamRefused("no command was given")
    if sum(map(len, argv)) > _LONGEST_COMMAND:
        raise StreamRefused(f"the command has more than {_LONGEST_COMMAND} characters: put them into its input")
    return argv


async def _watched(
    process: GuestProcess, given: AsyncIterator[bytes], *, ends_input: bool = True
) -> AsyncIterator[bytes]:
    feeding = asyncio.create_task(_feed(process, given, ends_input), name="stream input")
    try:
        async for piece in _output(process, feeding):
            yield piece
        yield result(255 if process.code is None else process.code)
    except VmError as error:
        raise StreamRefused(str(error)) from error
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        await process.close()


async def _output(process: GuestProcess, feeding: asyncio.Task[None]) -> AsyncIterator[bytes]:
    """Until the program ends, or the input fails."""
    output = aiter(process.output())
    while True:
        step = asyncio.ensure_future(anext(output, None))
        try:
            waiting = {step} if feeding.done() else {step, feeding}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if feeding.done():
                feeding.result()
            got = await step
        finally:
            step.cancel()
        if got is None:
            return
        for piece in packed(*got):
            yield piece


async def _feed(process: GuestProcess, given: AsyncIterator[bytes], ends_input: bool) -> None:
    """Raises NodeOffline when a piece was lost: a program must not go on with a hole in its input."""
    async for piece in given:
        match unpacked(piece):
            case (Way.STDIN, data):
                await process.write(data)
            case (Way.CLOSE, b"\x00") if ends_input:
                await process.end_input()
            case (Way.RESIZE, data) if size := size_of(data):
                await _resize(process, Terminal(*size))
    if ends_input:
        await process.end_input()


async def _resize(process: GuestProcess, size: Terminal) -> None:
    try:
        await process.resize(size)
    except VmError as error:
        log.info("a terminal keeps its size: %s", error)
