"""What both shells share: outgoing lanes, the intake of payloads, and an alarm on the event loop's time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable

from edgelink.messages import Message
from edgelink.transport import Publication, Transport
from edgelink.wire import MAX_PAYLOAD, WireError, decode

_logger = logging.getLogger(__name__)


class Lane:
    """Publishes in order. At the bound (bytes waiting) the newest is dropped and counted: the protocol repeats it."""

    def __init__(self, transport: Transport, bound: int) -> None:
        self._transport, self._bound = transport, bound
        self._waiting: deque[Publication] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self.dropped = 0

    def put(self, message: Publication) -> None:
        if self._bytes >= self._bound:
            self.dropped += 1
            return
        self._waiting.append(message)
        self._bytes += len(message.payload)
        self._some.set()

    def clear(self) -> None:
        self._waiting.clear()
        self._bytes = 0

    async def run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message.payload)
                await self._transport.publish(message.topic, message.payload, message.qos)


class Lanes:
    """Leases and answers never wait behind bulk (S-23)."""

    def __init__(self, transport: Transport, bound: int) -> None:
        self.urgent = Lane(transport, max(64 * 1024, bound // 4))
        self.bulk = Lane(transport, bound)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self.urgent.run(), name="edgelink urgent lane")
        tasks.create_task(self.bulk.run(), name="edgelink bulk lane")

    def clear(self) -> None:
        self.urgent.clear()
        self.bulk.clear()


class Intake:
    """Payloads become messages, or are counted by kind, and logged once per kind (S-26)."""

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._limit = limit
        self.rejected: Counter[str] = Counter()

    def read(self, topic: str, payload: bytes) -> Message | None:
        try:
            return decode(payload, self._limit)
        except WireError as error:
            self.reject(topic, error)
            return None

    def reject(self, topic: str, error: WireError) -> None:
        self.rejected[error.kind] += 1
        if self.rejected[error.kind] == 1:
            _logger.warning("rejected a message on %s (more of this kind are only counted): %s", topic, error)


class Alarm:
    """Calls back at a moment that may be moved. An alarm that rings early is harmless: it is set again."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, when: float | None) -> None:
        if when is None or (self._handle is not None and self._handle.when() <= when):
            return
        self.cancel()
        self._handle = asyncio.get_running_loop().call_at(when, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._ring()
