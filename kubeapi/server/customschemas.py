"""The OpenAPI schema of a kind that users defined: theirs, with what every object has (pure)."""

from __future__ import annotations

from typing import Any

from kubeapi.custom import CustomObject
from kubeapi.resource import ResourceType
from kubeapi.structural import EMBEDDED, IDENTITY, Schema

_API_VERSION = "The group and version of the schema that this object has."
_KIND = "The kind of object."
_METADATA = "Name, namespace, labels, and what the server notes of every object."


def full_name(item: ResourceType[Any]) -> str:
    """As the reference names them: `com.example.stable.v1.CronTab`."""
    return ".".join([*reversed(item.group.split(".")), item.version, item.kind])


def schema(item: ResourceType[Any], metadata: str) -> dict[str, Any]:
    """`metadata` is the reference to its schema."""
    given = dict(_published(item.model.schema_of)) if issubclass(item.model, CustomObject) else {}
    own = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"allOf": [{"$ref": metadata}], "description": _METADATA, "default": {}},
    }
    fields = {name: part for name, part in (given.get("properties") or {}).items() if name not in IDENTITY}
    identity = [{"group": item.group, "version": item.version, "kind": item.kind}]
    return {**given, "type": "object", "properties": own | fields, "x-kubernetes-group-version-kind": identity}


def _published(part: Schema) -> Schema:
    """An object within an object has the fields that every object has."""
    shown = dict(part)
    properties = {name: _published(below) for name, below in (part.get("properties") or {}).items()}
    if part.get(EMBEDDED):
        text = {"type": "string"}
        properties = {"apiVersion": text, "kind": text, "metadata": {"type": "object"}} | properties
    if properties:
        shown["properties"] = properties
    for word in ("items", "additionalProperties"):
        if isinstance(part.get(word), dict):
            shown[word] = _published(part[word])
    return shown
