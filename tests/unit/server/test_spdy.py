"""SPDY/3.1's frames: what is written is read again however it is cut, and nothing that comes does harm."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.server.spdy import (
    DICTIONARY,
    Data,
    Frame,
    GoAway,
    Ping,
    Reader,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
    Writer,
)

ids = st.integers(1, 2**31 - 1)
headers = st.dictionaries(st.text(max_size=20).map(str.lower), st.text(max_size=40), max_size=5)
frames = st.one_of(
    st.builds(Data, ids, st.binary(max_size=300), st.booleans()),
    st.builds(SynStream, ids, headers, st.booleans()),
    st.builds(SynReply, ids, headers, st.booleans()),
    st.builds(Reset, ids, st.integers(1, 11)),
    st.builds(Ping, st.integers(0, 2**32 - 1)),
    st.builds(GoAway, ids),
)


@given(st.lists(frames, max_size=8), st.integers(1, 50))
def test_what_is_written_is_read(sent: list[Frame], step: int) -> None:
    writer, reader = Writer(), Reader()
    wire = b"".join(map(writer.bytes_of, sent))
    got = [frame for at in range(0, len(wire), step) for frame in reader.feed(wire[at : at + step])]
    assert got == [lowered(frame) for frame in sent]


def lowered(frame: Frame) -> Frame:
    if isinstance(frame, SynStream | SynReply):
        return type(frame)(frame.stream, {name.lower(): value for name, value in frame.headers.items()}, frame.fin)
    return frame


@given(st.binary(max_size=200))
def test_nothing_that_comes_is_anything_but_frames_or_an_error(wire: bytes) -> None:
    try:
        list(Reader().feed(wire))
        list(Reader().feed(b"\x80\x03" + wire))
    except SpdyError:
        pass


def test_the_dictionary_is_the_standards() -> None:
    """Its checksum is what every compressed header block of SPDY/3 begins with: 78 bb e3 c6 a7 c2."""
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


@pytest.mark.parametrize(
    "wire",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\x00\xff\xff\xff",
        b"\x80\x03\x00\x01\x00\x00\x00\x0anot zlib!!",
        b"\x80\x03\x00\x03\x00\x00\x00\x02\x00\x00",
    ],
    ids=["another version", "a frame without end", "broken headers", "a short frame"],
)
def test_what_is_no_spdy_is_refused(wire: bytes) -> None:
    with pytest.raises(SpdyError):
        list(Reader().feed(wire))


def test_headers_that_grow_without_end_are_refused() -> None:
    bomb = Writer().bytes_of(SynStream(1, {"a": "x" * 1_000_000}))
    assert len(bomb) < 10_000
    with pytest.raises(SpdyError, match="without end"):
        list(Reader().feed(bomb))
