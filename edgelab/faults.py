"""Cutting a node's link to the broker the way the world cuts it: packets vanish, and nobody is told.

Two ways, one interface. With root, nftables drops what travels between a node's own loopback address and the broker's
port, in a table of the lab's own. Without, each node's link runs through a small TCP proxy that stops forwarding while
keeping the connections open. Closing a connection cleanly would be another, much easier fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

TABLE_PREFIX = "copepod_lab_"


class FaultError(Exception):
    """The fault could not be injected; the link is as it was."""


class Link(Protocol):
    """One node's way to the broker."""

    async def cut(self) -> None:
        """From now on nothing arrives, in either direction. Cutting twice is one cut."""

    async def restore(self) -> None: ...


@asynccontextmanager
async def severed(link: Link) -> AsyncIterator[None]:
    """The link is cut inside the block, and whole again after it whatever happened."""
    await link.cut()
    try:
        yield
    finally:
        await link.restore()


def node_address(index: int) -> str:
    """The loopback address node `index` (from 0) connects from, so that its packets can be told apart."""
    if not 0 <= index < 254 * 250:
        raise ValueError(f"no loopback address for node {index}")
    return f"127.0.{1 + index // 250}.{1 + index % 250}"


def table_name(lab_pid: int) -> str:
    return f"{TABLE_PREFIX}{lab_pid}"


def table_script(table: str) -> str:
    """Makes the table, or leaves one that exists as it is. nft applies a script as one transaction.

    Packets are dropped on the way in: dropped on the way out, the sender would be told.
    """
    return f"""\
table inet {table} {{
  set cut {{ type ipv4_addr . inet_service; }}
  chain input {{ type filter hook input priority -10; policy accept; }}
}}
flush chain inet {table} input
add rule inet {table} input ip saddr . tcp dport @cut counter drop
add rule inet {table} input ip daddr . tcp sport @cut counter drop
"""


def cut_script(table: str, address: str, port: int) -> str:
    return f"{table_script(table)}add element inet {table} cut {{ {address} . {port} }}\n"


def restore_script(table: str, address: str, port: int) -> str:
    # Added first: deleting an element that is not there is an error, and restoring twice must be one restoration.
    return f"{cut_script(table, address, port)}delete element inet {table} cut {{ {address} . {port} }}\n"


@dataclass(frozen=True, slots=True)
class NftLink:
    """Needs root and nftables."""

    table: str
    address: str
    port: int

    async def cut(self) -> None:
        await _nft("-f", "-", script=cut_script(self.table, self.address, self.port))

    async def restore(self) -> None:
        await _nft("-f", "-", script=restore_script(self.table, self.address, self.port))


def leftovers(ruleset: str, alive: frozenset[int]) -> list[str]:
    """Tables of labs whose process is gone, from what `nft list tables` prints."""
    names = [line.split()[-1] for line in ruleset.splitlines() if line.startswith(f"table inet {TABLE_PREFIX}")]
    owners = {name: name.removeprefix(TABLE_PREFIX) for name in names}
    return [name for name, pid in owners.items() if not (pid.isdigit() and int(pid) in alive)]


async def clean_leftovers() -> list[str]:
    """Remove the tables of dead labs, and say which. Without root or nft there are none of ours to remove."""
    if not can_cut():
        return []
    alive = frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())
    dead = leftovers(await _nft("list", "tables"), alive)
    for table in dead:
        await remove_table(table)
    return dead


async def remove_table(table: str) -> None:
    """Adding it first makes removing what is not there no error."""
    await _nft("-f", "-", script=f"add table inet {table}\ndelete table inet {table}\n")


def can_cut() -> bool:
    """Whether this process may drop packets here."""
    return os.geteuid() == 0 and _find_nft() is not None


def require_nft() -> None:
    """Raises FaultError, saying what is missing."""
    if os.geteuid() != 0:
        raise FaultError("cutting a link by dropping packets needs root: run the lab with sudo")
    if _find_nft() is None:
        raise FaultError("cutting a link needs nftables: apt-get install nftables (or `make setup`)")


def _find_nft() -> str | None:
    return shutil.which("nft", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


async def _nft(*arguments: str, script: str = "") -> str:
    require_nft()
    nft = _find_nft()
    assert nft is not None
    process = await asyncio.create_subprocess_exec(
        nft,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(script.encode())
    if process.returncode != 0:
        raise FaultError(f"nft {' '.join(arguments)} failed: {err.decode(errors='replace').strip()}")
    return out.decode()


class ProxyLink:
    """A TCP proxy on a loopback port of its own. Cut, it goes on accepting and reads nothing: bytes simply stop.

    What was in flight when the link was cut is delivered after it is restored, as TCP would by retransmission.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self.bytes_up = 0
        """What the near end has sent through it."""
        self.bytes_down = 0

    @property
    def port(self) -> int:
        assert self._server is not None, "the proxy is not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def cut(self) -> None:
        self._open.clear()

    async def restore(self) -> None:
        self._open.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self._ending.set()
        while self._connections:
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: a connection is known from the moment it is accepted, so that none outlives the proxy."""
        task = asyncio.create_task(self._forward(reader, writer), name="proxied connection")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Never cancelled: a connection that is cancelled while it is made leaves its socket to the collector."""
        sinks = [writer]
        try:
            await self._unless_ending(self._open.wait())
            if self._ending.is_set():
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            sinks.append(far_writer)
            await self._unless_ending(
                self._pump(reader, far_writer, self._count_up), self._pump(far_reader, writer, self._count_down)
            )
        except OSError:
            pass  # either end may go at any time
        finally:
            for sink in sinks:
                sink.close()

    async def _unless_ending(self, *steps: Coroutine[Any, Any, object]) -> None:
        """Until one of them has ended, or the proxy ends; the others then end too."""
        tasks = [asyncio.create_task(step) for step in (*steps, self._ending.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _count_up(self, count: int) -> None:
        self.bytes_up += count

    def _count_down(self, count: int) -> None:
        self.bytes_down += count

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: Callable[[int], None]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._open.wait()
                count(len(data))
                sink.write(data)
                await sink.drain()
            await self._open.wait()  # the end of a connection does not cross a cut link either
