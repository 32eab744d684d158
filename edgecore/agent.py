"""The node's composition: builds the parts, runs them together, lets go of them in order. VMs outlive it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from edgecore.admission import Amounts
from edgecore.book import NODE_STATUS, Book
from edgecore.desk import Desk
from edgecore.link import BookBackend
from edgecore.nodestatus import NO_ACCELERATION, Facts, Trouble, node_object, same_report
from edgecore.reconciler import Reconciler
from edgecore.settings import Settings
from edgecore.sizes import Policy
from edgecore.usage import HostUse, UsageMeter
from edgelink.nodelink import NodeLink
from edgelink.pacing import Chance, Timing
from edgelink.transport import Transport
from kubeapi.clock import Clock, woken
from kubeapi.core import Node
from kubeapi.sdnotify import notify, watchdog_interval
from metastore.api import Damaged, Key, Store, StoreError
from metastore.files import write_whole
from metastore.sql import SqlStore, open_store
from metastore.sqlite import set_aside
from metastore.upkeep import compact_forever
from vmruntime.api import HostInfo, Runtime, VmError

log = logging.getLogger(__name__)

STORE_FILE = "metastore.db"
INSTALLATION_FILE = "installation-id"
READY_FILE = "ready.json"
_HISTORY = 0
"""Revisions kept: on a node nobody watches the store or reads its past."""
_COMPACT_INTERVAL = 300.0
"""Seconds; a store that has not changed is not written to."""
_NODE_INTERVAL = 10.0
_READY_RETRY = 1.0
"""Seconds between two looks at what the node itself reports."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Parts:
    """What a composition root brings: the daemon real ones, a simulation its own."""

    open_runtime: Callable[[str], Runtime]
    """Installation id → runtime."""
    transport: Transport
    clock: Clock
    new_id: Callable[[], str]
    chance: Chance
    """For jitter."""
    host_use: Callable[[], HostUse] = lambda: HostUse(0.0, 0)
    inline_store: bool = False


class Agent:
    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts
        self._claims = asyncio.Event()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. Raises metastore.api.StoreError when the store cannot be opened."""
        state = self._settings.state_dir
        async with AsyncExitStack() as stack:
            # The book holds what is read again and again; a second copy would only take memory.
            store, trouble = await self._open_store(state / STORE_FILE)
            stack.push_async_callback(store.close)
            installation = _installation(state / INSTALLATION_FILE, self._parts.new_id)
            runtime = self._parts.open_runtime(installation)
            stack.push_async_callback(runtime.close)
            book = Book(store, self._parts.clock, self._settings.node.name)
            await book.load()
            if trouble:
                await book.distrust(trouble)
            stack.callback(notify, "STOPPING=1")
            await self._serve(book, runtime, installation)

    async def _open_store(self, path: Path) -> tuple[SqlStore, str]:
        """With what was lost, in words. A file that is broken is set aside: VMs and hub know what was in it (S-30)."""
        trouble = ""
        try:
            store = await self._opened(path)
        except Damaged as error:
            aside = set_aside(path)
            trouble = f"{error}; it was set aside as {aside.name}, and is rebuilt from the VMs and the hub"
            store = await self._opened(path)
        if store.put_aside:
            trouble = f"the store has lost {', '.join(store.put_aside)}: damaged, put into quarantine"
        if trouble:
            log.error("%s", trouble)
        return store, trouble

    async def _opened(self, path: Path) -> SqlStore:
        # The book holds what is read again and again; a second copy would only take memory.
        return await open_store(path, inline=self._parts.inline_store, cache_bytes=0, new_id=self._parts.new_id)

    async def _serve(self, book: Book, runtime: Runtime, installation: str) -> None:
        meter = UsageMeter(runtime, self._parts.clock, self._parts.host_use)
        boot_id = _first_line("/proc/sys/kernel/random/boot_id")
        backend = BookBackend(book, runtime, meter, boot_id, self._parts.new_id)
        link = NodeLink(
            self._parts.transport,
            backend,
            cluster=self._settings.cluster,
            node=self._settings.node.name,
            chance=self._parts.chance,
            timing=Timing(lease=self._settings.lease.interval),
            setbacks=(StoreError,),
        )
        book.outgoing = link.wake
        book.claims_changed = self._claims.set
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(link.run(), name="link")
            tasks.create_task(self._run_pods(book, runtime, installation), name="pods")
            tasks.create_task(compact_forever(book.store, _HISTORY, _COMPACT_INTERVAL), name="compaction")
            tasks.create_task(_ends_when_damaged(book.store), name="damage")
            tasks.create_task(_watchdog(), name="watchdog")
            notify("READY=1", f"STATUS=node {self._settings.node.name} is running")
            tasks.create_task(self._say_ready(), name="ready file")

    async def _say_ready(self) -> None:
        """Ready means: the store is open and everything local runs. The hub is not waited for (S-01, S-02), nor is room
        on the disk for saying so (S-31)."""
        text = orjson.dumps({"node": self._settings.node.name}).decode()
        path = self._settings.state_dir / READY_FILE
        trouble: str | None = None
        while True:
            try:
                write_whole(path, text)
            except OSError as error:
                if error.strerror != trouble:
                    trouble = error.strerror
                    log.warning("cannot write %s: %s; it is tried again", path, trouble)
                await asyncio.sleep(_READY_RETRY)
            else:
                return self.ready.set()

    async def _run_pods(self, book: Book, runtime: Runtime, installation: str) -> None:
        reporter = _NodeReporter(self._settings, book, runtime, self._claims)
        host = await reporter.first_host()
        facts = reporter.facts(host)
        desk = Desk(book, self._policy(host), facts.allocatable, host.vm_overhead_mib * _MIB)
        reconciler = Reconciler(book, runtime, desk, installation, facts.address)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reporter.run(), name="node-status")
            tasks.create_task(reconciler.run(), name="reconciler")

    def _policy(self, host: HostInfo) -> Policy:
        wanted = self._settings.policy
        return Policy(
            default_memory_mib=max(wanted.default_memory // _MIB, 2),
            default_max_cpus=wanted.max_cpus,
            host_cpus=host.cpus,
        )


class _NodeReporter:
    """Keeps the node's own status true: Ready says whether pods can be run here now."""

    def __init__(self, settings: Settings, book: Book, runtime: Runtime, claims: asyncio.Event) -> None:
        self._settings = settings
        self._book = book
        self._runtime = runtime
        self._claims = claims
        self._previous: Node | None = None

    async def first_host(self) -> HostInfo:
        """Waits for the hypervisor service, reporting meanwhile why the node is not Ready."""
        stored = await self._book.store.get(Key(NODE_STATUS, "", self._settings.node.name))
        self._previous = Node.from_json(stored.value) if stored else None
        while True:
            host, trouble = await self._look()
            await self._report(host, trouble)
            if host is not None:
                return host
            await asyncio.sleep(_NODE_INTERVAL / 5)

    async def run(self) -> None:
        while True:
            await self._report(*await self._look())
            if await woken(self._claims, _NODE_INTERVAL):
                self._claims.clear()

    async def _look(self) -> tuple[HostInfo | None, Trouble | None]:
        host = None
        try:
            host = await self._runtime.host()
            await self._runtime.list()
        except VmError as error:  # whatever the hypervisor's fault is, the agent outlives it
            return host, Trouble("RuntimeUnavailable", str(error))
        if host.acceleration.kind == "tcg" and not self._settings.runtime.allow_emulation:
            message = f"guests do not run under KVM here and emulation is not allowed: {host.acceleration.reason}"
            return host, Trouble(NO_ACCELERATION, message)
        return host, None

    async def _report(self, host: HostInfo | None, trouble: Trouble | None) -> None:
        unclaimed = [f"{item.key.namespace}/{item.key.name}" for item in self._book.unclaimed.values()]
        node = node_object(self.facts(host), host, trouble, unclaimed, self._previous, self._book.now())
        if host is None and self._previous is not None:  # what it is worth is not known now; it has not become nothing
            node.status.capacity, node.status.allocatable = (
                self._previous.status.capacity,
                self._previous.status.allocatable,
            )
        if self._previous is None or not same_report(node, self._previous):
            try:
                await self._book.report_node(node)
            except StoreError as error:  # a full disk, say: pods run on, and it is tried again
                log.warning("the node's own status waits: %s", error)
            else:
                self._previous = node

    def facts(self, host: HostInfo | None) -> Facts:
        wanted = self._settings.node
        cpu = wanted.cpu if wanted.cpu is not None else (host.cpus * 1000 if host else 0)
        memory = wanted.memory if wanted.memory is not None else (host.memory_mib * _MIB if host else 0)
        return Facts(
            name=wanted.name,
            labels=tuple(sorted(wanted.labels.items())),
            address=wanted.address or _address(self._settings),
            capacity=Amounts(cpu, memory, wanted.max_pods),
            allocatable=Amounts(
                max(cpu - wanted.reserved_cpu, 0), max(memory - wanted.reserved_memory, 0), wanted.max_pods
            ),
            agent_version=agent_version(),
            boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
            machine_id=_first_line("/etc/machine-id"),
            os_image=_os_image(),
        )


async def _watchdog() -> None:
    """Tells systemd that the event loop turns; a loop that hangs is restarted by it, and VMs are adopted again."""
    interval = watchdog_interval()
    while interval is not None:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval)


async def _ends_when_damaged(store: Store) -> None:
    """Whoever starts the agent again makes it look at the whole store, which is what helps."""
    await store.damaged.wait()
    raise Damaged("the store is damaged: ending, to look at all of it at the next start")


def agent_version() -> str:
    try:
        return f"v{version('copepod')}"
    except PackageNotFoundError:
        return "v0.0.0"


def _installation(path: Path, new_id: Callable[[], str]) -> str:
    """Beside the store, not in it: VMs are found again as ours even when the store is lost (S-30)."""
    if path.exists() and (known := path.read_text().strip()):
        return known
    fresh = new_id()
    write_whole(path, fresh + "\n")
    return fresh


def _address(settings: Settings) -> str | None:
    """The local address that packets to the broker leave from; asks the kernel's routes and sends nothing."""
    if settings.broker.bind_address:
        return settings.broker.bind_address
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((settings.broker.host, settings.broker.port))
            return str(probe.getsockname()[0])
    except OSError:
        return None  # no network (S-03): only the address is missing


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_image() -> str:
    for line in _first_line("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"
