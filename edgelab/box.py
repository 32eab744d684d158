"""The all-in-one box: broker, hub and agents as their own processes, as in production, held together by one lab.

`copepod up` is a box that waits for a signal; the demo and the integration tests are boxes that do things to its parts:
each part can be killed, started and stopped by itself, and each node's link can be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from edgecore.agent import READY_FILE
from edgelab import faults, realhost, state, toml
from edgelab.broker import HUB_USER, BrokerConfig, broker_spec, free_port, port_is_free
from edgelab.client import Client
from edgelab.disks import SmallDisk
from edgelab.faults import Link, NftLink
from edgelab.kubectl import Kubectl, find_kubectl
from edgelab.process import Child, ChildSpec, Say
from edgelab.proxy import ProxyLink
from edgelab.realhost import host_memory_mib
from edgelab.settings import LEASE_INTERVAL, NodePlan, fleet_settings, hub_settings, memory_share, node_settings
from edgelab.state import CLUSTER, HUB, LabFacts, Layout, StateError
from metastore.files import write_whole

NODES_READY_TIMEOUT = 120.0
"""Seconds. An emulated host probes its acceleration by booting a guest before it is Ready."""


class Links(StrEnum):
    """How nodes' links can be cut."""

    NONE = "none"
    PACKETS = "packets"
    """nftables; needs root."""
    PROXY = "proxy"
    """The hub's link, too."""


@dataclass(frozen=True, slots=True)
class BoxConfig:
    state: Path
    nodes: int | None = None
    """None = as many as the state directory's lab has, else one."""
    fake_vms: bool = False
    api_port: int | None = None
    """None = the one used before, else a free one."""
    supervise: bool = True
    """Start again what dies by itself. What `kill` and `stop` ended stays down either way."""
    links: Links = Links.NONE
    lease: float = LEASE_INTERVAL
    """Seconds between two leases of a node."""
    disk_mib: int | None = None
    """Size of disks of their own for the hub's and each node's state, which can be filled (root)."""


def settle(before: LabFacts | None, config: BoxConfig, is_free: Callable[[int], bool]) -> LabFacts:
    """What this run of the lab is made of: as before where there is a before, as asked where something is asked.

    Raises StateError for what cannot be had. A port of 0 in the result is still to be found.
    """
    if config.api_port is not None and not is_free(config.api_port):
        raise StateError(f"port {config.api_port} is in use: choose another --api-port")
    if before is None:
        return LabFacts(config.fake_vms, config.nodes or 1, config.api_port or 0, 0)
    if before.fake_vms != config.fake_vms:
        was = "simulated (start it with --fake-vms)" if before.fake_vms else "real (start it without --fake-vms)"
        raise StateError(f"the nodes in {config.state} are {was}; or choose another --state")
    api_port = config.api_port or (before.api_port if is_free(before.api_port) else 0)
    same_broker = is_free(before.broker_port) and before.broker_port != api_port
    return replace(
        before,
        nodes=config.nodes or before.nodes,
        api_port=api_port,
        broker_port=before.broker_port if same_broker else 0,
    )


class Box:
    """Enter it, and everything runs and all nodes are Ready; leave it, and all processes are gone. VMs run on.

    Raises StateError (the directory, a port), HostServiceFailed, ChildFailed, NotReached, FaultError.
    """

    def __init__(self, config: BoxConfig, say: Say) -> None:
        self.config = config
        self.layout = Layout(config.state.absolute())
        self.say = say
        self.facts: LabFacts
        self.broker: Child
        self.hub: Child
        self.agents: tuple[Child, ...] = ()
        """One for each node; with simulated VMs one for all of them."""
        self.links: tuple[Link, ...] = ()
        """By node, where `config.links` asks for them."""
        self.hub_link: ProxyLink | None = None
        self.disks: dict[str, SmallDisk] = {}
        """By node, and HUB, where `config.disk_mib` asks for them."""
        self._stack = contextlib.AsyncExitStack()

    @property
    def kubeconfig(self) -> Path:
        """As the hub says in its ready.json; the same file in every run."""
        return Path(json.loads((self.layout.hub / READY_FILE).read_bytes())["kubeconfig"])

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.facts.node_names

    def node_state(self, index: int) -> Path:
        """State directory of one node's agent."""
        return self.layout.node(self.node_names[index])

    def fake_vms(self, index: int) -> Path:
        """Where the pretended host of one node keeps its VMs."""
        return self.layout.nodes / f"{self.node_names[index]}-vms.json"

    def kubectl(self) -> Kubectl:
        """Raises KubectlMissing."""
        return Kubectl(self.kubeconfig, find_kubectl())

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def wait_nodes_ready(self, timeout: float = NODES_READY_TIMEOUT) -> None:
        """Raises NotReached, ApiUnavailable."""
        await Client(self.kubeconfig).wait_nodes(frozenset(self.node_names), timeout)

    async def _start(self) -> None:
        if not self.config.fake_vms:
            realhost.require_root()
        state.make_root(self.layout)
        self._stack.enter_context(state.locked(self.layout))
        self.facts = self._settled()
        if not self.config.fake_vms:
            await realhost.prepare(self.say)
        state.save(self.layout, self.facts)  # only now: a machine that cannot run real VMs is still free for others
        for table in await faults.clean_leftovers():
            self.say(f"removed the link cuts of a lab that is gone ({table})")
        if faults.can_cut():  # cuts made from outside (`copepod link cut`) end with the lab, too
            self._stack.push_async_callback(faults.remove_table, faults.table_name(os.getpid()))
        await self._start_broker()
        self.links = await self._make_links()
        await self._start_hub()
        await self._start_agents()
        self.say("waiting for the nodes to be Ready")
        await self.wait_nodes_ready()

    def _settled(self) -> LabFacts:
        facts = state.with_passwords(settle(state.load(self.layout), self.config, port_is_free))
        api_port = facts.api_port or free_port(facts.broker_port)
        broker_port = facts.broker_port or free_port(api_port)
        return replace(facts, api_port=api_port, broker_port=broker_port, lab_pid=os.getpid())

    async def _start_broker(self) -> None:
        config = BrokerConfig(self.layout.broker, self.facts.broker_port, CLUSTER, self.facts.passwords)
        self.broker = self._child(broker_spec(config, self.layout.log("broker"), self.layout.pid_file("broker")))
        await self._run(self.broker)

    async def _make_links(self) -> tuple[Link, ...]:
        match self.config.links:
            case Links.NONE:
                return ()
            case Links.PACKETS:
                faults.require_nft()
                table = faults.table_name(os.getpid())
                return tuple(
                    NftLink(table, self.facts.address(name), self.facts.broker_port) for name in self.node_names
                )
            case Links.PROXY:
                proxies = [
                    await self._stack.enter_async_context(ProxyLink(self.facts.broker_port)) for _ in self.node_names
                ]
                self.hub_link = await self._stack.enter_async_context(ProxyLink(self.facts.broker_port))
                return tuple(proxies)

    async def _start_hub(self) -> None:
        directory = self.layout.hub
        directory.mkdir(exist_ok=True, mode=0o700)
        await self._make_disk(HUB, directory)
        password_file = _secret(directory / "broker-password", self.facts.passwords[HUB_USER])
        config_file = directory / "cloudhub.toml"
        broker_port = self.hub_link.port if self.hub_link else self.facts.broker_port
        write_whole(
            config_file, toml.dumps(hub_settings(directory, self.facts, password_file, broker_port, self.config.lease))
        )
        self.hub = self._child(self._daemon("hub", "cloudhub", config_file, directory))
        await self._run(self.hub)

    async def _start_agents(self) -> None:
        for name in self.node_names:
            self.layout.node(name).mkdir(parents=True, exist_ok=True, mode=0o700)
            await self._make_disk(name, self.layout.node(name))
        files = [self._write_node(index, name) for index, name in enumerate(self.node_names)]
        if self.config.fake_vms:
            directory = self.layout.fleet
            directory.mkdir(exist_ok=True, mode=0o700)
            config_file = directory / "fleet.toml"
            write_whole(config_file, toml.dumps(fleet_settings(directory, files)))
            specs = [self._daemon("fleet", "edgelab.fleet", config_file, directory)]
        else:
            specs = [
                self._daemon(name, "edgecore", file, self.layout.node(name))
                for name, file in zip(self.node_names, files, strict=True)
            ]
        self.agents = tuple(self._child(spec) for spec in specs)
        kind = "simulated" if self.config.fake_vms else "real"
        self.say(f"starting {len(files)} {kind} node{'s' if len(files) > 1 else ''}")
        self._stack.push_async_callback(_together, [agent.stop for agent in self.agents])
        await _together([agent.start for agent in self.agents])

    async def _make_disk(self, name: str, directory: Path) -> None:
        if self.config.disk_mib is not None:
            self.disks[name] = await self._stack.enter_async_context(SmallDisk(directory, self.config.disk_mib))

    def _write_node(self, index: int, name: str) -> Path:
        directory = self.layout.node(name)
        link = self.links[index] if self.links else None
        plan = NodePlan(
            name=name,
            directory=directory,
            password_file=_secret(directory / "broker-password", self.facts.passwords[name]),
            broker_port=link.port if isinstance(link, ProxyLink) else self.facts.broker_port,
            lease=self.config.lease,
            fake_vms=self.fake_vms(index),
            memory_mib=None if self.facts.fake_vms else memory_share(host_memory_mib(), self.facts.nodes),
        )
        config_file = directory / "edgecore.toml"
        write_whole(config_file, toml.dumps(node_settings(plan, self.facts)))
        return config_file

    def _daemon(self, name: str, module: str, config_file: Path, directory: Path) -> ChildSpec:
        ready = directory / READY_FILE
        return ChildSpec(
            name=name,
            argv=(sys.executable, "-m", module, "--config", str(config_file)),
            log=self.layout.log(name),
            pid_file=self.layout.pid_file(name),
            ready=lambda: _whole(ready),
            stale=ready,
        )

    def _child(self, spec: ChildSpec) -> Child:
        return Child(spec, self.say, supervise=self.config.supervise)

    async def _run(self, child: Child) -> None:
        self.say(f"starting the {child.name}")
        await self._stack.enter_async_context(child)


async def _together(actions: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """All at once, each to its own end; then the first failure, if there was one."""
    results = await asyncio.gather(*(action() for action in actions), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _whole(ready: Path) -> bool:
    """Whether the file is there, and all of it."""
    try:
        return bool(json.loads(ready.read_bytes()))
    except (OSError, ValueError):
        return False


def _secret(path: Path, text: str) -> Path:
    write_whole(path, text + "\n", mode=0o600)
    return path
