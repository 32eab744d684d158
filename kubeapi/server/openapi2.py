"""The same schemas as OpenAPI 2, made of the version 3 documents (pure): for `kubectl explain --output
plaintext-openapiv2`, older kubectls and generators. Of the paths it has only what clients look up in it: which query
parameters a PATCH takes.

In protobuf it is gnostic's openapi.v2.Document; the numbers below are those of its OpenAPIv2.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

Json = dict[str, Any]

PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""How clients ask for it."""
PROTO_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""How servers name it: with an `@` it would be no valid media type."""

_V3_REF, _V2_REF = "#/components/schemas/", "#/definitions/"


def document(version: str, documents: Iterable[Json]) -> Json:
    paths: Json = {}
    definitions: Json = {}
    for item in documents:
        for path, operations in item["paths"].items():
            if "patch" in operations:
                paths[path] = {"patch": _patch(operations["patch"])}
        definitions |= {name: _schema(schema) for name, schema in item["components"]["schemas"].items()}
    info = {"title": "Kubernetes", "version": version}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _patch(operation: Json) -> Json:
    kept = {name: operation[name] for name in ("operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind")}
    parameters = [
        {"name": item["name"], "in": "query", "type": item["schema"]["type"]} for item in operation["parameters"]
    ]
    answers = {code: {"description": found["description"]} for code, found in operation["responses"].items()}
    return {**kept, "consumes": [*operation["requestBody"]["content"]], "parameters": parameters, "responses": answers}


def _schema(schema: Json) -> Json:
    found = {name: part for name, part in schema.items() if name != "allOf"}
    for part in schema.get("allOf", ()):  # version 3 wraps a reference that has a description
        found |= part
    if "$ref" in found:
        found["$ref"] = found["$ref"].replace(_V3_REF, _V2_REF)
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = _schema(found[name])
    if "properties" in found:
        found["properties"] = {name: _schema(part) for name, part in found["properties"].items()}
    return found


# As protobuf


def encode(found: Json) -> bytes:
    paths = b"".join(
        _bytes(2, _named(path, _bytes(8, _operation(item["patch"])))) for path, item in found["paths"].items()
    )
    definitions = b"".join(_bytes(1, _named(name, _message(schema))) for name, schema in found["definitions"].items())
    info = _text(1, found["info"]["title"]) + _text(2, found["info"]["version"])
    return _text(1, found["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, definitions)


def _operation(operation: Json) -> bytes:
    parts = [_text(5, operation["operationId"]), *(_text(7, kind) for kind in operation["consumes"])]
    for item in operation["parameters"]:
        query = _text(2, item["in"]) + _text(4, item["name"]) + _text(6, item["type"])
        parts.append(_bytes(8, _bytes(1, _bytes(2, _bytes(3, query)))))
    answers = [_named(code, _bytes(1, _text(1, item["description"]))) for code, item in operation["responses"].items()]
    parts.append(_bytes(9, b"".join(_bytes(1, answer) for answer in answers)))
    return b"".join([*parts, *_extensions(13, operation)])


def _message(schema: Json) -> bytes:
    parts = [write(schema[name]) for name, write in _SCHEMA.items() if name in schema]
    return b"".join([*parts, *_extensions(31, schema)])


def _properties(found: Json) -> bytes:
    return _bytes(25, b"".join(_bytes(1, _named(name, _message(part))) for name, part in found.items()))


def _additional(found: Json | bool) -> bytes:
    return _bytes(21, bytes([2 << 3, found]) if isinstance(found, bool) else _bytes(1, _message(found)))


_SCHEMA: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _bytes(5, _any(value)),
    "required": lambda value: b"".join(_text(19, name) for name in value),
    "enum": lambda value: b"".join(_bytes(20, _any(item)) for item in value),
    "additionalProperties": _additional,
    "type": lambda value: _bytes(22, _text(1, value)),
    "items": lambda value: _bytes(23, _bytes(1, _message(value))),
    "properties": _properties,
}


def _extensions(number: int, found: Json) -> list[bytes]:
    return [_bytes(number, _named(name, _any(value))) for name, value in found.items() if name.startswith("x-")]


def _any(value: Any) -> bytes:
    """As YAML, of which JSON is a part."""
    return _bytes(2, orjson.dumps(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
