"""Whether a CustomResourceDefinition's schema is structural, in the reference's words. Pure.

Rules: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
#specifying-a-structural-schema, and apiextensions-apiserver's pkg/apiserver/schema.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubeapi import patterns
from kubeapi.errors import Cause
from kubeapi.fields import forbidden, invalid, not_supported, required
from kubeapi.schemavalues import validate
from kubeapi.structural import EMBEDDED, INT_OR_STRING, PRESERVE, Schema, default, items, properties, unknown

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NEVER = ("$ref", "$schema", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_NOT_NESTED = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    EMBEDDED,
    INT_OR_STRING,
    PRESERVE,
)
"""Words of the structure, which have no place inside allOf, anyOf, oneOf and not."""
_COMBINED = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_MAX_DEPTH = 64

RuleCheck = Callable[[Schema, str], list[Cause]]
"""What is wrong with a schema's own `x-kubernetes-validations`: (schema, path)."""


def refuse_rules(schema: Schema, path: str) -> list[Cause]:
    """Where nothing evaluates CEL: a rule that is never applied would be a lie."""
    if not schema.get("x-kubernetes-validations"):
        return []
    return [forbidden(f"{path}.x-kubernetes-validations", "this server does not evaluate validation rules (CEL)")]


def check(schema: Schema, path: str, rules: RuleCheck = refuse_rules) -> list[Cause]:
    """Of a whole object's schema."""
    kind = schema.get("type")
    if kind != "object":
        where = f"{path}.type"
        return [invalid(where, kind, "must be object") if kind else required(where, "must not be empty at the root")]
    causes = []
    if schema.get(INT_OR_STRING):
        causes.append(forbidden(f"{path}.{INT_OR_STRING}", "must be false at the root"))
    causes += [*_level(schema, path, rules, 0), *_metadata(schema, path)]
    return causes or list(_defaults(schema, path))


def _level(schema: Schema, path: str, rules: RuleCheck, depth: int) -> Iterator[Cause]:
    if depth > _MAX_DEPTH:
        yield forbidden(path, f"schemas may be nested {_MAX_DEPTH} levels deep at most")
        return
    yield from _words(schema, path)
    yield from _type(schema, path)
    yield from _list_type(schema, path)
    yield from _map_type(schema, path)
    yield from rules(schema, path)
    for word in (*_COMBINED, "not"):
        for where, part in _parts(schema, word, path):
            yield from _nested(part, schema, where, depth + 1)
    for name, part in properties(schema).items():
        where = f"{path}.properties[{name}]"
        yield from _typed(part, where, "object fields")
        yield from _level(part, where, rules, depth + 1)
    others = schema.get("additionalProperties")
    if others is not None and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(others, Mapping):
        yield from _typed(others, f"{path}.additionalProperties", "object fields")
        yield from _level(others, f"{path}.additionalProperties", rules, depth + 1)
    if (each := items(schema)) is not None:
        yield from _typed(each, f"{path}.items", "array items")
        yield from _level(each, f"{path}.items", rules, depth + 1)


def _typed(schema: Schema, path: str, what: str) -> Iterator[Cause]:
    if not (schema.get("type") or schema.get(INT_OR_STRING) or schema.get(PRESERVE)):
        yield required(f"{path}.type", f"must not be empty for specified {what}")


def _words(schema: Schema, path: str) -> Iterator[Cause]:
    for word in _NEVER:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("pattern"):
        try:
            patterns.check(schema["pattern"])
        except patterns.BadPattern as error:
            yield invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )


def _type(schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get(INT_OR_STRING) and kind:
        yield forbidden(f"{path}.type", f"must be empty if {INT_OR_STRING} is true")
    if kind == "array" and items(schema) is None and not isinstance(schema.get("items"), list):
        yield required(f"{path}.items", "must be specified")
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if schema.get(EMBEDDED):
        if kind != "object":
            detail = f"must be object if {EMBEDDED} is true"
            yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
        if not schema.get("properties") and not schema.get(PRESERVE):
            detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
            yield required(f"{path}.properties", detail)


def _list_type(schema: Schema, path: str) -> Iterator[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    where = f"{path}.x-kubernetes-list-type"
    if kind is not None and kind not in ("atomic", "map", "set"):
        yield not_supported(where, kind, ("atomic", "map", "set"))
    if kind is not None and schema.get("type") != "array":
        found, detail = schema.get("type"), "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", found, detail) if found else required(f"{path}.type", detail)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield invalid(where, kind, detail) if kind else required(where, detail)
    if kind != "map":
        return
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    each = items(schema) or {}
    if each.get("type") != "object":
        yield invalid(
            f"{path}.items.type", each.get("type"), "must be object if parent array's x-kubernetes-list-type is map"
        )
    for index, name in enumerate(keys):
        described = properties(each).get(name)
        if described is None:
            yield invalid(f"{where}[{index}]", name, "entries must all be names of item properties")
        elif name not in (each.get("required") or ()) and described.get("default") is None:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield required(f"{path}.items.properties[{name}].default", detail)


def _map_type(schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return
    if kind not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular"))
    if schema.get("type") != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        found = schema.get("type")
        yield invalid(f"{path}.type", found, detail) if found else required(f"{path}.type", detail)


# allOf, anyOf, oneOf, not


def _parts(schema: Schema, word: str, path: str) -> list[tuple[str, Schema]]:
    found = schema.get(word)
    if isinstance(found, Mapping):
        return [(f"{path}.{word}", found)]
    return [(f"{path}.{word}[{index}]", part) for index, part in enumerate(found or ())]


def _nested(part: Schema, structure: Schema | None, path: str, depth: int) -> Iterator[Cause]:
    """What is inside them says more about what the structure has, and adds nothing to it."""
    if depth > _MAX_DEPTH:
        yield forbidden(path, f"schemas may be nested {_MAX_DEPTH} levels deep at most")
        return
    yield from _words(part, path)
    if part.get("type") and not _is_int_or_string(structure):
        yield forbidden(f"{path}.type", "must be empty to be structural")
    for word in _NOT_NESTED:
        if part.get(word) is not None:
            yield forbidden(f"{path}.{word}", "must be undefined to be structural")
    if part.get("x-kubernetes-validations"):
        yield forbidden(f"{path}.x-kubernetes-validations", "must be empty to be structural")
    for word in (*_COMBINED, "not"):
        for where, inner in _parts(part, word, path):
            yield from _nested(inner, structure, where, depth + 1)
    for name, inner in properties(part).items():
        described = properties(structure).get(name) if structure is not None else None
        if structure is not None and described is None and not structure.get(PRESERVE):
            where = path.rpartition(".")[0]
            yield required(f"{where}.properties[{name}]", f"because it is defined in {path}.properties[{name}]")
        yield from _nested(inner, described, f"{path}.properties[{name}]", depth + 1)
    if (each := items(part)) is not None:
        yield from _nested(each, items(structure) if structure is not None else None, f"{path}.items", depth + 1)


def _is_int_or_string(structure: Schema | None) -> bool:
    if structure is None or not structure.get(INT_OR_STRING):
        return False
    candidates = [structure.get("anyOf"), *(part.get("anyOf") for part in structure.get("allOf") or ())]
    return any(candidate == _INT_OR_STRING for candidate in candidates)


# Metadata and defaults


def _metadata(schema: Schema, path: str) -> Iterator[Cause]:
    where = f"{path}.properties[metadata]"
    described = properties(schema).get("metadata")
    if described is None:
        return
    if described.get("type") != "object":
        yield invalid(f"{where}.type", described.get("type") or "", "must be object")
    plain = {"type", "description", "properties"}
    others = set(properties(described)) - {"name", "generateName"} or {
        word for word, value in described.items() if word not in plain and value
    }
    if others:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(where, detail)
    for name in ("apiVersion", "kind"):
        kind = (properties(schema).get(name) or {}).get("type", "string")
        if kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")


def _defaults(schema: Any, path: str) -> Iterator[Cause]:
    """A default must be valid itself, with the defaults inside it, and nothing of it may be unknown."""
    value = schema.get("default")
    if value is not None:
        where = f"{path}.default"
        bare = {name: part for name, part in schema.items() if name != "default"}
        stray = next(unknown(value, bare), None)
        if stray is not None:
            yield invalid(where, value, f"must not have unknown fields: {stray}")
        filled = copy.deepcopy(value)
        default(filled, bare)
        for cause in validate(filled, bare, ""):
            yield Cause(cause.reason, cause.message, f"{where}.{cause.field}".rstrip("."))
    for name, part in properties(schema).items():
        yield from _defaults(part, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from _defaults(schema["additionalProperties"], f"{path}.additionalProperties")
    if (each := items(schema)) is not None:
        yield from _defaults(each, f"{path}.items")
