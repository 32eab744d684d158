"""Wire version 1 is frozen: every message reads and writes as in tests/data/wire/v1, and nothing hostile gets in."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelink import messages as m
from edgelink.api import Cursor, Item, ItemKey, NodeFacts, Removal, Removed, StreamRequest, UpItem
from edgelink.wire import MAX_PAYLOAD, WireError, decode, encode

GOLDEN = Path(__file__).parents[2] / "data" / "wire" / "v1"
POD = ItemKey("pods", "default", "web")
ITEM = Item(POD, "u1", 7, b'{"a":[1,2.5,null,"\xc3\xa4"]}')
REQUEST = StreamRequest("logs", "u1", "main", {"follow": "true"})

MESSAGES: dict[str, m.Message] = {
    "hello": m.Hello("c1.1", (1,), NodeFacts("ns", "boot", Cursor("hs", 9), 12, 11)),
    "hello_first": m.Hello("c1.1", (1, 2), NodeFacts("ns", "boot", None, 0)),
    "welcome": m.Welcome("tok", "c1.1", 1, "hs", 11),
    "refused": m.Refused("c1.1", "node was removed"),
    "who": m.Who("tok"),
    "delta": m.Delta("tok", 3, 2, "hs", 9, (ITEM,), (Removed(POD, "u0", Removal.DELETED),)),
    "delta_empty": m.Delta("tok", 4, 3, "hs", 10, (), ()),
    "snapshot": m.Delta("tok", 1, 0, "hs", 9, (ITEM,), (), complete=True, absence=True, digest="d" * 64),
    "ack": m.Ack("tok", 3),
    "ack_gap": m.Ack("tok", 3, 5),
    "batch": m.Batch("tok", 4, 8, (UpItem(6, "level", "pods/u1", b'{"p":1}'), UpItem(8, "log", "events", b"[]"))),
    "upack": m.UpAck("tok", 8),
    "lease": m.Lease("tok", Cursor("hs", 9), "d" * 64, 8),
    "lease_first": m.Lease("tok", None, "", 0),
    "alive": m.Alive("tok"),
    "will": m.Will("c1"),
    "open": m.Open("tok", "s1", REQUEST, 65536),
    "data": m.Data("tok", 1, b"line\n\xff"),
    "end": m.End("tok", 2, "gone", refused=True),
    "credit": m.Credit("tok", 4096),
    "cancel": m.Cancel("tok"),
    "part": m.Part("tok", "p1", 0, 2, b"\x78\x01"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_golden(name: str) -> None:
    golden = (GOLDEN / f"{name}.json").read_bytes()
    assert decode(golden) == MESSAGES[name]
    assert json.loads(encode(MESSAGES[name])) == json.loads(golden)


def test_every_golden_file_is_used() -> None:
    assert {p.stem for p in GOLDEN.glob("*.json")} == set(MESSAGES)


def test_unknown_fields_are_ignored() -> None:
    """What a newer minor version adds."""
    envelope = {**json.loads(encode(m.UpAck("tok", 8))), "mac": "x", "seal": None, "new": {"deep": 1}}
    envelope["b"]["more"] = []
    assert decode(json.dumps(envelope).encode()) == m.UpAck("tok", 8)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", "malformed"),
        (b"\xff\x00", "malformed"),
        (b"[]", "malformed"),
        (b"{}", "malformed"),
        (b'{"v":true,"t":"who","s":"x","b":{}}', "malformed"),
        (b'{"v":2,"t":"who","s":"x","b":{}}', "version"),
        (b'{"v":1,"t":"bang","s":"x","b":{}}', "type"),
        (b'{"v":1,"t":["who"],"s":"x","b":{}}', "malformed"),
        (b'{"v":1,"t":"who","s":"","b":{}}', "malformed"),
        (b'{"v":1,"t":"who","s":"x","b":null,"seal":"abc"}', "sealed"),
        (b'{"v":1,"t":"upack","s":"x","n":-1,"b":{}}', "malformed"),
        (b'{"v":1,"t":"upack","s":"x","n":1e3,"b":{}}', "malformed"),
        (b'{"v":1,"t":"upack","s":"x","n":9223372036854775808,"b":{}}', "malformed"),
        (b'{"v":1,"t":"data","s":"x","n":1,"b":{"b64":"***"}}', "malformed"),
        (b'{"v":1,"t":"open","s":"x","b":{"id":"../up","kind":"logs","pod":"","container":""}}', "malformed"),
        (b'{"v":1,"t":"batch","s":"x","b":{"prev":0,"high":1,"items":[]}}', "malformed"),
        (b"[" * 100_000, "malformed"),
        (b" " * (MAX_PAYLOAD + 1), "oversized"),
    ],
)
def test_s26_hostile_payloads_are_named(payload: bytes, kind: str) -> None:
    """S-26"""
    with pytest.raises(WireError) as caught:
        decode(payload)
    assert caught.value.kind == kind


def test_s26_deep_nesting_in_an_object() -> None:
    """S-26: what the parser reads but could not write."""
    deep = b'{"x":' * 400 + b"1" + b"}" * 400
    payload = encode(m.Delta("t", 1, 0, "h", 1, (Item(POD, "u", 1, b"0"),), ())).replace(b'"obj":0', b'"obj":' + deep)
    with pytest.raises(WireError):
        decode(payload)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
_NAMES = "v t s n b nonce versions store cursor hub rev put removed items prev high b64 id of"
_fields = st.sampled_from(_NAMES.split(" "))


@given(st.sampled_from(sorted(MESSAGES)), st.lists(st.tuples(st.booleans(), _fields, _json), max_size=4))
def test_s26_mutated_messages_raise_nothing_else(name: str, changes: list[tuple[bool, str, object]]) -> None:
    """S-26: a message with any fields replaced decodes, or raises WireError."""
    envelope = json.loads((GOLDEN / f"{name}.json").read_bytes())
    for in_body, field, value in changes:
        target = envelope["b"] if in_body and isinstance(envelope.get("b"), dict) else envelope
        target[field] = value
    _decodes_or_refuses(json.dumps(envelope).encode())


@given(st.binary(max_size=200))
def test_s26_random_bytes_raise_nothing_else(payload: bytes) -> None:
    """S-26"""
    _decodes_or_refuses(payload)


def _decodes_or_refuses(payload: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(payload)
