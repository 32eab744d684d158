"""Messages longer than a broker takes: compressed, cut into parts, put together again. Bounded on the way in.

A part that is lost loses its whole message, which the protocol repeats like any other lost message.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from edgelink.messages import Message, Part, Welcome, session_of
from edgelink.wire import WireError, decode, encode

PART_SIZE = 32 * 1024
"""Bytes of one payload as sent. Far below what brokers take, so that on a thin link a lease never waits long."""
COMPRESS_FROM = 1024
"""Bytes of a message from which it is sent compressed, where that makes it shorter."""
MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of a whole message, decompressed."""
_MAX_OPEN = 4
_ENVELOPE = 256
"""Room for a part's own envelope: type, token, identifier and numbers."""


def split(message: Message, new_id: Callable[[], str], limit: int = PART_SIZE) -> list[bytes]:
    """The payloads that carry `message`, each at most `limit` bytes. Greetings, which are short, go as they are: parts
    belong to a session that both sides know of. Raises WireError for a message that no receiver takes."""
    payload = encode(message)
    if len(payload) > MAX_MESSAGE:
        raise WireError("oversized", f"a message of {len(payload)} bytes, at most {MAX_MESSAGE} can be sent")
    session = "" if isinstance(message, Welcome) else session_of(message)
    if not session or len(payload) < min(COMPRESS_FROM, limit):
        return [payload]
    packed = zlib.compress(payload, 1)
    if len(packed) * 4 // 3 + _ENVELOPE >= len(payload) <= limit:
        return [payload]
    size = (limit - _ENVELOPE) // 4 * 3  # base64 turns three bytes into four
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    name = new_id()
    return [encode(Part(session, name, i, len(pieces), piece)) for i, piece in enumerate(pieces)]


class Assembler:
    """Collects the parts of one peer. Holds few unfinished messages, the oldest gives way."""

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max = max_message
        self._open: dict[str, dict[int, bytes]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, part: Part) -> Message | None:
        """The whole message once its last part is here. Raises WireError on what can never become one."""
        if not 0 <= part.i < part.of <= self._max // 1024:
            raise WireError("malformed", f"part {part.i} of {part.of}")
        pieces = self._open.setdefault(part.id, {})
        pieces.setdefault(part.i, part.data)
        size = self._sizes[part.id] = self._sizes.get(part.id, 0) + len(part.data)
        if size > 2 * self._max:  # doubles count too
            self._forget(part.id)
            raise WireError("oversized", f"parts of more than {self._max} bytes")
        if len(pieces) < part.of:
            self._give_way()
            return None
        self._forget(part.id)
        return self._whole(part.session, b"".join(pieces[i] for i in sorted(pieces)))

    def clear(self) -> None:
        self._open.clear()
        self._sizes.clear()

    def _forget(self, name: str) -> None:
        del self._open[name], self._sizes[name]

    def _give_way(self) -> None:
        while len(self._open) > _MAX_OPEN:
            self._forget(next(iter(self._open)))

    def _whole(self, session: str, packed: bytes) -> Message:
        unpack = zlib.decompressobj()
        try:
            payload = unpack.decompress(packed, self._max)
        except zlib.error as error:
            raise WireError("malformed", f"parts do not decompress: {error}") from error
        if not unpack.eof:
            raise WireError("oversized", f"more than {self._max} bytes, or cut short")
        message = decode(payload, self._max)
        if isinstance(message, Part) or getattr(message, "session", session) != session:
            raise WireError("malformed", "parts that hold a part, or another session's message")
        return message
