"""Streams over the link: a node answers, the hub reads, and credits keep either side from sending more than is read.

The node's first `data` (number 0) is empty and says that the stream is open. Of a conversation the hub may also send:
its `data` count from 0, and it has credit for none until the node wants some (so a node that knows no conversations
is never sent any). A stream ends with its session.
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
"""Bytes of one `data`. What one side sends as one piece of at most so many, the other reads as one."""
CREDIT = 4 * CHUNK
"""Bytes that may be outstanding."""
MAX_STREAMS = 32
"""Served at once by a node."""
_MOST_CREDIT = 16 * CREDIT
_LOST = "a piece of the stream was lost on the link"


class _Meter:
    """What may still be sent."""

    def __init__(self, credit: int) -> None:
        self._credit = min(credit, _MOST_CREDIT)
        self._closed = False
        self._more = asyncio.Event()

    def grant(self, size: int) -> None:
        self._credit = min(self._credit + size, _MOST_CREDIT)
        self._more.set()

    def close(self) -> None:
        """Nothing more is sent: who waits is let go."""
        self._closed = True
        self._more.set()

    async def take(self, size: int) -> bool:
        """False once it is closed."""
        while self._credit < size and not self._closed:
            self._more.clear()
            await self._more.wait()
        self._credit -= size
        return not self._closed


class _Inlet:
    """The receiving end of one direction. What waits in it is bounded by the credit given."""

    def __init__(self, grant: Callable[[int], None], given: int) -> None:
        self._grant, self._given = grant, given
        self._chunks: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self.next = 0
        self.ended = False
        self.error: Exception | None = None

    def data(self, n: int, chunk: bytes) -> None:
        if self.ended or not self._in_order(n):
            return
        self._given -= len(chunk)
        if self._given < -_MOST_CREDIT:
            self.fail(StreamRefused("the other side sent more than it was granted"))
        self._chunks.append(chunk)
        self._changed.set()

    def end(self, n: int, error: Exception | None = None) -> None:
        if not self.ended and self._in_order(n):
            self.fail(error)

    def _in_order(self, n: int) -> bool:
        if n > self.next:
            self.fail(NodeOffline(_LOST))
        expected, self.next = n == self.next, max(self.next, n + 1)
        return expected

    def fail(self, error: Exception | None) -> None:
        """It ends here; the error comes after what waits. The first end counts."""
        if not self.ended:
            self.ended, self.error = True, error
            self._changed.set()

    async def opened(self) -> None:
        """Returns once something was received. Raises the error of a stream that ended before."""
        while self.next == 0 and not self.ended:
            await self._change()
        if self.error is not None and not self._chunks:
            raise self.error

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def grant(self, size: int) -> None:
        self._given += size
        self._grant(size)

    async def read(self) -> AsyncIterator[bytes]:
        used = 0
        while self._chunks or not self.ended:
            if not self._chunks:
                await self._change()
                continue
            chunk = self._chunks.popleft()
            used += len(chunk)
            if chunk:
                yield chunk
            if used >= CREDIT // 2:
                self.grant(used)
                used = 0
        if self.error is not None:
            raise self.error


class _Served:
    """One stream that a node serves."""

    def __init__(self, opening: Open, say: Callable[[Message], None]) -> None:
        self.meter = _Meter(opening.credit)
        self.inlet = _Inlet(lambda size: say(Credit(opening.session, size)), 0)
        self.task: asyncio.Task[None] | None = None

    async def given(self) -> AsyncIterator[bytes]:
        """What the hub sends: it may begin when somebody reads."""
        self.inlet.grant(CREDIT)
        async for piece in self.inlet.read():
            yield piece


class NodeStreams:
    """The streams a node serves now. `say(stream id, message)` sends."""

    def __init__(self, backend: NodeBackend, say: Callable[[str, Message], None]) -> None:
        self._backend, self._say = backend, say
        self._serving: dict[str, _Served] = {}

    def open(self, opening: Open, tasks: asyncio.TaskGroup) -> None:
        if opening.id in self._serving:
            return  # asked twice
        if len(self._serving) >= MAX_STREAMS:
            self._say(opening.id, End(opening.session, 0, "too many streams on this node", refused=True))
            return
        served = self._serving[opening.id] = _Served(opening, lambda message: self._say(opening.id, message))
        task = tasks.create_task(self._serve(opening, served), name=f"edgelink stream {opening.id}")
        served.task = task
        task.add_done_callback(lambda _: self._serving.pop(opening.id, None))

    def received(self, stream: str, message: Message) -> None:
        served = self._serving.get(stream)
        if served is None or served.task is None:
            return
        match message:
            case Credit(_, size):
                served.meter.grant(size)
            case Data(_, n, chunk):
                served.inlet.data(n, chunk)
            case End(_, n, _):
                served.inlet.end(n)
            case Cancel():
                served.task.cancel()

    def close(self) -> None:
        for served in self._serving.values():
            if served.task is not None:
                served.task.cancel()

    async def _serve(self, opening: Open, served: _Served) -> None:
        session, sent, error, refused = opening.session, 0, "", False
        try:
            chunks = await self._backend.serve(opening.request, served.given())
            self._say(opening.id, Data(session, 0, b""))
            async with _closing(chunks):
                async for chunk in chunks:
                    for piece in _pieces(chunk):
                        await served.meter.take(len(piece))
                        sent += 1
                        self._say(opening.id, Data(session, sent, piece))
        except StreamRefused as reason:
            error, refused = str(reason), True
        except NodeOffline as reason:
            error = str(reason)
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
    """The hub's end: see `edgelink.api.Conversation`. `gone` is told when it is closed."""

    def __init__(self, say: Callable[[Message], None], session: str, gone: Callable[[], None]) -> None:
        self._say, self.session, self._gone = say, session, gone
        self._inlet = _Inlet(lambda size: say(Credit(session, size)), CREDIT)
        self._meter = _Meter(0)
        self._sent = 0
        self._said_end = False

    def received(self, message: Message) -> None:
        was = self._inlet.ended
        match message:
            case Data(session, n, chunk) if session == self.session:
                self._inlet.data(n, chunk)
            case End(session, n, error, refused) if session == self.session:
                if refused:
                    self._inlet.fail(StreamRefused(error))
                else:
                    self._inlet.end(n, StreamRefused(error) if error else None)
            case Credit(session, size) if session == self.session:
                self._meter.grant(size)
        if self._inlet.ended and not was:
            self._meter.close()
            if not isinstance(message, End):
                self.cancel()

    def cancel(self) -> None:
        """The node is to end what it serves."""
        self._say(Cancel(self.session))

    def fail(self, error: Exception) -> None:
        self._inlet.fail(error)
        self._meter.close()

    async def opened(self) -> None:
        """Returns once the node has answered. Raises StreamRefused, NodeOffline."""
        await self._inlet.opened()

    def read(self) -> AsyncIterator[bytes]:
        return self._inlet.read()

    async def write(self, piece: bytes) -> None:
        for part in _pieces(piece):
            if self._said_end or not await self._meter.take(len(part)):
                return
            self._say(Data(self.session, self._sent, part))
            self._sent += 1

    def end(self) -> None:
        if not self._said_end and not self._inlet.ended:
            self._said_end = True
            self._say(End(self.session, self._sent))

    def close(self) -> None:
        if not self._inlet.ended:
            self._inlet.fail(None)
            self.cancel()
        self._meter.close()
        self._gone()
