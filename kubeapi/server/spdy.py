"""SPDY/3.1's frames, as far as Kubernetes clients speak it (pure). Unlike the standard, neither side keeps windows: the
library that those clients use knows none, and takes a frame that it does not know for an error.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LARGEST = 1 << 20
"""Bytes of one frame from a client."""
_LARGEST_HEADERS = 64 * 1024
"""Bytes of a header block, unpacked."""
CANCEL = 5
"""The status of a reset stream that nobody wants any more."""
PROTOCOL_ERROR = 1


class SpdyError(Exception):
    """What came is not SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class SynStream:
    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class SynReply:
    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int
    status: int = CANCEL


@dataclass(frozen=True, slots=True)
class Ping:
    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    last: int


Frame = SynStream | SynReply | Data | Reset | Ping | GoAway


class Reader:
    """Bytes in, frames out."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames of kinds that do not matter here are passed over. Raises SpdyError."""
        self._held += data
        while len(self._held) >= 8:
            word, rest = struct.unpack_from(">II", self._held)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if length > _LARGEST:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._held) < 8 + length:
                return
            body = bytes(self._held[8 : 8 + length])
            del self._held[: 8 + length]
            frame = self._control(word, flags, body) if word >> 31 else Data(word, body, bool(flags & _FIN))
            if frame is not None:
                yield frame

    def _control(self, word: int, flags: int, body: bytes) -> Frame | None:
        if word >> 16 & 0x7FFF != _VERSION:
            raise SpdyError(f"version {word >> 16 & 0x7FFF}")
        try:
            match word & 0xFFFF:
                case 1:
                    return SynStream(_number(body), self._read_headers(body[10:]), bool(flags & _FIN))
                case 2:
                    return SynReply(_number(body), self._read_headers(body[4:]), bool(flags & _FIN))
                case 8:  # HEADERS: unpacked only because the compression has a memory
                    self._read_headers(body[4:])
                case 3:
                    return Reset(_number(body), struct.unpack_from(">I", body, 4)[0])
                case 6:
                    return Ping(struct.unpack_from(">I", body)[0])
                case 7:
                    return GoAway(_number(body))
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a broken frame: {error}") from error
        return None

    def _read_headers(self, packed: bytes) -> Mapping[str, str]:
        block = self._headers.decompress(packed, _LARGEST_HEADERS)
        if self._headers.unconsumed_tail:
            raise SpdyError("headers without end")
        (count,) = struct.unpack_from(">I", block)
        at, headers = 4, {}
        for _ in range(min(count, _LARGEST_HEADERS)):
            name, at = _text(block, at)
            headers[name.lower()], at = _text(block, at)
        return headers


def _number(body: bytes) -> int:
    number: int = struct.unpack_from(">I", body)[0]
    return number & 0x7FFFFFFF


def _text(block: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">I", block, at)
    end = at + 4 + size
    if end > len(block):
        raise SpdyError("headers that end too early")
    return block[at + 4 : end].decode(), end


class Writer:
    """Frames in, bytes out."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def bytes_of(self, frame: Frame) -> bytes:
        match frame:
            case Data(stream, data, fin):
                return struct.pack(">II", stream, (_FIN if fin else 0) << 24 | len(data)) + data
            case SynStream(stream, headers, fin):
                return _control(_SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._packed(headers), fin)
            case SynReply(stream, headers, fin):
                return _control(_SYN_REPLY, struct.pack(">I", stream) + self._packed(headers), fin)
            case Reset(stream, status):
                return _control(_RST_STREAM, struct.pack(">II", stream, status))
            case Ping(id):
                return _control(_PING, struct.pack(">I", id))
            case GoAway(last):
                return _control(_GOAWAY, struct.pack(">II", last, 0))

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        block = struct.pack(">I", len(headers))
        for text in (part.encode() for pair in headers.items() for part in pair):
            block += struct.pack(">I", len(text)) + text
        return self._headers.compress(block) + self._headers.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, body: bytes, fin: bool = False) -> bytes:
    return struct.pack(">HHI", 0x8000 | _VERSION, kind, (_FIN if fin else 0) << 24 | len(body)) + body


def _dictionary() -> bytes:
    """What the compression of headers starts with: a constant of the protocol (section 2.6.10.1)."""
    names = (
        "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age "
        "allow authorization cache-control connection content-base content-encoding content-language content-length "
        "content-location content-md5 content-range content-type date etag expect expires from host if-match "
        "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
        "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
        "user-agent vary via warning www-authenticate method get status"
    )
    words = [*names.split(), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
    rest = (
        "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
        "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
        "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
        "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
        "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
    )
    return b"".join(struct.pack(">I", len(word)) + word.encode() for word in words) + rest.encode()


DICTIONARY = _dictionary()
