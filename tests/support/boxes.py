"""Nodes with real agents over pretended VMs, in this process."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from edgecore.agent import Agent, Parts
from edgecore.settings import Settings
from kubeapi.clock import SystemClock, new_uid
from tests.support.hub import Network
from vmruntime.fake import FakeHost, FakeRuntime


@dataclass
class Box:
    """A node: its VMs outlive its agent, and the agent can be out of reach."""

    name: str
    directory: Path
    network: Network
    host: FakeHost = field(default_factory=lambda: FakeHost(boot_delay=0.05))
    agent: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.directory.mkdir(exist_ok=True)
        body = {"node": {"name": self.name, "address": "192.0.2.1"}, "lease": {"interval": 0.2}}
        settings = Settings.model_validate({"state_dir": self.directory, "cluster": "lab", **body})
        parts = Parts(
            open_runtime=lambda installation: FakeRuntime(self.host, installation),
            transport=self.network(self.name),
            clock=SystemClock(),
            new_id=new_uid,
            chance=random.Random(3),
            inline_store=True,
        )
        self.agent = asyncio.create_task(Agent(settings, parts).run(), name=self.name)

    async def stop(self) -> None:
        task, self.agent = self.agent, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
