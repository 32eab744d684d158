"""S-25: what is too long for one payload travels in parts, within bounds."""

from __future__ import annotations

import random
import zlib
from itertools import count

import pytest

from edgelink.api import Item, ItemKey, UpItem
from edgelink.messages import Batch, Delta, Part, Refused, Welcome, Who
from edgelink.parts import Assembler, split
from edgelink.wire import WireError, decode, encode

BIG = Delta(
    "tok", 1, 0, "hub", 1,
    (Item(ItemKey("secrets", "default", "s"), "u", 1, b'"%s"' % random.Random(1).randbytes(60_000).hex().encode()),),
    (),
)  # fmt: skip


def _parts(limit: int = 4096) -> list[Part]:
    names = count()
    payloads = split(BIG, lambda: f"p{next(names)}", limit)
    assert all(len(p) <= limit for p in payloads)
    decoded = [decode(p, limit) for p in payloads]
    assert all(isinstance(p, Part) for p in decoded)
    return decoded  # type: ignore[return-value]


def test_s25_parts_in_any_order_and_doubled_make_the_message() -> None:
    """S-25"""
    parts = _parts()
    random.Random(2).shuffle(parts)
    assembler = Assembler()
    whole = [assembler.add(p) for p in [*parts[:3], *parts]]
    assert [w for w in whole if w is not None] == [BIG]


def test_short_messages_are_sent_as_they_are() -> None:
    assert split(Who("tok"), str) == [encode(Who("tok"))]


def test_what_compression_shortens_is_compressed_and_what_it_does_not_goes_as_it_is() -> None:
    """One part of one is what every version 1 receiver puts together again."""
    text, noise = b'"%s"' % (b"status " * 400), b'"%s"' % random.Random(1).randbytes(1500).hex().encode()
    for value, shorter in ((text, True), (noise, False)):
        batch = Batch("tok", 0, 1, (UpItem(1, "level", "pods/u", value),))
        [payload] = split(batch, lambda: "p")
        assert (len(payload) < len(encode(batch)) // 2) is shorter
        message = decode(payload)
        assert (Assembler().add(message) if isinstance(message, Part) else message) == batch


def test_greetings_are_never_cut_or_compressed() -> None:
    """The other side knows of no session yet that parts could belong to."""
    for greeting in (Refused("c.1", "because " * 400), Welcome("tok", "c.1", 1, "hub" * 500, 0)):
        assert split(greeting, str) == [encode(greeting)]


def test_unfinished_messages_give_way_to_newer_ones() -> None:
    assembler = Assembler()
    for i in range(100):
        assembler.add(Part("tok", f"p{i}", 0, 2, b"x"))
    assert len(assembler._open) <= 4


@pytest.mark.parametrize(
    "part",
    [
        Part("tok", "p", 0, 1, b"not compressed"),
        Part("tok", "p", 5, 2, b""),
        Part("tok", "p", 0, 10**9, b""),
        Part("tok", "p", 0, 1, zlib.compress(b" " * 3_000_000)),
        Part("tok", "p", 0, 1, b"x" * 3_000_000),
        Part("tok", "p", 0, 1, zlib.compress(encode(Who("another")))),
        Part("tok", "p", 0, 1, zlib.compress(encode(Part("tok", "q", 0, 2, b"")))),
    ],
)
def test_s26_hostile_parts(part: Part) -> None:
    """S-26: bombs, nesting, nonsense."""
    with pytest.raises(WireError):
        Assembler(max_message=1_000_000).add(part)
