"""Values of custom resources against their structural schemas: pruning and defaulting. Pure.

A schema is the JSON of a CustomResourceDefinition's `openAPIV3Schema`, already checked (`kubeapi.schemacheck`) to be
structural: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/ has the
rules. Whether a value is valid is for `kubeapi.schemavalues`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
"""Fields that every object has, whether its schema says so or not."""


def properties(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def additional(schema: Schema) -> Schema | None:
    """The schema of the values of a map; None where there is none. `true` allows anything."""
    found = schema.get("additionalProperties")
    if found is True:
        return {PRESERVE: True}
    return found if isinstance(found, Mapping) else None


def field_of(schema: Schema, name: str) -> Schema | None:
    """The schema of a field, None where it is not described."""
    found = properties(schema).get(name)
    return additional(schema) if found is None else found


def items(schema: Schema) -> Schema | None:
    found = schema.get("items")
    return found if isinstance(found, Mapping) else None


def unknown(value: Any, schema: Schema, path: str = "", *, is_object: bool = False) -> Iterator[str]:
    """Paths of what `prune` would take out. `is_object`: it has apiVersion, kind and metadata of its own."""
    if isinstance(value, dict):
        for name, part in value.items():
            if _own(name, schema, is_object):
                continue
            below = field_of(schema, name)
            where = f"{path}.{name}" if path else name
            if below is not None:
                yield from unknown(part, below, where)
            elif not schema.get(PRESERVE):
                yield where
    elif isinstance(value, list):
        each = items(schema)
        for index, item in enumerate(value if each is not None else ()):
            yield from unknown(item, each or {}, f"{path}[{index}]")


def prune(value: Any, schema: Schema, *, is_object: bool = False) -> None:
    """Take out what the schema does not describe, in place."""
    if isinstance(value, dict):
        for name in list(value):
            if _own(name, schema, is_object):
                continue
            below = field_of(schema, name)
            if below is not None:
                prune(value[name], below)
            elif not schema.get(PRESERVE):
                del value[name]
    elif isinstance(value, list) and (each := items(schema)) is not None:
        for item in value:
            prune(item, each)


def _own(name: str, schema: Schema, is_object: bool) -> bool:
    return name in IDENTITY and (is_object or bool(schema.get(EMBEDDED)))


def default(value: Any, schema: Schema) -> None:
    """Fill in defaults, in place; a null where none is allowed counts as left out."""
    if isinstance(value, dict):
        for name in [name for name, part in value.items() if part is None]:
            below = field_of(schema, name)
            if below is not None and not below.get("nullable"):
                del value[name]
        for name, below in properties(schema).items():
            if name not in value and below.get("default") is not None:
                value[name] = copy.deepcopy(below["default"])
        for name, part in value.items():
            below = field_of(schema, name)
            if below is not None:
                default(part, below)
    elif isinstance(value, list) and (each := items(schema)) is not None:
        for item in value:
            default(item, each)
