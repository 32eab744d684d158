"""Walks over objects as JSON data: which fields they set, how two of them differ, merging, and taking fields out.

The rules are those of server-side apply (sigs.k8s.io/structured-merge-diff). Pure; nothing that is given is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeapi.fieldset import SELF, Fields, key_element, shown, value_element
from kubeapi.meta import ATOMS
from kubeapi.shapes import KEY_DEFAULTS, Shape

Data = Mapping[str, Any]
Items = dict[str, Any]
"""A list's items by path element, in the list's order."""


@dataclass(frozen=True, slots=True)
class Difference:
    changed: Fields
    """Added, or with another value."""
    removed: Fields


def compare(old: Data, new: Data, shape: Shape) -> Difference:
    changed, removed = _compare_maps(old, new, shape)
    return Difference(changed, removed)


def _compare_maps(old: Data, new: Data, shape: Shape) -> tuple[Fields, Fields]:
    changed: Fields = {}
    removed: Fields = {}
    for name, value in new.items():
        before = old.get(name)
        if before is None:
            changed[f"f:{name}"] = {} if type(value) in ATOMS else _whole(value, shape.field(name), added=True)
        elif before != value:
            _note(f"f:{name}", _compare(before, value, shape.field(name)), changed, removed)
    for name, value in old.items():
        if name not in new:
            removed[f"f:{name}"] = _whole(value, shape.field(name), added=True)
    return changed, removed


def _compare(old: Any, new: Any, shape: Shape) -> tuple[Fields | None, Fields | None]:
    """Nodes of what changed and what was removed; None = nothing."""
    if isinstance(old, dict) and isinstance(new, dict) and not shape.atomic:
        changed, removed = _compare_maps(old, new, shape)
        return changed or None, removed or None
    before, after = _items(old, shape), _items(new, shape)
    if before is None or after is None:
        return {}, None
    return _compare_items(before, after, shape)


def _compare_items(before: Items, after: Items, shape: Shape) -> tuple[Fields | None, Fields | None]:
    item = shape.item()
    changed: Fields = {}
    removed: Fields = {}
    for element, value in after.items():
        if element not in before:
            changed[element] = _whole(value, item, added=True)
        elif before[element] != value:
            _note(element, _compare(before[element], value, item), changed, removed)
    for element in before.keys() - after.keys():
        removed[element] = _whole(before[element], item, added=True)
    return changed or None, removed or None


def _note(element: str, found: tuple[Fields | None, Fields | None], changed: Fields, removed: Fields) -> None:
    if found[0] is not None:
        changed[element] = found[0]
    if found[1] is not None:
        removed[element] = found[1]


def field_set(data: Data, shape: Shape) -> Fields:
    """Every field that `data` sets: what an Apply owns."""
    return {f"f:{name}": _whole(value, shape.field(name), added=False) for name, value in data.items()}


def _whole(value: Any, shape: Shape, *, added: bool) -> Fields:
    """The node of a value with all below it. `added`: of a difference, where maps and lists count themselves."""
    node: Fields = {}
    if isinstance(value, dict) and not shape.atomic:
        node = {
            f"f:{name}": {} if type(part) in ATOMS else _whole(part, shape.field(name), added=added)
            for name, part in value.items()
        }
    elif (items := _items(value, shape)) is not None:
        item = shape.item()
        for element, part in items.items():
            below = _whole(part, item, added=added)
            node[element] = {**below, SELF: {}} if below else below
    if node and added and not shape.always:
        node[SELF] = {}
    return node


def _items(value: Any, shape: Shape) -> Items | None:
    """None: no list, or one that is owned as a whole (also where keys are missing or doubled)."""
    if not isinstance(value, list) or not (shape.keys or shape.is_set):
        return None
    items: Items = {}
    for item in value:
        element = element_of(item, shape)
        if element is None or element in items:
            return None
        items[element] = item
    return items


def element_of(item: Any, shape: Shape) -> str | None:
    """Of an item in a list of that shape. None: it has none (its keys are missing, or the list has none)."""
    if shape.is_set:
        return value_element(item)
    if not shape.keys or not isinstance(item, dict):
        return None
    key = {name: item.get(name, KEY_DEFAULTS.get(name)) for name in shape.keys}
    return None if None in key.values() else key_element(key)


def problems(data: Data, shape: Shape, path: str = "") -> Iterator[str]:
    """Why an applied configuration's lists cannot be merged, in the server's words."""
    for name, value in data.items():
        below = shape.field(name)
        if isinstance(value, dict) and not below.atomic:
            yield from problems(value, below, f"{path}.{name}")
        elif isinstance(value, list) and (below.keys or below.is_set):
            yield from _list_problems(value, below, f"{path}.{name}")


def _list_problems(items: list[Any], shape: Shape, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        element = element_of(item, shape)
        if element is None:
            yield f"{path}: element {index}: {_missing_key(item, shape)}"
            continue
        if element in seen:
            yield f"{path}: duplicate entries for key {shown((element,))}"
        seen.add(element)
        if isinstance(item, dict):
            yield from problems(item, shape.item(), path + shown((element,)))


def _missing_key(item: Any, shape: Shape) -> str:
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    missing = next(name for name in shape.keys if item.get(name, KEY_DEFAULTS.get(name)) is None)
    return (
        f'associative list with keys has an element that omits key field "{missing}" (and doesn\'t have default value)'
    )


def merge(live: Data, config: Data, shape: Shape) -> dict[str, Any]:
    """`live` with the fields of `config` in it."""
    return dict(live) | {
        name: _merge(live[name], value, shape.field(name)) if name in live else value for name, value in config.items()
    }


def _merge(live: Any, config: Any, shape: Shape) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        return merge(live, config, shape)
    ours, theirs = _items(live, shape), _items(config, shape)
    if ours is None or theirs is None:
        return config
    return _merge_items(ours, theirs, shape.item())


def _merge_items(live: Items, config: Items, shape: Shape) -> list[Any]:
    """In the order of `config`; what only `live` has stays between what it stood between."""
    merged: list[Any] = []
    waiting = iter(config.items())
    shared = iter([element for element in config if element in live])
    turn = next(shared, None)
    for element, item in live.items():
        if element not in config:
            merged.append(item)
        elif element == turn:
            for name, wanted in waiting:
                merged.append(_merge(live[name], wanted, shape) if name in live else wanted)
                if name == element:
                    break
            turn = next(shared, None)
    return merged + [_merge(live[name], wanted, shape) if name in live else wanted for name, wanted in waiting]


def without(data: Data, fields: Fields, shape: Shape) -> dict[str, Any]:
    """`data` without the fields in the set, and what they hold."""
    kept: dict[str, Any] = {}
    for name, value in data.items():
        rest = _without(value, fields.get(f"f:{name}"), shape.field(name))
        if rest is not None:
            kept[name] = rest
    return kept


def _without(value: Any, node: Fields | None, shape: Shape) -> Any:
    """None: nothing is left."""
    if node is None:
        return value
    if not node or SELF in node:
        return None
    if isinstance(value, dict) and not shape.atomic:
        # Emptied, it stays: somebody owns it, or a part of it (`emptyDir: {}` still says something).
        return without(value, node, shape)
    items = _items(value, shape)
    if items is None:
        return value
    left = [_without(item, node.get(element), shape.item()) for element, item in items.items()]
    return [item for item in left if item is not None]
