"""`Runtime.spawn` on libvirt: a program in the guest, connected through ports that are plugged for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shlex
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from vmruntime.api import GuestUnavailable, VmError
from vmruntime.libvirt_driver import agent, ports
from vmruntime.libvirt_driver.connection import Connection
from vmruntime.libvirt_driver.ports import EndFinder
from vmruntime.libvirt_driver.resize import running
from vmruntime.libvirt_driver.view import Seen, find
from vmruntime.process import MAX_PROCESSES, GuestProcess, Source, Terminal

log = logging.getLogger(__name__)

_SCRIPT = (Path(__file__).parents[1] / "guest" / "spawn").read_text()
_CHUNK = 16 * 1024
_LOOK_SECONDS = 5.0
"""After so long without output the guest is asked whether it still knows the program (it may have rebooted)."""
_LAST_WORDS_SECONDS = 0.5
_END = 'kill -HUP -- "-$1"; kill -TERM -- "-$1"; sleep 1; kill -KILL -- "-$1"; rm -rf "/run/copepod-$2"'
_RESIZE = """tty=/run/copepod-$1/tty
until [ -s "$tty" ]; do sleep 0.02; done
stty -F "$(cat "$tty")" rows "$2" cols "$3"
"""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Spawner:
    """Starts programs in guests, and knows which run."""

    def __init__(self, connection: Connection, installation: str) -> None:
        self._connection, self._installation = connection, installation
        self._living: dict[str, set[str]] = {}
        """Tags by VM. A port of ours with another tag was left by an agent that died."""
        self._ending: set[asyncio.Task[None]] = set()

    async def spawn(self, uuid: str, argv: Sequence[str], stdin: bool, terminal: Terminal | None) -> GuestProcess:
        tags = self._living.setdefault(uuid, set())
        if len(tags) >= MAX_PROCESSES:
            raise VmError(f"{MAX_PROCESSES} programs are watched in this VM already; end one first")
        tag = secrets.token_hex(4)
        tags.add(tag)
        try:
            return await self._start(uuid, tag, argv, stdin, terminal)
        except BaseException:
            await self._finish(self._forget(uuid, tag))
            raise

    async def _start(
        self, uuid: str, tag: str, argv: Sequence[str], stdin: bool, terminal: Terminal | None
    ) -> GuestProcess:
        ways = ["out"] + ([] if terminal else ["err"]) + (["in"] if stdin else [])
        seen, places = await self._connection.call(self._plug, uuid, tag, ways)
        streams: dict[str, Streams] = {}
        try:
            for way, path in places.items():
                streams[way] = await asyncio.open_unix_connection(path, limit=_CHUNK)
            mark = f"copepod-end-{secrets.token_hex(16)}"
            command = _command(tag, mark, argv, stdin, terminal)
            patience = agent.patience(seen.cpu_limit_millicores)
            pid = await self._connection.call(lambda conn: agent.begin(seen.domain, command, patience))
        except BaseException as error:
            _close(streams)
            if isinstance(error, OSError):
                raise VmError(f"VM {seen.name}: the socket of a port cannot be opened: {error}") from error
            raise
        return _Process(self, uuid, tag, pid, mark.encode(), streams)

    def _plug(self, conn: Any, uuid: str, tag: str, ways: Sequence[str]) -> tuple[Seen, dict[str, str]]:
        seen = running(find(conn, uuid, self._installation))
        if not seen.agent_connected:
            raise GuestUnavailable(f"the guest agent of VM {seen.name} is not connected; it may still be booting")
        if left := ports.plugged(seen) - self._living.get(uuid, set()):
            ports.unplug(seen.domain, left)
        return seen, ports.plug(seen, tag, ways)

    async def in_guest(self, uuid: str, script: str, *arguments: str, timeout: float = 5.0) -> None:
        """Run a short script of ours. Raises VmError."""

        def run(conn: Any) -> None:
            seen = running(find(conn, uuid, self._installation))
            patience = agent.patience(seen.cpu_limit_millicores)
            agent.run(seen.domain, ("sh", "-c", script, "sh", *arguments), timeout=timeout, answer_seconds=patience)

        await self._connection.call(run)

    async def lives(self, uuid: str, pid: int) -> bool:
        """Whether the guest still knows the program. Raises VmError."""

        def ask(conn: Any) -> bool:
            return agent.lives(running(find(conn, uuid, self._installation)).domain, pid)

        return await self._connection.call(ask)

    async def release(self, uuid: str, tag: str, pid: int, *, ended: bool) -> None:
        """The guest forgets the program; if it still runs, it is ended first. Goes on when the caller is cancelled."""
        await self._finish(self._release(uuid, tag, pid, ended))

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="end of a program")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """What is being ended is ended."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _release(self, uuid: str, tag: str, pid: int, ended: bool) -> None:
        try:
            if ended:
                await self.lives(uuid, pid)  # the agent keeps what it was never asked about
            else:
                await self.in_guest(uuid, _END, str(pid), tag)
        except VmError as error:
            log.info("VM %s: a program was left to its guest: %s", uuid, error)
        await self._forget(uuid, tag)

    async def _forget(self, uuid: str, tag: str) -> None:
        def unplug(conn: Any) -> None:
            seen = find(conn, uuid, self._installation)
            if seen.running:
                ports.unplug(seen.domain, [tag])

        try:
            await self._connection.call(unplug)
        except VmError as error:
            log.info("VM %s: ports stay until the next program is started: %s", uuid, error)
        tags = self._living.get(uuid, set())
        tags.discard(tag)
        if not tags:
            self._living.pop(uuid, None)


def _command(tag: str, mark: str, argv: Sequence[str], stdin: bool, terminal: Terminal | None) -> Sequence[str]:
    size = f"{terminal.rows} {terminal.columns}" if terminal else ""
    program = [shlex.join(argv)] if terminal else argv
    # A session of its own: that is what can be ended as a whole.
    return ("setsid", "sh", "-c", _SCRIPT, "sh", tag, mark, "yes" if stdin else "no", size, *program)


class _Process:
    """See `vmruntime.process.GuestProcess`."""

    def __init__(
        self, spawner: Spawner, uuid: str, tag: str, pid: int, mark: bytes, streams: Mapping[str, Streams]
    ) -> None:
        self._spawner, self._uuid, self._tag, self._pid, self._mark = spawner, uuid, tag, pid, mark
        self._streams = dict(streams)
        self._terminal = "err" not in streams
        self.code: int | None = None

    async def output(self) -> AsyncIterator[tuple[Source, bytes]]:
        pieces: asyncio.Queue[tuple[Source, bytes] | VmError | None] = asyncio.Queue(1)
        sources = {"out": Source.STDOUT, "err": Source.STDERR}
        pumps = [
            asyncio.create_task(self._pump(way, source, pieces), name=f"{way} of {self._tag}")
            for way, source in sources.items()
            if way in self._streams
        ]
        try:
            ended = 0
            while ended < len(pumps):
                piece = await pieces.get()
                if isinstance(piece, VmError):
                    raise piece
                if piece is None:
                    ended += 1
                else:
                    yield piece
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, way: str, source: Source, pieces: asyncio.Queue[tuple[Source, bytes] | VmError | None]
    ) -> None:
        try:
            async for data in self._bytes(way):
                await pieces.put((source, data))
        except VmError as error:
            await pieces.put(error)
        await pieces.put(None)

    async def _bytes(self, way: str) -> AsyncIterator[bytes]:
        reader, found, lost = self._streams[way][0], EndFinder(self._mark), False
        while found.code is None:
            try:
                async with asyncio.timeout(_LAST_WORDS_SECONDS if lost else _LOOK_SECONDS):
                    data = await reader.read(_CHUNK)
            except TimeoutError:
                if lost:
                    raise GuestUnavailable("the guest lost the program: it was killed, or the guest rebooted") from None
                lost = not await self._lives()
                continue
            except OSError as error:
                raise GuestUnavailable(f"the program's port broke: {error}") from error
            if not data:
                raise GuestUnavailable("the VM went off under the program")
            if piece := found.feed(data):
                yield piece
        if way == "out":
            self.code = found.code
            if "in" in self._streams:
                self._streams["in"][1].transport.abort()  # whoever writes waits no longer

    async def _lives(self) -> bool:
        try:
            return await self._spawner.lives(self._uuid, self._pid)
        except VmError as error:
            log.info("VM %s does not say whether a program lives: %s", self._uuid, error)
            return True

    async def write(self, data: bytes) -> None:
        if "in" not in self._streams:
            return
        writer = self._streams["in"][1]
        with contextlib.suppress(ConnectionError, RuntimeError):
            writer.write(data)
            await writer.drain()

    async def end_input(self) -> None:
        if "in" not in self._streams:
            return
        # Not by closing: QEMU drops what it has not read yet when a client hangs up.
        with contextlib.suppress(OSError, RuntimeError):
            self._streams["in"][1].write_eof()

    async def resize(self, size: Terminal) -> None:
        if self._terminal:
            await self._spawner.in_guest(self._uuid, _RESIZE, self._tag, str(size.rows), str(size.columns))

    async def close(self) -> None:
        _close(self._streams)
        self._streams.clear()
        await self._spawner.release(self._uuid, self._tag, self._pid, ended=self.code is not None)


def _close(streams: Mapping[str, Streams]) -> None:
    for _, writer in streams.values():
        writer.transport.abort()
