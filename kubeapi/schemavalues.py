"""Whether a value is as its structural schema says, in the reference's words. Pure.

An update is asked only for what it changed (validation ratcheting): a value that was stored under an older schema may
stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from kubeapi import fields, patterns
from kubeapi.errors import Cause
from kubeapi.schemaformats import FORMATS, INTEGER_RANGES
from kubeapi.structural import EMBEDDED, INT_OR_STRING, Schema, additional, items, properties

MISSING: Any = object()
"""There is no old value to compare with."""
ROOT = "<nil>"
"""The path of what is wrong with the whole object, as the reference prints it here."""


def validate(value: Any, schema: Schema, path: str = "", old: Any = MISSING) -> list[Cause]:
    """Of the whole object too, whose metadata is not looked at here."""
    if old is not MISSING and old == value and type(old) is type(value):
        return []
    if value is None:
        return [] if schema.get("nullable") else [*_type(value, schema, path), *_enum(value, schema, path)]
    causes = _type(value, schema, path)
    causes += _combined(value, schema, path)
    causes += _own(value, schema, path)
    causes += _enum(value, schema, path)
    if isinstance(value, dict):
        causes += _fields(value, schema, path, old)
    elif isinstance(value, list):
        causes += _items(value, schema, path, old)
    return causes


# Types


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names = ((float, "number"), (str, "string"), (list, "array"), (dict, "object"))
    return next(name for kind, name in names if isinstance(value, kind))


def _type(value: Any, schema: Schema, path: str) -> list[Cause]:
    wanted = schema.get("type") or ("integer,string" if schema.get(INT_OR_STRING) else "")
    found = kind_of(value)
    if not wanted:
        return []
    if found in wanted.split(",") or (found == "integer" and wanted == "number"):
        return _format(value, schema, path)
    return [_type_invalid(path, found, wanted)]


def _type_invalid(path: str, shown: Any, wanted: str) -> Cause:
    text = fields.shown(shown)
    return Cause(
        "FieldValueTypeInvalid", f"Invalid value: {text}: {path} in body must be of type {wanted}: {text}", path
    )


def _format(value: Any, schema: Schema, path: str) -> list[Cause]:
    name = schema.get("format", "")
    if isinstance(value, str) and name in FORMATS:
        return [] if FORMATS[name](value) else [_type_invalid(path, value, name)]
    if isinstance(value, int) and name in INTEGER_RANGES and not isinstance(value, bool):
        low, high = INTEGER_RANGES[name]
        return [] if low <= value <= high else [_type_invalid(path, value, name)]
    return []


def _enum(value: Any, schema: Schema, path: str) -> list[Cause]:
    allowed = schema.get("enum")
    if not allowed or any(kind_of(item) == kind_of(value) and item == value for item in allowed):
        return []
    listed = ", ".join(fields.shown(item) for item in allowed)
    detail = f"Unsupported value: {fields.shown(value)}: supported values: {listed}"
    return [Cause("FieldValueNotSupported", detail, path)]


# One value by itself


def _own(value: Any, schema: Schema, path: str) -> list[Cause]:
    if isinstance(value, bool):
        return []
    problems = (
        _number(value, schema)
        if isinstance(value, int | float)
        else _text(value, schema, path)
        if isinstance(value, str)
        else _size(value, schema, path)
    )
    return [
        item if isinstance(item, Cause) else fields.invalid(path, value, f"{path} in body {item}") for item in problems
    ]


def _number(value: float, schema: Schema) -> Iterator[str]:
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        yield f"should be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{_plain(low)}"
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        yield f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{_plain(high)}"
    if step and not float(value / step).is_integer():
        yield f"should be a multiple of {_plain(step)}"


def _text(value: str, schema: Schema, path: str) -> Iterator[str | Cause]:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield fields.too_long(path, most)
    if least is not None and len(value) < least:
        yield f"should be at least {least} chars long"
    if pattern and not patterns.found(pattern, value):
        yield f"should match '{pattern}'"


def _size(value: Any, schema: Schema, path: str) -> Iterator[str | Cause]:
    what = (
        ("minItems", "maxItems", "items")
        if isinstance(value, list)
        else ("minProperties", "maxProperties", "properties")
    )
    least, most = schema.get(what[0]), schema.get(what[1])
    if least is not None and len(value) < least:
        yield f"should have at least {least} {what[2]}"
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


# What is in it


def _fields(value: dict[str, Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    causes = [fields.required(_child(path, name)) for name in schema.get("required") or () if name not in value]
    described, others = properties(schema), additional(schema)
    for name, part in value.items():
        below = described.get(name, others)
        if below is not None and (path or name != "metadata"):
            before = old.get(name, MISSING) if isinstance(old, Mapping) else MISSING
            causes += validate(part, below, _child(path, name), before)
    if path and schema.get(EMBEDDED):
        causes += _embedded(value, path)
    return causes


def _embedded(value: dict[str, Any], path: str) -> list[Cause]:
    causes = []
    for name in ("apiVersion", "kind"):
        found = value.get(name)
        if found is None or found == "":
            causes.append(fields.required(f"{path}.{name}", "must not be empty"))
        elif not isinstance(found, str):
            causes.append(_type_invalid(f"{path}.{name}", kind_of(found), "string"))
    if not isinstance(value.get("metadata", {}), dict):
        causes.append(_type_invalid(f"{path}.metadata", kind_of(value["metadata"]), "object"))
    return causes


def _items(value: list[Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    each = items(schema)
    causes = []
    if each is not None:
        before = by_key(old, schema)
        for index, item in enumerate(value):
            was = before.get(key_of(item, schema), MISSING) if before else MISSING
            causes += validate(item, each, f"{path}[{index}]", was)
    return [*causes, *_doubles(value, schema, path)]


def by_key(old: Any, schema: Schema) -> dict[bytes, Any]:
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {key_of(item, schema): item for item in old}


def key_of(item: Any, schema: Schema) -> bytes:
    """What tells it from the others of a list with keys, or of a set."""
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(item, dict):
        item = {name: item.get(name) for name in schema.get("x-kubernetes-list-map-keys") or ()}
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


def _doubles(value: list[Any], schema: Schema, path: str) -> list[Cause]:
    if schema.get("x-kubernetes-list-type") not in ("set", "map"):
        return []
    seen: set[bytes] = set()
    causes = []
    for index, item in enumerate(value):
        key = key_of(item, schema)
        if key in seen:
            causes.append(fields.duplicate(f"{path}[{index}]", orjson.loads(key)))
        seen.add(key)
    return causes


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Of several schemas


def _combined(value: Any, schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    each: list[list[Cause]]
    quoted = fields.shown(path)
    failed = [cause for part in schema.get("allOf") or () for cause in validate(value, part, path)]
    if failed:
        causes += [*failed, _mismatch(path, f"{quoted} must validate all the schemas (allOf)")]
    if schema.get("anyOf"):
        each = [validate(value, part, path) for part in schema["anyOf"]]
        if all(each):
            nearest = min(each, key=len)
            causes += [_mismatch(path, f"{quoted} must validate at least one schema (anyOf)"), *nearest]
    if schema.get("oneOf"):
        each = [validate(value, part, path) for part in schema["oneOf"]]
        valid = sum(not item for item in each)
        if valid != 1:
            how = f"Found {valid} valid alternatives" if valid else "Found none valid"
            causes.append(_mismatch(path, f"{quoted} must validate one and only one schema (oneOf). {how}"))
            nearest = min(each, key=len)
            causes += [] if valid else nearest
    refused = schema.get("not")
    if refused is not None and not validate(value, refused, path):
        causes.append(_mismatch(path, f"{quoted} must not validate the schema (not)"))
    return causes


def _mismatch(path: str, detail: str) -> Cause:
    return fields.invalid(path, "", detail)
