"""The composition root: opens the store, starts what serves and what controls, in order, and ends it in reverse.

Order of start: files and keys, store, API, then controllers and link; `ready` when all have begun. The API serves
whether or not there is a broker; nodes are then simply not heard.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from cloudhub import pki
from cloudhub.accounts import DefaultAccounts
from cloudhub.link import StoreBackend
from cloudhub.logs import LinkLogs
from cloudhub.metrics import LinkMetrics
from cloudhub.mirror import Mirror
from cloudhub.nodeleases import NodeLeases
from cloudhub.nodes import NodeLifecycle
from cloudhub.notices import follow_views
from cloudhub.orphans import Orphans
from cloudhub.retention import EventRetention
from cloudhub.rootca import RootCa
from cloudhub.scheduler import Scheduler
from cloudhub.settings import STORE_FILE, BrokerSettings, Settings
from cloudhub.streams import LinkStreams
from cloudhub.workloads.composition import workloads
from edgelink.mqtt import MqttOptions, MqttTransport, TlsOptions
from edgelink.pacing import Chance, Timing
from edgelink.runner import HubLink
from edgelink.transport import Transport
from kubeapi.clock import Clock, SystemClock, new_uid
from kubeapi.core import Namespace, Node, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.resources import REGISTRY
from kubeapi.server.app import create_app, serve
from kubeapi.server.auth import StaticTokens, User
from kubeapi.server.builtins import ensure_priority_classes, ensure_roles
from kubeapi.server.namespaces import DEFAULT_NAMESPACES
from kubeapi.server.objects import StoreObjects
from metastore.api import QUARANTINED, STORE_ID, Damaged, SetMeta, StoreError
from metastore.files import write_whole
from metastore.sql import SqlStore, open_store
from metastore.upkeep import compact_forever

ADMIN = User("admin", ("system:masters", "system:authenticated"))
_NAMESPACES = (*DEFAULT_NAMESPACES, "copepod-system")
_IN_FLIGHT = 4 * 1024 * 1024
"""Bytes to all nodes together that the broker has not acknowledged yet."""

_log = logging.getLogger(__name__)


_DAMAGED = (
    "it is left as it is, and nodes run on meanwhile: `copepod metastore check` says what is lost, "
    "`copepod metastore export` saves what can be read, and `import` makes a new store of that or of an older export"
)


class StartError(Exception):
    """The hub cannot serve; the message says what, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub that serves."""

    port: int
    kubeconfig: Path
    objects: StoreObjects
    backend: StoreBackend


@dataclass(frozen=True, slots=True)
class World:
    """What a hub gets from outside; simulations and tests bring their own."""

    chance: Chance
    clock: Clock = field(default_factory=SystemClock)
    new_token: Callable[[], str] = secrets.token_hex
    timing: Timing = field(default_factory=Timing)
    new_uid: Callable[[], str] = new_uid
    transport: Transport | None = None
    """None: MQTT, as the settings say."""
    inline_store: bool = False
    """No writer thread: a virtual clock must govern everything."""


@asynccontextmanager
async def running(settings: Settings, world: World) -> AsyncIterator[Hub]:
    """A hub that serves until the block ends. Raises StartError; later failures of its parts end the block."""
    keys = _keys(settings)
    async with AsyncExitStack() as stack:
        store = await _store(settings, world)
        stack.push_async_callback(store.close)
        objects = StoreObjects(store, REGISTRY, world.clock, world.new_uid)
        await _namespaces(objects)
        await ensure_priority_classes(objects)
        await ensure_roles(objects)
        pods, nodes = Mirror(objects, Pod), Mirror(objects, Node)
        namespaces = Mirror(objects, Namespace)
        lifecycle = NodeLifecycle(objects, world.clock, pods, nodes, settings.nodes.lease_timeout)
        leases = NodeLeases(objects, world.clock, nodes, settings.nodes.lease_timeout)

        def heard(node: str) -> None:
            lifecycle.heard(node)
            leases.heard(node)

        backend = StoreBackend(store, REGISTRY, world.clock, world.new_uid, heard)
        transport = world.transport or _mqtt(settings.broker, store.store_id, world)
        link = HubLink(
            transport,
            backend,
            settings.cluster,
            chance=world.chance,
            timing=world.timing,
            new_token=world.new_token,
            setbacks=(StoreError, ApiError),
        )
        app = create_app(
            objects,
            StaticTokens({keys.token: ADMIN}),
            logs=LinkLogs(link, backend.sessions),
            streams=LinkStreams(link, backend.sessions),
            sources=LinkMetrics(link, backend.sessions, pods, nodes).sources(),
            token_key=keys.account_key,
            enforce_rbac=settings.api.enforce_rbac,
        )
        port = await stack.enter_async_context(_serving(settings, keys, app))
        kubeconfig = _write_access(settings, keys, port)
        scheduler = Scheduler(objects, world.clock, pods, nodes, namespaces)
        orphans = Orphans(objects, world.clock, pods, nodes, settings.nodes.lease_timeout)
        background = {
            "pods": pods.run(),
            "nodes": nodes.run(),
            "namespaces": namespaces.run(),
            "default-accounts": DefaultAccounts(objects, namespaces).run(),
            "root-ca": RootCa(objects, namespaces, keys.ca.read_text()).run(),
            "node-lifecycle": lifecycle.run(),
            "node-leases": leases.run(),
            "scheduler": scheduler.run(),
            "orphans": orphans.run(),
            **workloads(objects, world.clock, pods, nodes),
            "events": EventRetention(objects, settings.events).run(),
            "store": store.hold(),
            "damage": _ends_when_damaged(store),
            "compaction": compact_forever(store, settings.store.history, settings.store.compact_interval),
            "views": follow_views(store, backend.connected, link.view_changed),
            "link": link.run(),
        }
        await stack.enter_async_context(_tasks(background))
        _log.info("serving on %s:%d, store %s", settings.api.address, port, store.store_id)
        yield Hub(port, kubeconfig, objects, backend)
        _log.info("stopping")


@asynccontextmanager
async def _tasks(work: Mapping[str, Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Work that lasts as long as the block; when one fails, the block is cancelled and the failure raised."""
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part, name=name) for name, part in work.items()]
            try:
                yield
            except BaseException as error:
                failure = error
                raise
            finally:
                for task in reversed(tasks):
                    task.cancel()
    except BaseExceptionGroup as errors:
        # The block's own failure is not the tasks' business: it leaves as it came.
        if failure is not None and errors.exceptions == (failure,):
            raise failure from None
        raise


def _keys(settings: Settings) -> pki.Pki:
    names = {"localhost", "127.0.0.1", *settings.api.names}
    if settings.api.address not in ("0.0.0.0", "::"):
        names.add(settings.api.address)
    try:
        return pki.ensure(settings.state_dir, names)
    except pki.PkiError as error:
        raise StartError(str(error)) from error


async def _store(settings: Settings, world: World) -> SqlStore:
    try:
        where = settings.store.url or settings.state_dir / STORE_FILE
        store = await open_store(where, alone=True, inline=world.inline_store, new_id=world.new_uid)
        if store.put_aside:
            # What is lost was not deleted by anybody: to the nodes this is another hub, which deletes nothing (S-86).
            _log.error("the store has lost %s: damaged, put into quarantine", ", ".join(store.put_aside))
            await store.commit(SetMeta(STORE_ID, world.new_uid()), SetMeta(QUARANTINED, None))
        return store
    except Damaged as error:
        raise StartError(f"{error}; {_DAMAGED}") from error
    except StoreError as error:
        raise StartError(str(error)) from error


async def _ends_when_damaged(store: SqlStore) -> None:
    await store.damaged.wait()
    raise Damaged(f"the store is damaged; {_DAMAGED}")


async def _namespaces(objects: StoreObjects) -> None:
    for name in _NAMESPACES:
        try:
            await objects.create(Namespace(metadata=ObjectMeta(name=name)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise StartError(f"namespace {name} cannot be made: {error}") from error


def _mqtt(broker: BrokerSettings, store_id: str, world: World) -> Transport:
    tls = TlsOptions(ca_file=str(broker.ca_file)) if broker.ca_file else None
    options = MqttOptions(
        broker.host,
        broker.port,
        client_id=f"cloudhub-{store_id[:12]}",
        username=broker.username,
        password=broker.password(),
        tls=tls,
        in_flight=_IN_FLIGHT,
    )
    return MqttTransport(options, world.chance)


@asynccontextmanager
async def _serving(settings: Settings, keys: pki.Pki, app: Any) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    api = settings.api
    try:
        server = serve(app, api.address, api.port, context)
        port = await server.__aenter__()
    except OSError as error:
        raise StartError(
            f"cannot listen on {api.address}:{api.port}: {error.strerror or error}; "
            "set api.address and api.port to what is free on this machine"
        ) from error
    try:
        yield port
    finally:
        await server.__aexit__(None, None, None)


def _write_access(settings: Settings, keys: pki.Pki, port: int) -> Path:
    """The administrator's kubeconfig, and ready.json for whoever started the hub."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.api.address, settings.api.address)
    host = f"[{host}]" if ":" in host else host
    kubeconfig = settings.state_dir / "admin.kubeconfig"
    try:
        pki.write_kubeconfig(kubeconfig, keys, f"https://{host}:{port}", settings.cluster)
        ready = orjson.dumps({"port": port, "kubeconfig": str(kubeconfig)})
        write_whole(settings.state_dir / "ready.json", ready)
    except (OSError, pki.PkiError) as error:
        raise StartError(f"cannot write into {settings.state_dir}: {error}") from error
    return kubeconfig
