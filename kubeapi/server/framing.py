"""Request bodies become data here: JSON, YAML, protobuf, with limits on size and nesting (pure)."""

from __future__ import annotations

from typing import Any

from kubeapi import errors
from kubeapi.decode import load_json
from kubeapi.errors import ApiError, bad_request
from kubeapi.server import protobuf, prototables, yamlbodies

MAX_BODY = 3 * 1024 * 1024
"""Bytes; the reference server's limit."""
MAX_DEPTH = 100
MAX_VALUES = 100_000
MAX_ITEMS = 10_000
"""Of a list within an object (or document), as of operations in a JSON patch. The reference has neither limit; here a
large body of tiny values would cost everybody else seconds. Real objects have a tenth of it."""
MAX_STORED = 1536 * 1024
"""Bytes of an object in the store; etcd's limit."""

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def media_type(content_type: str | None) -> str:
    """Without parameters. Clients that send none (the official Python one) mean JSON."""
    return (content_type or "").partition(";")[0].strip().lower() or JSON


def parse(body: bytes, kind: str) -> Any:
    """The value in a body of media type `kind`. Raises ApiError 400, 415."""
    match kind:
        case "application/json":
            value = _json(body)
        case "application/yaml" | "application/x-yaml" | "text/yaml":
            value = _yaml(body)
        case "application/vnd.kubernetes.protobuf":
            try:
                value = protobuf.decode(body, prototables.MESSAGES)
            except protobuf.ProtobufError as error:
                raise bad_request(str(error)) from error
        case _:
            raise errors.unsupported_media()
    check_depth(value)
    return value


def _json(body: bytes) -> Any:
    try:
        return load_json(body)
    except RecursionError as error:
        raise _too_deep() from error


def _yaml(body: bytes) -> Any:
    try:
        return yamlbodies.load(body, MAX_DEPTH)
    except yamlbodies.TooDeep as error:
        raise _too_deep() from error
    except yamlbodies.BadYaml as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def check_depth(value: Any) -> None:
    """That nothing below has to fear its size. Raises ApiError 400, 413."""
    level, count = [value], 1
    for depth in range(MAX_DEPTH):
        children: list[Any] = []
        for parent in level:
            if isinstance(parent, dict):
                children += parent.values()
            elif isinstance(parent, list):
                if depth and len(parent) > MAX_ITEMS:
                    raise errors.too_large(f"a list of {len(parent)} items; limit is {MAX_ITEMS}")
                children += parent
        if not children:
            return
        level, count = children, count + len(children)
        if count > MAX_VALUES:
            raise errors.too_large(f"more values than {MAX_VALUES}")
    raise _too_deep()


def _too_deep() -> ApiError:
    return bad_request(f"the object is nested more than {MAX_DEPTH} levels deep")
