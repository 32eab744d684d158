"""Reads the protobuf request bodies that kubectl insists on (`create namespace`, `auth can-i`, …). Answers are JSON.

A generic reader driven by declared field tables (`kubeapi.server.prototables`), so that another message is a table, not
code. Fields that no table names are skipped, as protobuf asks, unless the table is `Whole`. An empty string is unset.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from kubeapi.clock import timestamp

MAGIC = b"k8s\x00"
_MAX_DEPTH = 20


class ProtobufError(ValueError):
    """The bytes are not the message they claim to be."""


class Scalar(Enum):
    STRING = "string"
    BYTES = "bytes"
    INT = "int"
    BOOL = "bool"
    TIME = "time"
    QUANTITY = "quantity"
    INT_OR_STRING = "int or string"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Scalar | Message
    repeated: bool = False
    map: bool = False
    """A `map<string, type>`: on the wire a repeated entry of key = 1, value = 2."""
    omit: bool = False
    """Of a number or bool that Go writes even if it is unset: zero and false mean unset."""
    inline: bool = False
    """A message whose fields are the outer one's in JSON."""


Message = Mapping[int, Field]


class Whole(dict[int, Field]):
    """A message whose every field is known here: one that is not is refused, so that nothing is lost unseen."""


_UNKNOWN: Message = {
    1: Field("typeMeta", {1: Field("apiVersion", Scalar.STRING), 2: Field("kind", Scalar.STRING)}),
    2: Field("raw", Scalar.BYTES),
}
_TIME: Message = {1: Field("seconds", Scalar.INT), 2: Field("nanos", Scalar.INT)}
_QUANTITY: Message = {1: Field("string", Scalar.STRING)}
_INT_OR_STRING: Message = {
    1: Field("type", Scalar.INT),
    2: Field("int", Scalar.INT),
    3: Field("string", Scalar.STRING),
}


def decode(body: bytes, messages: Mapping[tuple[str, str], Message]) -> dict[str, Any]:
    """The JSON form of an enveloped object (`k8s\\0` + runtime.Unknown) of one of the (apiVersion, kind) in `messages`.

    Raises ProtobufError.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _message(body[len(MAGIC) :], _UNKNOWN, 0)
    meta = envelope.get("typeMeta", {})
    api_version, kind = meta.get("apiVersion", ""), meta.get("kind", "")
    table = messages.get((api_version, kind))
    if table is None:
        raise ProtobufError(
            f"{kind or 'an object'} of {api_version or 'no version'} is not understood as protobuf: send JSON"
        )
    raw = base64.b64decode(envelope.get("raw", ""))
    return {"apiVersion": api_version, "kind": kind, **_message(raw, table, 0)}


def _message(data: bytes, table: Message, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise ProtobufError("the message is nested too deeply")
    found: dict[str, Any] = {}
    for number, wire in _fields(data):
        field = table.get(number)
        if field is None:
            if isinstance(table, Whole):
                raise ProtobufError(f"field {number} is not understood as protobuf: send JSON")
            continue
        if field.map:
            key, value = _entry(wire, field, depth)
            found.setdefault(field.name, {})[key] = value
            continue
        value = _value(wire, field, depth)
        if field.repeated:
            found.setdefault(field.name, []).append(value)
        elif field.inline:
            found.update(value)
        elif value not in (None, "") and (value or not field.omit):
            found[field.name] = value
    return found


def _entry(wire: int | bytes, field: Field, depth: int) -> tuple[str, Any]:
    pair = _message(_bytes(wire, field), {1: Field("key", Scalar.STRING), 2: Field("value", field.type)}, depth + 1)
    return pair.get("key", ""), pair.get("value", "")


def _value(wire: int | bytes, field: Field, depth: int) -> Any:
    match field.type:
        case Scalar.INT | Scalar.BOOL:
            if not isinstance(wire, int):
                raise ProtobufError(f"{field.name}: not a number")
            return bool(wire) if field.type is Scalar.BOOL else wire - (1 << 64) * (wire >> 63)
        case Scalar.STRING:
            try:
                return _bytes(wire, field).decode()
            except UnicodeDecodeError as error:
                raise ProtobufError(f"{field.name}: not UTF-8") from error
        case Scalar.BYTES:
            return base64.b64encode(_bytes(wire, field)).decode()
        case Scalar.QUANTITY:
            return _message(_bytes(wire, field), _QUANTITY, depth + 1).get("string", "0")
        case Scalar.INT_OR_STRING:
            either = _message(_bytes(wire, field), _INT_OR_STRING, depth + 1)
            return either.get("string", "") if either.get("type") else either.get("int", 0)
        case Scalar.TIME:
            return _time(_message(_bytes(wire, field), _TIME, depth + 1))
        case _:
            return _message(_bytes(wire, field), field.type, depth + 1)


def _time(parts: Mapping[str, int]) -> str | None:
    """An unset time travels as an empty message, or as Go's zero time (year 1)."""
    seconds = parts.get("seconds", 0)
    if seconds <= 0:
        return None
    try:
        return timestamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise ProtobufError(f"a time is out of range: {seconds}") from error


def _bytes(wire: int | bytes, field: Field) -> bytes:
    if isinstance(wire, int):
        raise ProtobufError(f"{field.name}: a number where bytes were expected")
    return wire


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value): an int for varints and fixed numbers, bytes for what is length-delimited."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        match kind:
            case 0:
                value, at = _varint(data, at)
                yield number, value
            case 2:
                length, at = _varint(data, at)
                yield number, _slice(data, at, length)
                at += length
            case 1 | 5:
                width = 8 if kind == 1 else 4
                yield number, int.from_bytes(_slice(data, at, width), "little")
                at += width
            case _:
                raise ProtobufError(f"unknown wire type {kind}")


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise ProtobufError("unexpected EOF")
    return data[at : at + length]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift >= 64:
            raise ProtobufError("a varint is longer than ten bytes")
