"""Sets of field paths in the form that objects carry them (FieldsV1), and their algebra. Pure; nothing is changed.

A set is a tree of dicts: `{"f:spec": {"f:containers": {'k:{"name":"c1"}': {".": {}, "f:image": {}}}}}`. A node
without children is itself in the set; one with children is in it if it has the child `.`. Working on that form directly
costs no conversion on any write. (sigs.k8s.io/structured-merge-diff/v6/fieldpath)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

Fields = dict[str, Any]
"""The root: `{}` is the empty set."""

SELF = "."
_PREFIXES = ("f:", "k:", "v:", "i:")
Path = tuple[str, ...]


def union(a: Fields, b: Fields) -> Fields:
    return _union(a, b) if a and b else a or b


def _union(a: Fields, b: Fields) -> Fields:
    """Of two nodes."""
    if not a:
        return {**b, SELF: {}} if b else {}
    if not b:
        return {**a, SELF: {}}
    result = dict(a)
    for name, child in b.items():
        result[name] = _union(result[name], child) if name in result and name != SELF else child
    return result


def union_of(sets: Iterable[Fields]) -> Fields:
    """Of any number of sets, halves with halves: one after the other, each path would be copied once for each set."""
    parts = list(sets)
    while len(parts) > 1:
        pairs = zip(parts[::2], [*parts[1::2], {}] if len(parts) % 2 else parts[1::2], strict=True)
        parts = [union(a, b) for a, b in pairs]
    return parts[0] if parts else {}


def difference(a: Fields, b: Fields) -> Fields:
    """The paths of `a` that are not in `b`. A path in `b` takes away itself, not what is below it."""
    return (_difference(a, b) or {}) if a and b else a


def _difference(a: Fields, b: Fields) -> Fields | None:
    """Of two nodes; None = nothing left."""
    left: Fields = {}
    for name, child in a.items():
        if name == SELF:
            continue
        rest = _difference(child, b[name]) if name in b else child
        if rest is not None:
            left[name] = rest
    if not _member(a) or _member(b):
        return left or None
    return {SELF: {}, **left} if left else {}


def intersection(a: Fields, b: Fields) -> Fields:
    return (_intersection(a, b) or {}) if a and b else {}


def _intersection(a: Fields, b: Fields) -> Fields | None:
    both: Fields = {}
    for name in a.keys() & b.keys():
        if name != SELF and (shared := _intersection(a[name], b[name])) is not None:
            both[name] = shared
    if _member(a) and _member(b):
        return {SELF: {}, **both} if both else {}
    return both or None


def _member(node: Fields) -> bool:
    return not node or SELF in node


def with_parents(fields: Fields) -> Fields:
    """The set, and every named field above one in it. (List items are in a set only by themselves.)"""
    return {name: _with_parents(child, name) for name, child in fields.items()}


def _with_parents(node: Fields, name: str) -> Fields:
    if not node:
        return node
    children = with_parents(node)
    return {SELF: {}, **children} if name.startswith("f:") else children


def paths(fields: Fields, above: Path = ()) -> Iterator[Path]:
    """Every path, in order: a level's members before what is below them."""
    below = sorted((name, child) for name, child in fields.items() if name != SELF)
    for name, child in below:
        if _member(child):
            yield (*above, name)
    for name, child in below:
        yield from paths(child, (*above, name))


def shown(path: Path) -> str:
    """`.spec.containers[name="c1"].image`."""
    return "".join(map(_shown, path))


def _shown(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    value = orjson.loads(text)
    if kind == "k":
        return "[" + ",".join(f"{name}={_json(value[name])}" for name in sorted(value)) + "]"
    return f"[{text}]" if kind == "i" else f"[={_json(value)}]"


def key_element(key: Mapping[str, Any]) -> str:
    """Of an item in a list with keys: `k:{"name":"c1"}`."""
    return "k:" + orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()


def value_element(value: Any) -> str:
    """Of an item in a list that is a set."""
    return "v:" + _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def ordered(fields: Fields) -> Fields:
    """As the server writes it."""
    return {name: ordered(child) if (child := fields[name]) else child for name in sorted(fields)}


def well_formed(fields: Any) -> bool:
    """Of what a client sent."""
    if not isinstance(fields, dict):
        return False
    return all(
        (name == SELF and child == {}) or (_is_element(name) and well_formed(child)) for name, child in fields.items()
    )


def _is_element(name: str) -> bool:
    if not name.startswith(_PREFIXES):
        return False
    if name.startswith("f:"):
        return True
    try:
        value = orjson.loads(name[2:])
    except orjson.JSONDecodeError:
        return False
    match name[0]:
        case "k":
            return isinstance(value, dict)
        case "i":
            return isinstance(value, int)
    return True
