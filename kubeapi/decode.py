"""From bytes or JSON data to objects, with the server's errors for what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from kubeapi.custom import CustomObject
from kubeapi.errors import ApiError, bad_request
from kubeapi.meta import ATOMS, KubeModel, KubeObject

T = TypeVar("T", bound=KubeModel)


def load_json(data: bytes) -> Any:
    """Raises ApiError 400 in the words of Go's decoder."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise bad_request(_go_syntax_error(data)) from None


def decode(model: type[T], data: Any, api_version: str = "v1", kind: str = "") -> T:
    """Raises ApiError 400: `Pod in version "v1" cannot be handled as a Pod: …`."""
    name = kind or model.__name__
    try:
        if not isinstance(data, dict):
            raise DecodeError(f"json: cannot unmarshal {_go_kind(data)} into Go value of type v1.{name}")
        return build(model, data)
    except DecodeError as error:
        message = f'{name} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {name}: {error}'
        raise bad_request(message) from None


class DecodeError(ValueError):
    """The data does not fit the type; the message is the server's."""


def build(model: type[T], data: dict[str, Any]) -> T:
    """Raises DecodeError."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DecodeError(_go_type_error(model.__name__, error)) from None


def unknown_fields(obj: KubeModel, path: str = "") -> Iterator[str]:
    """Paths of fields that the type does not have: `spec.containers[0].bogus`."""
    if isinstance(obj, CustomObject):
        yield from obj.unknown()
    elif extra := obj.model_extra:
        known = obj.known_fields()
        yield from (f"{path}{name}" for name in extra if name not in known)
    wire = obj.wire_fields()
    for name, value in obj.__dict__.items():
        if value and type(value) not in ATOMS:
            yield from _unknown_in(value, f"{path}{wire[name][0]}")


def has_unknown(value: Any) -> bool:
    """Whether `unknown_fields` finds any; most objects have none, and need not be walked with paths."""
    if isinstance(value, KubeModel):
        if isinstance(value, CustomObject):
            if any(value.unknown()):
                return True
        elif (extra := value.model_extra) and not value.known_fields().issuperset(extra):
            return True
        parts: Iterable[Any] = value.__dict__.values()
    elif isinstance(value, list):
        parts = value
    elif isinstance(value, dict):
        parts = [part for part in value.values() if isinstance(part, KubeModel)]
    else:
        return False
    return any(part and type(part) not in ATOMS and has_unknown(part) for part in parts)


def prune(obj: KubeModel) -> list[str]:
    """Take out what the type does not have, as decoding into the reference's types does; gives its paths."""
    if not has_unknown(obj):
        return []
    pruned = list(unknown_fields(obj))
    _prune(obj)
    return pruned


def _prune(value: Any) -> None:
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _prune(item)
    if not isinstance(value, KubeModel):
        return
    extra = value.model_extra or {}
    if isinstance(value, CustomObject):
        value.prune()
    else:
        for name in set(extra) - value.known_fields():
            del extra[name]
    for name, item in value:
        if name in type(value).model_fields:
            _prune(item)


def strict_error(obj: KubeModel) -> str | None:
    """What `fieldValidation=Strict` refuses, None if nothing."""
    listed = ", ".join(f'unknown field "{name}"' for name in unknown_fields(obj))
    return f"strict decoding error: {listed}" if listed else None


def check_strict(obj: KubeObject) -> None:
    """Raises ApiError 400 for a created or replaced object with unknown fields (for patches: `kubeapi.patch`)."""
    problem = strict_error(obj)
    if problem:
        version = obj.api_version.rpartition("/")[2]
        raise bad_request(f'{obj.kind} in version "{version}" cannot be handled as a {obj.kind}: {problem}')


def check_kind(data: Any, api_version: str, kind: str) -> None:
    """A body's own apiVersion and kind, where given, must be the endpoint's. Raises ApiError 400."""
    if not isinstance(data, dict):
        return
    found_version, found_kind = data.get("apiVersion") or api_version, data.get("kind") or kind
    if (found_version, found_kind) == (api_version, kind):
        return
    if found_kind != kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"found kind {json.dumps(found_kind)} in version {json.dumps(found_version)}"
        )
    raise ApiError(
        400,
        "BadRequest",
        f"the API version in the data ({found_version}) does not match the expected API version ({api_version})",
    )


def _unknown_in(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, KubeModel):
        yield from unknown_fields(value, f"{path}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_in(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, KubeModel):
                yield from unknown_fields(item, f"{path}.{name}.")


_GO_TYPES = {
    "string_type": "string",
    "int_type": "int32",
    "bool_type": "bool",
    "list_type": "[]",
    "dict_type": "map[string]string",
    "model_type": "struct",
}


def _go_type_error(name: str, error: ValidationError) -> str:
    """The first problem: our own validators' words (quantities), else as encoding/json would say it."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    path = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    expected = _GO_TYPES.get(first["type"], first["type"])
    return f"json: cannot unmarshal {_go_kind(first['input'])} into Go struct field {name}.{path} of type {expected}"


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    kinds = ((str, "string"), (dict, "object"), (list, "array"), (int | float, "number"))
    return next((kind for types, kind in kinds if isinstance(value, types)), "null")


_GO_SYNTAX = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting value": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}


def _go_syntax_error(data: bytes) -> str:
    try:
        text = data.decode()
        json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return "invalid UTF-8 in JSON input"
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        where = _GO_SYNTAX.get(error.msg)
        if where is None:
            is_object = text.rfind("{", 0, error.pos) > text.rfind("[", 0, error.pos)
            where = "after object key:value pair" if is_object else "after array element"
        return f"invalid character {text[error.pos]!r} {where}"
    except ValueError as error:
        return f"invalid character {str(error)[0]!r} looking for beginning of value"
    return "invalid JSON"


def _no_constant(name: str) -> Any:
    raise ValueError(name)
