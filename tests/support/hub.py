"""A whole hub in this process (real store, real API objects, real link) with scripted nodes, on a broker in memory or a
real one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from cloudhub.daemon import Hub, World, running
from cloudhub.settings import Settings
from edgelink.api import ItemKey
from edgelink.memory import MemoryBroker, MemoryTransport
from edgelink.mqtt import MqttOptions, MqttTransport
from edgelink.pacing import Timing
from edgelink.runner import NodeLink
from edgelink.transport import Transport
from kubeapi.core import Node, Pod
from kubeapi.errors import ApiError
from kubeapi.objects import Objects
from tests.support.edgelinks import MemoryNode

TIMING = Timing(lease=0.2, first=0.05, most=0.4)
PATIENCE = 60.0


Network = Callable[[str], Transport]
"""A client's own connection to the broker: the hub's is called `hub`, a node's has its name."""


def in_memory() -> Network:
    broker = MemoryBroker(random.Random(1))
    return lambda client: MemoryTransport(broker, client, random.Random(2), TIMING, keepalive=0.5)


def over_mqtt(port: int) -> Network:
    """By a broker where everybody's password is `secret`."""
    options = MqttOptions("127.0.0.1", port, password="secret", timing=TIMING)
    return lambda client: MqttTransport(replace(options, client_id=client, username=client), random.Random(2))


class SettableClock:
    """Wall-clock time that can jump."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


async def until(find: Callable[[], Any], what: str = "") -> Any:
    """The first true answer of `find` (awaited, where it has to be); an ApiError counts as none."""
    last: object = None
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    found = find()
                    last = await found if isinstance(found, Awaitable) else found
                except ApiError as error:
                    last = error
                else:
                    if last:
                        return last
                await asyncio.sleep(0.02)
    raise AssertionError(f"never came true: {what or find} (last: {last!r})")


@dataclass
class ScriptedNode:
    """A node whose agent is the test: it holds what the link gives it, and says what it is told to say."""

    name: str
    network: Network
    cluster: str
    backend: MemoryNode = field(default_factory=MemoryNode)
    task: asyncio.Task[None] | None = None
    link: NodeLink | None = None
    sequence: int = 0

    def connect(self) -> None:
        transport, chance = self.network(self.name), random.Random(7)
        self.link = NodeLink(
            transport, self.backend, cluster=self.cluster, node=self.name, chance=chance, timing=TIMING
        )
        self.task = asyncio.create_task(self.link.run(), name=self.name)

    async def disconnect(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = self.link = None

    def say(self, lane: str, subject: str, value: dict[str, Any]) -> None:
        self.backend.enqueue(lane, subject, orjson.dumps(value))
        if self.link is not None:
            self.link.wake()

    def report(self, ready: str = "True") -> None:
        """Its own Node: 2 CPUs, 1Gi, 10 pods."""
        conditions = [{"type": "Ready", "status": ready, "reason": "AgentReady", "message": "ready"}]
        allocatable = {"cpu": "2", "memory": "1Gi", "pods": "10"}
        status = {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions}
        node = Node.from_dict({"metadata": {"name": self.name, "labels": {"zone": "edge"}}, "status": status})
        self.say("level", f"nodes/{self.name}", node.to_dict())

    def running(self, pod: Pod, **more: Any) -> None:
        self.sequence += 1
        conditions = [{"type": kind, "status": "True"} for kind in ("ContainersReady", "Ready")]
        value = {
            "kind": "PodStatus",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
            "observedGeneration": pod.metadata.generation or 1,
            "sequence": self.sequence,
            "status": {"phase": "Running", "conditions": conditions},
        }
        self.say("level", f"pods/{pod.metadata.uid}", value | more)

    def gone(self, pod: Pod) -> None:
        meta = pod.metadata
        value = {"kind": "PodGone", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        self.say("level", f"pods/{meta.uid}", value)

    def pod(self, name: str) -> Pod | None:
        """What it holds of that pod."""
        item = self.backend.items.get(ItemKey("pods", "default", name))
        return Pod.from_json(item.value) if item else None


@dataclass
class Lab:
    hub: Hub
    clock: SettableClock
    network: Network
    stack: AsyncExitStack

    @property
    def objects(self) -> Objects:
        return self.hub.objects

    async def node(self, name: str = "n1") -> ScriptedNode:
        """Connected, reported, Ready."""
        node = ScriptedNode(name, self.network, "lab", MemoryNode(store_id=f"store-{name}"))
        self.stack.push_async_callback(node.disconnect)
        node.report()
        node.connect()
        await until(lambda: self.ready(name, "True"), f"{name} is Ready")
        return node

    async def ready(self, node: str, status: str) -> Node | None:
        found = await self.objects.get(Node, None, node)
        condition = found.status.condition("Ready")
        return found if condition and condition.status == status else None

    async def create(self, name: str, **spec: Any) -> Pod:
        container = {"name": "vm", "image": "copepod/micro:latest", "resources": {"requests": {"cpu": "250m"}}}
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]} | spec}
        return await self.objects.create(Pod.from_dict(body))

    async def pod(self, name: str) -> Pod:
        return await self.objects.get(Pod, "default", name)

    async def delivered(self, node: ScriptedNode, name: str) -> Pod:
        held: Pod = await until(lambda: node.pod(name), f"{name} reaches {node.name}")
        return held

    async def started(self, node: ScriptedNode, name: str) -> Pod:
        """Created, delivered, and reported Running and Ready."""
        await self.create(name)
        node.running(await self.delivered(node, name))
        ready: Pod = await until(lambda: self.pod_ready(name, "True"), f"{name} is Ready")
        return ready

    async def pod_ready(self, name: str, status: str) -> Pod | None:
        found = await self.pod(name)
        condition = found.status.condition("Ready")
        return found if condition and condition.status == status else None


@asynccontextmanager
async def lab(state: Path, network: Network, *, lease_timeout: float = 1.0) -> AsyncIterator[Lab]:
    settings = Settings.model_validate(
        {"state_dir": state, "cluster": "lab", "api": {"port": 0}, "nodes": {"lease_timeout": lease_timeout}}
    )
    clock = SettableClock()
    world = World(random.Random(1), clock, timing=TIMING, transport=network("hub"))
    async with running(settings, world) as hub, AsyncExitStack() as stack:
        yield Lab(hub, clock, network, stack)
