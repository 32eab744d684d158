"""Cutting a node's link to the broker the way the world cuts it: packets vanish, and nobody is told.

Two ways, one interface. With root, nftables drops what travels between a node's own loopback address and the broker's
port, in a table of the lab's own. Without, each node's link runs through a TCP proxy (`edgelab.proxy`) that stops
forwarding while keeping the connections open, and can do more. Closing a connection cleanly would be another, much
easier fault.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

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
