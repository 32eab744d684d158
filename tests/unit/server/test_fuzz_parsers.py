"""Everything that reads what a client wrote either reads it or refuses it in its own words; nothing else leaves it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeapi import quantity, selectors
from kubeapi.core import Pod
from kubeapi.decode import DecodeError, build
from kubeapi.errors import ApiError
from kubeapi.patch import CONTENT_TYPES, apply_patch
from kubeapi.resources import REGISTRY
from kubeapi.server import continuation, framing, negotiation, paths, protobuf, prototables
from kubeapi.server.yamlbodies import BadYaml, load
from tests.support.randomobjects import ANYTHING, TEXTS
from tests.unit.server.conftest import pod

MANY = settings(max_examples=200, derandomize=True, database=None, deadline=None)
PIECES = st.sampled_from(
    [*"{}[]:,-#&*!|>'\"%@`?\n \t\0", "<<", "---", "...", "!!int", "é", "\ud7ff", "0x", ".nan", "a"]
)
POD = REGISTRY.of(Pod)


@MANY
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_yaml(text: str) -> None:
    with suppress(BadYaml):
        json.dumps(load(text.encode(), 10), allow_nan=False)


@MANY
@given(st.binary(max_size=60) | PIECES.map(str.encode), st.sampled_from([framing.JSON, framing.YAML, framing.PROTOBUF]))
def test_bodies(body: bytes, kind: str) -> None:
    with suppress(ApiError):
        framing.parse(body, kind)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


NUMBERS = st.integers(1, 40)
MESSAGES = st.recursive(
    st.binary(max_size=8) | st.text(max_size=6).map(str.encode),
    lambda inner: st.lists(
        st.tuples(NUMBERS, inner | st.integers(0, (1 << 64) - 1)).map(lambda pair: field(*pair)), max_size=5
    ).map(b"".join),
    max_leaves=20,
)


@MANY
@given(st.sampled_from(sorted(prototables.MESSAGES)), MESSAGES, st.integers(0, 10_000), st.binary(max_size=3))
def test_protobuf(identity: tuple[str, str], message: bytes, where: int, other: bytes) -> None:
    """Whole, cut short, and with some bytes overwritten."""
    version, kind = identity
    meta = field(1, version.encode()) + field(2, kind.encode())
    whole = protobuf.MAGIC + field(1, meta) + field(2, message)
    at = where % len(whole)
    for body in (whole, whole[:at], whole[:at] + other + whole[at + len(other) :]):
        try:
            data = protobuf.decode(body, prototables.MESSAGES)
        except protobuf.ProtobufError:
            continue
        json.dumps(data)


@MANY
@given(
    st.lists(st.sampled_from([*"a=!,() <>-/.", " in ", " notin ", "==", "9" * 40]), max_size=12).map("".join) | TEXTS
)
def test_selectors(text: str) -> None:
    for parse in (selectors.parse_labels, lambda text: selectors.parse_fields(text, POD)):
        with suppress(ApiError):
            parse(text)


@MANY
@given(st.text(max_size=30) | st.binary(max_size=30).map(bytes.hex))
def test_tokens_paths_and_accept_headers(text: str) -> None:
    with suppress(continuation.BadToken):
        continuation.decode(text)
    paths.parse(f"/api/v1/{text}")
    negotiation.choose(text)
    negotiation.discovery_version(f"application/json;{text}")


@MANY
@given(TEXTS | st.from_regex(r"[-+]?[0-9]{0,30}\.?[0-9]{0,30}([eE][-+]?[0-9]{0,12}|[a-zA-Z]{0,3})", fullmatch=True))
def test_quantities(text: str) -> None:
    with suppress(quantity.QuantityError):
        amount = quantity.parse(text)
        shown = str(amount)
        assert str(quantity.parse(shown)) == shown
        assert len(shown) < 100


@MANY
@given(ANYTHING, st.sampled_from(CONTENT_TYPES))
def test_patches(patch: Any, content_type: str) -> None:
    before = pod("web")
    kept = before.to_dict()
    with suppress(ApiError):
        apply_patch(before, content_type, json.dumps(patch).encode())
    assert before.to_dict() == kept


@MANY
@given(ANYTHING)
def test_objects(data: Any) -> None:
    with suppress(DecodeError):
        build(Pod, {"metadata": data, "spec": data, "status": data})
