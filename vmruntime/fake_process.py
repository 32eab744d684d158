"""The programs of a pretended guest, for `FakeRuntime.spawn`: a shell that knows a few words, and what they do.

Known: true, false, exit N, sleep N, echo … [>&2], cat, wc -c, sha256sum, yes, hostname, nproc, stty size, tty,
`sh -c '…; …'`, `sh` that reads its lines from its input, and `nc 127.0.0.1 PORT`, where port 7 echoes and all others
are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shlex
from collections.abc import AsyncIterator, Sequence

from vmruntime.api import GuestUnavailable
from vmruntime.fake_host import FakeHost, FakeVm
from vmruntime.process import Source, Terminal

ECHO_PORT = 7
_WAITING = 4
"""Pieces in a pretended pipe."""


class _Exit(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class FakeProcess:
    """See `vmruntime.process.GuestProcess`."""

    def __init__(self, host: FakeHost, vm: FakeVm, argv: Sequence[str], stdin: bool, terminal: Terminal | None) -> None:
        self._host, self._vm, self._boots, self.terminal = host, vm, vm.boots, terminal
        self._out: asyncio.Queue[tuple[Source, bytes]] = asyncio.Queue(_WAITING)
        self._in: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._rest = b""
        self._no_more = not stdin
        self._closing = asyncio.Event()
        self.code: int | None = None
        self._task = asyncio.create_task(self._run(tuple(argv)), name=f"fake {argv[0]}")

    # -- who watches ----------------------------------------------------------------------------------------------

    async def output(self) -> AsyncIterator[tuple[Source, bytes]]:
        while not (self._task.done() and self._out.empty()):
            if not self._out.empty():
                yield self._out.get_nowait()
                continue
            self._check()
            getting = asyncio.create_task(self._out.get(), name="fake output")
            changed = asyncio.create_task(self._host.console_changed.wait(), name="fake host changes")
            try:
                await asyncio.wait({getting, changed, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                if not getting.done():
                    getting.cancel()
            if getting.done() and not getting.cancelled():
                yield getting.result()
        self.code = self._task.result()

    def _check(self) -> None:
        if not self._vm.running or self._host.down:
            raise GuestUnavailable("the VM went off under the program")
        if self._vm.boots != self._boots:
            raise GuestUnavailable("the guest lost the program: it was killed, or the guest rebooted")

    async def write(self, data: bytes) -> None:
        if data and not self._no_more and not self._task.done():
            putting = asyncio.create_task(self._in.put(data), name="fake input")
            await asyncio.wait({putting, self._task}, return_when=asyncio.FIRST_COMPLETED)
            putting.cancel()

    async def end_input(self) -> None:
        if not self._no_more:
            await self.write(b"\x04" if self.terminal else b"")
            self._no_more = True
            self._closing.set()

    async def resize(self, size: Terminal) -> None:
        if self.terminal:
            self.terminal = size

    @property
    def ended(self) -> bool:
        return self._task.done()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- what the programs do -------------------------------------------------------------------------------------

    async def _run(self, argv: tuple[str, ...]) -> int:
        try:
            return await self._program(argv)
        except _Exit as ended:
            return ended.code

    async def _say(self, data: bytes, source: Source = Source.STDOUT) -> None:
        if self.terminal:
            source, data = Source.STDOUT, data.replace(b"\n", b"\r\n")
        await self._out.put((source, data))

    async def _given(self) -> bytes:
        """The next piece of the input; empty at its end."""
        if self._rest:
            piece, self._rest = self._rest, b""
            return piece
        while self._in.empty():
            if self._no_more:
                return b""
            getting = asyncio.create_task(self._in.get(), name="fake input")
            closing = asyncio.create_task(self._closing.wait(), name="fake end of input")
            await asyncio.wait({getting, closing}, return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if getting.done():
                return await self._echoed(getting.result())
            getting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await getting
        return await self._echoed(self._in.get_nowait())

    async def _echoed(self, piece: bytes) -> bytes:
        if not self.terminal:
            return piece
        piece = piece.replace(b"\r", b"\n")
        typed, end, _ = piece.partition(b"\x04")
        if typed:
            await self._say(typed)
        return typed if typed or not end else b""

    async def _line(self) -> str | None:
        """None at the end of the input."""
        held = b""
        while b"\n" not in held:
            piece = await self._given()
            if not piece:
                return held.decode() or None
            held += piece
        line, _, self._rest = held.partition(b"\n")
        return line.decode()

    async def _shell(self, text: str) -> int:
        code = 0
        for step in text.split(";"):
            words = shlex.split(step)
            if words[:1] == ["exit"]:
                raise _Exit(int(words[1]) if len(words) > 1 else code)
            if words:
                code = await self._program(tuple(words))
        return code

    async def _program(self, argv: tuple[str, ...]) -> int:
        match argv:
            case ("sh" | "/bin/sh", "-c", text, *_):
                return await self._shell(text)
            case ("sh" | "/bin/sh",):
                code = 0
                while (line := await self._line()) is not None:
                    code = await self._shell(line)
                return code
            case ("true",):
                return 0
            case ("false",):
                return 1
            case ("sleep", seconds):
                await asyncio.sleep(float(seconds))
                return 0
            case ("nc", "127.0.0.1", port):
                return await self._connect(int(port))
            case _:
                return await self._filter(argv)

    async def _connect(self, port: int) -> int:
        if port != ECHO_PORT:
            refused = b"nc: can't connect to remote host (127.0.0.1): Connection refused\n"
            await self._say(refused, Source.STDERR)
            return 1
        return await self._filter(("cat",))

    async def _filter(self, argv: tuple[str, ...]) -> int:
        if argv == ("cat",):
            while piece := await self._given():
                await self._say(piece)
        elif argv in (("wc", "-c"), ("sha256sum",)):
            size, digest = 0, hashlib.sha256()
            while piece := await self._given():
                size += len(piece)
                digest.update(piece)
            await self._say(f"{size}\n".encode() if argv[0] == "wc" else f"{digest.hexdigest()}  -\n".encode())
        elif argv == ("yes",):
            while True:
                await self._say(b"y\n" * 4096)
        else:
            return await self._tell(argv)
        return 0

    async def _tell(self, argv: tuple[str, ...]) -> int:
        source = Source.STDOUT
        if argv[-1] == ">&2":
            argv, source = argv[:-1], Source.STDERR
        size = self.terminal
        answers = {
            ("hostname",): self._vm.spec.owner.pod,
            ("nproc",): str(self._vm.vcpus_online),
            ("tty",): "/dev/pts/0" if size else "not a tty",
            ("stty", "size"): f"{size.rows} {size.columns}" if size else "stty: standard input",
        }
        if argv[:1] == ("echo",):
            await self._say(" ".join(argv[1:]).encode() + b"\n", source)
            return 0
        if argv in answers:
            await self._say(answers[argv].encode() + b"\n")
            return 0
        await self._say(f"sh: {argv[0]}: not found\n".encode(), Source.STDERR)
        return 127
