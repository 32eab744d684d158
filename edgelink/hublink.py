"""The hub's shell: one process speaks with all nodes of a cluster. Decisions are in `edgelink.hub`.

Messages are handled the moment they arrive; what needs the store runs in a worker per node, one thing after the other,
so that one node's slow commit holds up neither another node nor its own leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from edgelink.api import Conversation, HubBackend, NodeOffline, NodeRefused, StreamRequest
from edgelink.hub import HubSession, State
from edgelink.hub_events import (
    Admit,
    Admitted,
    Command,
    Event,
    Failed,
    LoadView,
    Received,
    Record,
    Rejected,
    Report,
    Send,
    Store,
    StoreCommand,
    Stored,
    Tick,
    ViewChanged,
    ViewLoaded,
)
from edgelink.lanes import Alarm, Intake, Lanes
from edgelink.messages import Alive, Cancel, Credit, Data, Delta, Message, Open, Part
from edgelink.nodelink import new_token
from edgelink.pacing import Chance, Timing
from edgelink.parts import PART_SIZE, Assembler, split
from edgelink.streams import CREDIT, HubStream
from edgelink.topics import Address, Channel, hub_subscriptions, parse_topic
from edgelink.transport import Down, Incoming, Publication, Transport, Up
from edgelink.wire import VERSIONS, WireError, encode

_logger = logging.getLogger(__name__)

_WAITING = 64 * 1024 * 1024
"""Bytes that may wait for the network."""
OPEN_TRIES = 3
OPEN_WAIT = 3.0
"""Seconds for a node to answer an `open`, which is said again then."""


class _Peer:
    """One node's session and what belongs to it."""

    def __init__(self, session: HubSession, ring: Callable[[], None]) -> None:
        self.session = session
        self.commands: deque[StoreCommand] = deque()  # few: the session waits for answers
        self.working = False
        self.alarm = Alarm(ring)
        self.assembler = Assembler()
        self.streams: dict[str, HubStream] = {}

    @property
    def idle(self) -> bool:
        return self.session.state is State.ABSENT and not self.working


class HubLink:
    """Keeps all nodes of `cluster` in step for as long as `run` runs."""

    def __init__(
        self,
        transport: Transport,
        backend: HubBackend,
        cluster: str,
        *,
        chance: Chance,
        timing: Timing | None = None,
        new_token: Callable[[], str] = new_token,
        part_size: int = PART_SIZE,
        concurrency: int = 64,
        max_nodes: int = 100_000,
        versions: tuple[int, ...] = VERSIONS,
        setbacks: tuple[type[Exception], ...] = (),
    ) -> None:
        """`setbacks`: what a backend raises whose store cannot do it now; the message says all there is to say."""
        self._transport, self._backend, self._cluster = transport, backend, cluster
        self._chance, self._timing = chance, timing or Timing()
        self._new_token, self._part_size, self._max_nodes = new_token, part_size, max_nodes
        self._versions, self._setbacks = versions, setbacks
        self._lanes = Lanes(transport, _WAITING)
        self._peers: dict[str, _Peer] = {}
        self._slots = asyncio.Semaphore(concurrency)
        self._tasks: asyncio.TaskGroup | None = None
        self._broken: list[HubStream] = []
        """Streams that ended here when the broker was lost, of which their nodes know nothing yet."""
        self.intake = Intake()
        self.connected = False
        self.reason = "not started"
        """Why the hub has no broker now."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                subscriptions = hub_subscriptions(self._cluster)
                tasks.create_task(self._transport.run(subscriptions, lambda: None), name="edgelink transport")
                tasks.create_task(self._receive(), name="edgelink receive")
                self._lanes.start(tasks)
        finally:
            self._tasks = None
            for peer in self._peers.values():
                peer.alarm.cancel()
                _end_streams(peer, "the hub is stopping")

    def view_changed(self, node: str) -> None:
        """Something in this node's view may have changed."""
        if node in self._peers and self._tasks is not None:
            self._handle(node, ViewChanged())

    async def open_stream(self, node: str, request: StreamRequest) -> AsyncIterator[bytes]:
        """The node's answer, once it has said yes. Raises NodeOffline (at once without a session, later when the link
        is lost) and StreamRefused. Close the iterator (`aclose`) to cancel."""
        return _whole(await self.converse(node, request))

    async def converse(self, node: str, request: StreamRequest) -> Conversation:
        """The same, in both directions."""
        peer = self._peers.get(node)
        if peer is None or peer.session.state is not State.ACTIVE:
            raise NodeOffline(f"node {node} has no session now")
        name, token = self._new_token(), peer.session.token
        topic = Address(self._cluster, node, Channel.DOWN, name).topic

        def say(message: Message) -> None:
            self._lanes.bulk.put(Publication(topic, encode(message), 1))

        def gone() -> None:
            peer.streams.pop(name, None)

        stream = peer.streams[name] = HubStream(say, token, gone)
        try:
            await self._open(node, stream, Open(token, name, request, CREDIT))
        except BaseException:
            stream.close()
            raise
        return stream

    async def _open(self, node: str, stream: HubStream, opening: Open) -> None:
        for _ in range(OPEN_TRIES):
            self._send(node, opening)
            try:
                async with asyncio.timeout(OPEN_WAIT):
                    return await stream.opened()
            except TimeoutError:
                continue
        raise NodeOffline(f"node {node} does not answer")

    # --- the network ---

    async def _receive(self) -> None:
        while True:
            match await self._transport.receive():
                case Up():
                    self.connected, self.reason = True, ""
                    self._cancel_broken()
                case Down(reason):
                    self.connected, self.reason = False, reason
                    self._lanes.clear()
                    # Sessions may outlive a short loss, but what streams had on the way is gone.
                    for peer in self._peers.values():
                        self._broken += peer.streams.values()
                        _end_streams(peer, f"the hub lost its broker: {reason}")
                    _logger.info("no broker: %s", reason)
                case Incoming(topic, payload):
                    self._on_payload(topic, payload)

    def _on_payload(self, topic: str, payload: bytes) -> None:
        address = parse_topic(topic)
        message = self.intake.read(topic, payload)
        if address is None or message is None:
            return
        peer = self._peers.get(address.node)
        if address.stream:
            if peer is not None:
                self._on_stream(peer, address, message)
            return
        if isinstance(message, Part):
            if peer is None or message.session != peer.session.token:
                return
            whole = self._assemble(topic, peer, message)
            if whole is None:
                return
            message = whole
        self._handle(address.node, Received(message))

    def _cancel_broken(self) -> None:
        broken, self._broken = self._broken, []
        for stream in broken:
            stream.cancel()

    def _on_stream(self, peer: _Peer, address: Address, message: Message) -> None:
        stream = peer.streams.get(address.stream)
        if stream is not None:
            stream.received(message)
        elif isinstance(message, Data | Credit) and message.session == peer.session.token:
            # Whoever read it has gone, and the node has not heard of it.
            topic = replace(address, channel=Channel.DOWN).topic
            self._lanes.bulk.put(Publication(topic, encode(Cancel(message.session)), 1))

    def _assemble(self, topic: str, peer: _Peer, part: Part) -> Message | None:
        try:
            return peer.assembler.add(part)
        except WireError as error:
            self.intake.reject(topic, error)
            return None

    def _send(self, node: str, message: Message) -> None:
        topic = Address(self._cluster, node, Channel.DOWN).topic
        if isinstance(message, Alive):
            self._lanes.urgent.put(Publication(topic, encode(message), 0))
            return
        lane = self._lanes.bulk if isinstance(message, Delta | Open) else self._lanes.urgent
        try:
            payloads = split(message, self._new_token, self._part_size)
        except WireError as error:  # the session tries again, later and later, until the view is smaller
            _logger.error(
                "node %s cannot be told what is wished of it: %s: its pods need too much at once", node, error
            )
            return
        for payload in payloads:
            lane.put(Publication(topic, payload, 1))

    # --- sessions ---

    def _peer(self, node: str) -> _Peer | None:
        peer = self._peers.get(node)
        if peer is None and len(self._peers) < self._max_nodes:
            session = HubSession(
                node, self._backend.hub_store, self._timing, self._chance, self._new_token, self._versions
            )
            peer = self._peers[node] = _Peer(session, lambda: self._handle(node, Tick()))
        return peer

    def _handle(self, node: str, event: Event) -> None:
        peer = self._peer(node)
        if peer is None:
            return
        token = peer.session.token
        for command in peer.session.handle(event, asyncio.get_running_loop().time()):
            self._dispatch(node, peer, command)
        if peer.session.token != token:
            _end_streams(peer, f"node {node} lost its session")
            peer.assembler.clear()
        if peer.idle:
            peer.alarm.cancel()
            del self._peers[node]
        else:
            peer.alarm.set(peer.session.deadline())

    def _dispatch(self, node: str, peer: _Peer, command: Command) -> None:
        match command:
            case Send(message):
                self._send(node, message)
            case Report(connected, reason):
                self._backend.link_changed(node, connected, reason)
            case Record(lease):
                self._backend.lease(lease)
            case _:
                peer.commands.append(command)
                if not peer.working and self._tasks is not None:
                    peer.working = True
                    self._tasks.create_task(self._work(node, peer), name=f"edgelink node {node}")

    async def _work(self, node: str, peer: _Peer) -> None:
        """One node's store commands, one after the other; ends when there is nothing left to do."""
        while peer.commands:
            command = peer.commands.popleft()
            try:
                async with self._slots:
                    event = await self._execute(node, command)
            except self._setbacks as error:
                _logger.warning("node %s: %s failed; it will be tried again: %s", node, type(command).__name__, error)
                event = Failed(command)
            except Exception:
                _logger.exception("node %s: %s failed; it will be tried again", node, type(command).__name__)
                event = Failed(command)
            if not peer.commands:
                peer.working = False
                self._handle(node, event)
                return
            self._handle(node, event)

    async def _execute(self, node: str, command: StoreCommand) -> Event:
        match command:
            case Admit():
                return await self._admit(node, command)
            case LoadView():
                view = await self._backend.view(node)
                gone = [(key, uid) for key, (uid, _) in command.held.items() if key not in view.items]
                why = {key: await self._backend.removal(key, uid) for key, uid in gone}
                return ViewLoaded(command, view, why)
            case Store(session, node_store, batch):
                up = await self._backend.apply(node, node_store, batch.prev, batch.high, batch.items)
                return Stored(session, up)

    async def _admit(self, node: str, command: Admit) -> Event:
        facts = command.facts
        try:
            await self._backend.admit(node, facts)
        except NodeRefused as error:
            return Rejected(command.nonce, str(error))
        up = await self._backend.upstream(node, facts.store_id)
        base, cursor = None, facts.cursor
        if cursor is not None and cursor.hub_store == self._backend.hub_store:
            base = await self._backend.view_at(node, cursor.revision)
        return Admitted(command.nonce, up, base)


async def _whole(stream: Conversation) -> AsyncIterator[bytes]:
    try:
        async for chunk in stream.read():
            yield chunk
    finally:
        stream.close()


def _end_streams(peer: _Peer, reason: str) -> None:
    for stream in peer.streams.values():
        stream.fail(NodeOffline(reason))
