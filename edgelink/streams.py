"""Streams over the link: a node answers, the hub reads, and credits keep the node from sending more than is read.

The first `data` (number 0) is empty and says that the stream is open. A stream ends with its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from edgelink.api import NodeBackend, NodeOffline, StreamRefused
from edgelink.messages import Cancel, Credit, Data, End, Message, Open

_logger = logging.getLogger(__name__)

CHUNK = 16 * 1024
"""Bytes of one `data`."""
CREDIT = 4 * CHUNK
"""Bytes that may be outstanding."""
MAX_STREAMS = 32
"""Served at once by a node."""


class _Meter:
    def __init__(self, credit: int) -> None:
        self._credit = min(credit, 16 * CREDIT)
        self._more = asyncio.Event()

    def grant(self, size: int) -> None:
        self._credit = min(self._credit + size, 16 * CREDIT)
        self._more.set()

    async def take(self, size: int) -> None:
        while self._credit < size:
            self._more.clear()
            await self._more.wait()
        self._credit -= size


class NodeStreams:
    """The streams a node serves now. `say(stream id, message)` sends."""

    def __init__(self, backend: NodeBackend, say: Callable[[str, Message], None]) -> None:
        self._backend, self._say = backend, say
        self._serving: dict[str, tuple[asyncio.Task[None], _Meter]] = {}

    def open(self, opening: Open, tasks: asyncio.TaskGroup) -> None:
        if opening.id in self._serving:
            return  # asked twice
        if len(self._serving) >= MAX_STREAMS:
            self._say(opening.id, End(opening.session, 0, "too many streams on this node", refused=True))
            return
        meter = _Meter(opening.credit)
        task = tasks.create_task(self._serve(opening, meter), name=f"edgelink stream {opening.id}")
        self._serving[opening.id] = task, meter
        task.add_done_callback(lambda _: self._serving.pop(opening.id, None))

    def received(self, stream: str, message: Message) -> None:
        serving = self._serving.get(stream)
        if serving is None:
            return
        if isinstance(message, Credit):
            serving[1].grant(message.size)
        elif isinstance(message, Cancel):
            serving[0].cancel()

    def close(self) -> None:
        for task, _ in self._serving.values():
            task.cancel()

    async def _serve(self, opening: Open, meter: _Meter) -> None:
        session, sent, error, refused = opening.session, 0, "", False
        try:
            chunks = await self._backend.serve(opening.request)
            self._say(opening.id, Data(session, 0, b""))
            async with _closing(chunks):
                async for chunk in chunks:
                    for piece in _pieces(chunk):
                        await meter.take(len(piece))
                        sent += 1
                        self._say(opening.id, Data(session, sent, piece))
        except StreamRefused as reason:
            error, refused = str(reason), True
        except Exception:
            _logger.exception("stream %s of pod %s failed", opening.request.kind, opening.request.pod_uid)
            error = "the node failed to go on; its log says why"
        self._say(opening.id, End(session, sent + 1, error, refused))


@contextlib.asynccontextmanager
async def _closing(chunks: AsyncIterator[bytes]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _pieces(chunk: bytes) -> Iterator[bytes]:
    return (chunk[at : at + CHUNK] for at in range(0, len(chunk), CHUNK))


class HubStream:
    """The reading end. What waits in it is bounded by the credit given."""

    def __init__(self, say: Callable[[Message], None], session: str) -> None:
        self._say, self.session = say, session
        self._chunks: deque[bytes] = deque()
        self._next = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    def received(self, message: Message) -> None:
        match message:
            case Data(session, n, chunk) if session == self.session and not self._ended:
                if self._in_order(n):
                    self._chunks.append(chunk)
            case End(session, n, error, refused) if session == self.session and not self._ended:
                if refused:
                    self.fail(StreamRefused(error))
                elif self._in_order(n):
                    self._ended = True
                    self._error = StreamRefused(error) if error else None
            case _:
                return
        self._changed.set()

    def _in_order(self, n: int) -> bool:
        if n > self._next:
            self.fail(NodeOffline("a piece of the stream was lost on the link"))
            self._say(Cancel(self.session))
        expected, self._next = n == self._next, max(self._next, n + 1)
        return expected

    def fail(self, error: Exception) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._changed.set()

    def cancel(self) -> None:
        """Nobody reads any more."""
        if not self._ended:
            self._ended = True
            self._say(Cancel(self.session))

    async def opened(self) -> None:
        """Returns once the node has answered. Raises StreamRefused, NodeOffline."""
        while self._next == 0 and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None and not self._chunks:
            raise self._error

    async def read(self) -> AsyncIterator[bytes]:
        """Until the end. Raises StreamRefused when the node gave up, NodeOffline when the link did."""
        used = 0
        while self._chunks or not self._ended:
            if not self._chunks:
                self._changed.clear()
                await self._changed.wait()
                continue
            chunk = self._chunks.popleft()
            used += len(chunk)
            if chunk:
                yield chunk
            if used >= CREDIT // 2:
                self._say(Credit(self.session, used))
                used = 0
        if self._error is not None:
            raise self._error
