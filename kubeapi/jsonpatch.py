"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902), pure, on JSON data."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import orjson

MAX_OPERATIONS = 10_000
"""More are refused, as the API server does."""
MAX_COPIED = 3 * 1024 * 1024
"""Bytes that the copies of one patch may add up to: a few dozen could otherwise fill the memory."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
"""ASCII digits only, and no more of them than Python reads at once."""


class JsonPatchError(ValueError):
    """An operation that cannot be applied."""


class MalformedPatch(JsonPatchError):
    """Not a JSON patch at all."""


def merge_patch(original: Any, patch: Any) -> Any:
    """RFC 7386. Neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(original) if isinstance(original, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(original: Any, operations: Any) -> Any:
    """RFC 6902. All or nothing; `original` is not changed. Raises JsonPatchError."""
    if not isinstance(operations, list):
        raise MalformedPatch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = copy.deepcopy(original)
    copied = 0
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise MalformedPatch("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
        if operation.get("op") == "copy":
            copied += _size(_get(document, _pointer(operation.get("from"))))
            if copied > MAX_COPIED:
                raise JsonPatchError(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MAX_COPIED}"
                )
        document = _apply(document, operation)
    return document


def _size(value: Any) -> int:
    """In bytes of JSON."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        raise JsonPatchError("Unable to complete the copy: the value is nested too deeply") from error


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    kind, path = operation.get("op"), _pointer(operation.get("path"))
    if kind in ("add", "replace", "test") and "value" not in operation:
        raise JsonPatchError(f"{kind} operation does not have a value: {operation.get('path')}")
    if kind == "add":
        return _add(document, path, copy.deepcopy(operation["value"]))
    if kind == "remove":
        return _remove(document, path)[0]
    if kind == "replace":
        _get(document, path)
        return _set(document, path, copy.deepcopy(operation["value"]))
    if kind == "move":
        source = _pointer(operation.get("from"))
        if source == path[: len(source)] and source != path:
            raise JsonPatchError("cannot move a value into one of its children")
        document, value = _remove(document, source)
        return _add(document, path, value)
    if kind == "copy":
        return _add(document, path, copy.deepcopy(_get(document, _pointer(operation.get("from")))))
    if kind == "test":
        if not _equal(_get(document, path), operation["value"]):
            raise JsonPatchError(f"testing value {operation.get('path')} failed: test failed")
        return document
    raise JsonPatchError(f"Unexpected kind: {kind}")


def _pointer(text: Any) -> list[str]:
    """RFC 6901."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise JsonPatchError(f"invalid JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for index, part in enumerate(path):
        if isinstance(document, dict):
            if part not in document:
                raise _missing(path[: index + 1])
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1, path[: index + 1])]
        else:
            raise _missing(path[: index + 1])
    return document


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1, path)] = value
    else:
        parent[path[-1]] = value
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        position = len(parent) if path[-1] == "-" else _index(path[-1], len(parent), path)
        parent.insert(position, value)
    else:
        raise _missing(path)
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        raise JsonPatchError("cannot remove the whole document")
    value = _get(document, path)
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1, path)]
    else:
        del parent[path[-1]]
    return document, value


def _index(part: str, highest: int, path: list[str]) -> int:
    if not _INDEX.fullmatch(part) or int(part) > highest:
        raise JsonPatchError(f"invalid array index: /{'/'.join(path)}")
    return int(part)


def _missing(path: list[str]) -> JsonPatchError:
    return JsonPatchError(f"doc is missing path: /{'/'.join(path)}: missing value")


def _equal(left: Any, right: Any) -> bool:
    """JSON equality: 1 equals 1.0, true does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
