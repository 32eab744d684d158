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
    """Raises ApiError 400."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ApiError:
    return bad_request(f"the object is nested more than {MAX_DEPTH} levels deep")
