"""The node's shell: executes what its session asks for. Decisions are in `edgelink.node`."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from edgelink.api import NodeBackend
from edgelink.digest import view_digest
from edgelink.lanes import Alarm, Intake, Lanes
from edgelink.messages import Batch, Credit, Data, End, Lease, Message, Part, Will, session_of
from edgelink.node import NodeSession
from edgelink.node_events import (
    Applied,
    Apply,
    Command,
    Connected,
    Dequeue,
    DigestLoaded,
    Disconnected,
    Event,
    FactsLoaded,
    Failed,
    LoadDigest,
    LoadFacts,
    LoadOutbox,
    OutboxChanged,
    OutboxLoaded,
    Received,
    Renew,
    Renewed,
    Report,
    Send,
    Serve,
    Started,
    StoreCommand,
    Tick,
)
from edgelink.pacing import Chance, Timing
from edgelink.parts import PART_SIZE, Assembler, split
from edgelink.streams import NodeStreams
from edgelink.topics import Address, Channel, node_subscriptions, parse_topic
from edgelink.transport import Down, Incoming, Publication, Transport, Up
from edgelink.wire import VERSIONS, WireError, encode

_logger = logging.getLogger(__name__)

BATCH_ITEMS = 100
_WAITING = 4 * 1024 * 1024
"""Bytes that may wait for the network."""


def new_token() -> str:
    return secrets.token_hex(8)


class NodeLink:
    """Keeps a node in step with its hub for as long as `run` runs."""

    def __init__(
        self,
        transport: Transport,
        backend: NodeBackend,
        *,
        cluster: str,
        node: str,
        chance: Chance,
        timing: Timing | None = None,
        new_token: Callable[[], str] = new_token,
        part_size: int = PART_SIZE,
        versions: tuple[int, ...] = VERSIONS,
        setbacks: tuple[type[Exception], ...] = (),
    ) -> None:
        """`setbacks`: what a backend raises whose store cannot do it now; the message says all there is to say."""
        self._transport, self._backend = transport, backend
        self._cluster, self._node = cluster, node
        self._new_token, self._part_size = new_token, part_size
        self._setbacks = setbacks
        self._session = NodeSession(timing or Timing(), chance, versions)
        self._lanes = Lanes(transport, _WAITING)
        self._commands: asyncio.Queue[StoreCommand] = asyncio.Queue()  # few: the session waits for answers
        self._alarm = Alarm(lambda: self._handle(Tick()))
        self._streams = NodeStreams(backend, self._say_on_stream)
        self._assembler = Assembler()
        self._connection = ""
        self._tasks: asyncio.TaskGroup | None = None
        self.intake = Intake()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                subscriptions = node_subscriptions(self._cluster, self._node)
                tasks.create_task(self._transport.run(subscriptions, self._will), name="edgelink transport")
                tasks.create_task(self._receive(), name="edgelink receive")
                tasks.create_task(self._work(), name="edgelink store")
                self._lanes.start(tasks)
                self._handle(Started())
        finally:
            self._tasks = None
            self._alarm.cancel()

    def wake(self) -> None:
        """The outbox has something new."""
        if self._tasks is not None:
            self._handle(OutboxChanged())

    # --- the network ---

    def _will(self) -> Publication:
        self._connection = self._new_token()
        return Publication(self._topic(Channel.LEASE), encode(Will(self._connection)))

    def _topic(self, channel: Channel, stream: str = "") -> str:
        return Address(self._cluster, self._node, channel, stream).topic

    async def _receive(self) -> None:
        while True:
            match await self._transport.receive():
                case Up():
                    self._handle(Connected(self._connection))
                case Down(reason):
                    self._lanes.clear()
                    self._assembler.clear()
                    self._handle(Disconnected(reason))
                case Incoming(topic, payload):
                    self._on_payload(topic, payload)

    def _on_payload(self, topic: str, payload: bytes) -> None:
        address = parse_topic(topic)
        message = self.intake.read(topic, payload)
        if address is None or message is None:
            return
        if address.stream:
            if session_of(message) == self._session.token:
                self._streams.received(address.stream, message)
            return
        if isinstance(message, Part):
            whole = self._assemble(topic, message)
            if whole is None:
                return
            message = whole
        self._handle(Received(message))

    def _assemble(self, topic: str, part: Part) -> Message | None:
        if part.session != self._session.token:
            return None
        try:
            return self._assembler.add(part)
        except WireError as error:
            self.intake.reject(topic, error)
            return None

    def _send(self, message: Message) -> None:
        if isinstance(message, Lease):
            self._lanes.urgent.put(Publication(self._topic(Channel.LEASE), encode(message), 0))
            return
        lane = self._lanes.bulk if isinstance(message, Batch) else self._lanes.urgent
        for payload in split(message, self._new_token, self._part_size):
            lane.put(Publication(self._topic(Channel.UP), payload, 1))

    def _say_on_stream(self, stream: str, message: Message) -> None:
        assert isinstance(message, Data | End | Credit)
        self._lanes.bulk.put(Publication(self._topic(Channel.UP, stream), encode(message), 1))

    # --- the session ---

    def _handle(self, event: Event) -> None:
        token = self._session.token
        for command in self._session.handle(event, asyncio.get_running_loop().time()):
            self._dispatch(command)
        if self._session.token != token:
            self._streams.close()
            self._assembler.clear()
        self._alarm.set(self._session.deadline())

    def _dispatch(self, command: Command) -> None:
        match command:
            case Send(message):
                self._send(message)
            case Report(connected, reason):
                self._backend.link_changed(connected, reason)
            case Serve(opening):
                if self._tasks is not None:
                    self._streams.open(opening, self._tasks)
            case _:
                self._commands.put_nowait(command)

    async def _work(self) -> None:
        """The store's commands, one after the other."""
        while True:
            command = await self._commands.get()
            try:
                event = await self._execute(command)
            except self._setbacks as error:
                _logger.warning("%s failed; it will be tried again: %s", type(command).__name__, error)
                event = Failed(command)
            except Exception:
                _logger.exception("%s failed; it will be tried again", type(command).__name__)
                event = Failed(command)
            if event is not None:
                self._handle(event)

    async def _execute(self, command: StoreCommand) -> Event | None:
        match command:
            case LoadFacts(nonce):
                return FactsLoaded(nonce, await self._backend.facts())
            case Apply(session, n, change):
                await self._backend.apply(change)
                return Applied(session, n)
            case LoadDigest(session):
                return DigestLoaded(session, view_digest(await self._backend.held()))
            case LoadOutbox(session):
                return OutboxLoaded(session, await self._backend.outbox(BATCH_ITEMS))
            case Dequeue(upto):
                await self._backend.acknowledged(upto)
                return None
            case Renew():
                await self._backend.new_identity()
                return Renewed()
