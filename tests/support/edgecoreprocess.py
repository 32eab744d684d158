"""`edgecore --config` as its own process, as systemd starts it: settings, supervisor's socket, log."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgelab import toml
from edgelab.toml import Table
from edgelab.waiting import until

PATIENCE = 60.0
DEAD_PORT = 1
"""Nothing listens there."""


def configure(directory: Path, **tables: Table) -> Path:
    """Simulated VMs and no broker, unless `tables` say otherwise."""
    document: dict[str, object] = {
        "state_dir": str(directory / "state"),
        "cluster": "lab",
        "node": {"name": "edge-1"},
        "broker": {"port": DEAD_PORT},
        "runtime": {"driver": "fake", "fake": {"boot_seconds": 0.1}},
        "lease": {"interval": 0.5},
    }
    path = directory / "edgecore.toml"
    path.write_text(toml.dumps(document | tables))  # type: ignore[arg-type]
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """To its own end."""
    command = [sys.executable, "-m", "edgecore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@dataclass
class Agent:
    process: asyncio.subprocess.Process
    log: Path
    told: list[str] = field(default_factory=list)
    """What the supervisor was told, one assignment each."""

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    async def until_says(self, text: str, timeout: float = PATIENCE) -> None:
        await until(lambda: self.says(text), f"the log says {text!r}", timeout)
        assert self.running

    async def until_told(self, assignment: str, times: int = 1) -> None:
        await until(lambda: self.told.count(assignment) >= times, f"{times} times {assignment}", PATIENCE)

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    async def end(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def started(
    config: Path, environment: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> AsyncIterator[Agent]:
    """Until READY=1 has come, as systemd waits for it. `prefix`: a program that becomes it."""
    address, log = config.with_suffix(".notify"), config.with_suffix(".log")
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor, log.open("wb") as output:
        supervisor.bind(str(address))
        supervisor.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            *prefix, sys.executable, "-m", "edgecore", "--config", str(config),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, "NOTIFY_SOCKET": str(address), **(environment or {})},
        )  # fmt: skip
        agent = Agent(process, log)
        loop = asyncio.get_running_loop()
        loop.add_reader(supervisor, lambda: agent.told.extend(supervisor.recv(4096).decode().split("\n")))
        try:
            await agent.until_told("READY=1")
            yield agent
        finally:
            loop.remove_reader(supervisor)
            if agent.running:
                process.kill()
                await process.wait()
