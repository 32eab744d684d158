"""MQTT over paho: the only door to it. One network thread per connection; everything else happens in the event loop.

Every connection is a fresh client with a clean session: what was queued for an old one is stale by then, and the
protocol repeats what matters. Bounds: `in_flight` bytes of unacknowledged QoS 1 messages (then publishers wait),
`inbox` received messages (then the newest are dropped and counted).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgelink.pacing import Chance, Timing, backoff
from edgelink.transport import Down, Incoming, Signal, Up, WillFactory

_logger = logging.getLogger(__name__)

_UNUSABLE = (OSError, ValueError)
"""What sockets, TLS and paho raise for settings that do not work (UnicodeError, for a host that is no name, is a
ValueError). An agent outlives them: they may be mended, or come right by themselves."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    ca_file: str | None = None
    """None: the system's authorities."""
    cert_file: str | None = None
    key_file: str | None = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True, slots=True)
class MqttOptions:
    host: str
    port: int = 1883
    client_id: str = ""
    """Two connections of one id push each other out: a node's name, a hub replica's own id."""
    username: str | None = None
    password: str | None = None
    bind_address: str = ""
    """Local address to connect from."""
    version: int = 5
    """4 for MQTT 3.1.1, 5 for MQTT 5."""
    keepalive: int = 12
    """Seconds."""
    connect_timeout: float = 5.0
    tls: TlsOptions | None = None
    in_flight: int = 128 * 1024
    """Bytes. Small on a node, so that a thin link is never blocked long; a hub wants megabytes."""
    inbox: int = 10_000
    timing: Timing = field(default_factory=Timing)


class MqttTransport:
    """See `edgelink.transport.Transport`."""

    def __init__(self, options: MqttOptions, chance: Chance) -> None:
        self._options, self._chance = options, chance
        self._inbox: asyncio.Queue[Signal] = asyncio.Queue()
        self._connection: _Connection | None = None
        self.dropped = 0
        """Received messages for which there was no room."""

    async def run(self, subscriptions: Sequence[str], will: WillFactory) -> None:
        attempt = 0
        while True:
            try:
                self._connection = _Connection(self._options, self._put)
                reason, was_up = await self._connection.serve(subscriptions, will)
            except _UNUSABLE as error:  # before it was tried: certificates that are being replaced, a host that is none
                reason, was_up = f"cannot connect to {self._options.host}:{self._options.port}: {error}", False
            finally:
                self._connection = None
            attempt = 0 if was_up else attempt + 1
            self._put(Down(reason))
            await asyncio.sleep(backoff(self._options.timing, attempt, self._chance))

    async def receive(self) -> Signal:
        return await self._inbox.get()

    async def publish(self, topic: str, payload: bytes, qos: int) -> None:
        if self._connection is not None:
            await self._connection.publish(topic, payload, qos)

    def _put(self, signal: Signal) -> None:
        if isinstance(signal, Incoming) and self._inbox.qsize() >= self._options.inbox:
            self.dropped += 1
            return
        self._inbox.put_nowait(signal)


class _Connection:
    """One paho client from CONNECT to its end. Its callbacks run in paho's thread and only post to the loop."""

    def __init__(self, options: MqttOptions, deliver: Any) -> None:
        self._options, self._deliver = options, deliver
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._up = False
        self._posted: deque[Incoming] = deque()
        self._scheduled = False
        self._flying: dict[int, int] = {}
        self._bytes = 0
        self._room = asyncio.Event()
        self._client = self._make_client()

    def _make_client(self) -> paho.Client:
        o = self._options
        v5 = o.version == 5
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=o.client_id,
            clean_session=None if v5 else True,
            protocol=MQTTProtocolVersion.MQTTv5 if v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        client.connect_timeout = o.connect_timeout
        client.max_inflight_messages_set(1000)  # bytes are counted here instead
        client.max_queued_messages_set(0)
        if o.username is not None:
            client.username_pw_set(o.username, o.password)
        if o.tls is not None:
            client.tls_set_context(o.tls.context())
        return client

    async def serve(self, subscriptions: Sequence[str], will: WillFactory) -> tuple[str, bool]:
        """Why it ended, and whether it was ever up."""
        client, last = self._client, will()
        if last is not None:
            client.will_set(last.topic, last.payload, last.qos)
        self._listen([(pattern, 1) for pattern in subscriptions])
        try:
            await _finished(asyncio.to_thread(self._connect))  # at most `connect_timeout`
            # connect() made a wake-up socket pair and loop_start() makes another without closing the first.
            client._reset_sockets(sockpair_only=True)
            client.loop_start()
            reason = await self._ended
        except _UNUSABLE as error:
            reason = f"cannot connect to {self._options.host}:{self._options.port}: {error}"
        finally:
            self._room.set()
            await _finished(asyncio.to_thread(self._stop))
        return reason, self._up

    def _connect(self) -> None:
        o = self._options
        start = {"clean_start": True} if o.version == 5 else {}
        self._client.connect(o.host, o.port, o.keepalive, o.bind_address, **start)  # type: ignore[arg-type]

    def _stop(self) -> None:
        """DISCONNECT, so that no last will is sent, and the end of the network thread and of all sockets."""
        self._client.disconnect()
        self._client.loop_stop()
        self._client._reset_sockets()  # else the wake-up pair is left to the collector: the client is in a cycle

    # --- in paho's thread ---

    def _post(self, call: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *args)

    def _listen(self, patterns: list[tuple[str, int]]) -> None:
        client = self._client

        def on_connect(c: paho.Client, _: Any, __: Any, code: ReasonCode, ___: Properties | None) -> None:
            if code.is_failure:
                self._post(self._end, f"the broker refused the connection: {code}")
            elif patterns:
                c.subscribe(patterns)
            else:
                self._post(self._opened)

        def on_subscribe(_: Any, __: Any, ___: Any, codes: list[ReasonCode], ____: Any) -> None:
            refused = [p for (p, _), code in zip(patterns, codes, strict=False) if code.is_failure]
            if refused:
                self._post(self._end, f"the broker refused subscriptions: {', '.join(refused)}")
            else:
                self._post(self._opened)

        def on_disconnect(_: Any, __: Any, ___: Any, code: ReasonCode, ____: Any) -> None:
            self._post(self._end, f"the connection ended: {code}")

        def on_message(_: Any, __: Any, message: paho.MQTTMessage) -> None:
            self._posted.append(Incoming(message.topic, bytes(message.payload)))
            if not self._scheduled:  # one wake-up of the loop for many messages
                self._scheduled = True
                self._post(self._drain)

        def on_publish(_: Any, __: Any, mid: int, code: ReasonCode, ___: Any) -> None:
            if code is not None and code.is_failure:
                _logger.warning("the broker refused a message: %s", code)
            self._post(self._land, mid)

        client.on_connect, client.on_subscribe = on_connect, on_subscribe
        client.on_disconnect, client.on_message, client.on_publish = on_disconnect, on_message, on_publish

    # --- in the event loop ---

    def _opened(self) -> None:
        if not self._ended.done():
            self._up = True
            self._deliver(Up())

    def _drain(self) -> None:
        self._scheduled = False
        while self._posted:
            self._deliver(self._posted.popleft())

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    async def publish(self, topic: str, payload: bytes, qos: int) -> None:
        if qos == 0:
            if self._up:
                self._client.publish(topic, payload, 0)
            return
        while self._up and self._flying and self._bytes + len(payload) > self._options.in_flight:
            self._room.clear()
            await self._room.wait()
            if self._ended.done():
                return
        if not self._up:
            return
        info = self._client.publish(topic, payload, qos)
        if info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._flying[info.mid] = len(payload)
            self._bytes += len(payload)

    def _land(self, mid: int) -> None:
        self._bytes -= self._flying.pop(mid, 0)
        self._room.set()


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work` to its end, also when cancelled meanwhile: a thread cannot be interrupted, only waited for."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # seen
        raise cancelled
    task.result()
