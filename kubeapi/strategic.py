"""Strategic merge patches for the core types (k8s.io/apimachinery/pkg/util/strategicpatch). Pure, on JSON data.

A list of objects with a merge key is merged item by item; any other list is replaced. As in the reference, items that
the patch names come in the patch's order, and new ones before those it does not name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "variables": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
"""By field name: the core types give each of these names one meaning. Anything else is atomic (tolerations, args)."""

PORT_KEYS: Mapping[str, str] = {
    "containers": "containerPort",
    "ephemeralContainers": "containerPort",
    "initContainers": "containerPort",
    "spec": "port",
}
"""Of `ports`, by the field it stands in: a container's, a Service's. Anywhere else it is atomic (NetworkPolicy)."""

MERGED_PRIMITIVES = frozenset({"metadata.finalizers", "spec.podCIDRs"})
"""Lists of strings that are merged as sets, by path."""

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class PatchError(ValueError):
    """The patch does not follow the format; the message is the server's."""


def strategic_merge(original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`original` with `patch` applied; neither is changed. Raises PatchError."""
    return _merge_map(original, patch, "")


def _merge_map(original: Mapping[str, Any], patch: Mapping[str, Any], path: str) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: _clean(value) for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"Unknown patch type found: {directive}")
    result = _retained(original, patch)
    for key, value in patch.items():
        if key.startswith("$"):
            _apply_list_directive(result, original, patch, key, path)
        elif value is None:
            result.pop(key, None)
        else:
            order = patch.get(_ORDER + key)
            result[key] = _merge_value(result.get(key), value, order, _join(path, key), key)
    return result


def _merge_value(old: Any, new: Any, order: Any, path: str, key: str) -> Any:
    if isinstance(new, dict):
        return _merge_map(old, new, path) if isinstance(old, dict) else _clean(new)
    if isinstance(new, list):
        return _merge_list(old if isinstance(old, list) else [], new, order, path, key)
    return new


def _merge_list(old: list[Any], new: list[Any], order: Any, path: str, key: str) -> list[Any]:
    if order is not None and not isinstance(order, list):
        raise PatchError("invalid patch format of setElementOrder list")
    if path in MERGED_PRIMITIVES:
        there = _lookup(old)
        merged = [*old, *(item for item in new if _hashable(item) not in there)]
        return _ordered(merged, order or new, old, lambda item: item)
    merge_key = PORT_KEYS.get(path.split(".")[-2:][0]) if key == "ports" else MERGE_KEYS.get(key)
    if merge_key is None or not all(isinstance(item, dict) for item in (*old, *new)):
        return [_clean(item) for item in new]
    items = [item for item in new if _DIRECTIVE not in item]
    if any(item.get(_DIRECTIVE) == "replace" for item in new):
        return [_clean(item) for item in items]
    deleted = _lookup(_key_of(item, merge_key) for item in new if item.get(_DIRECTIVE) == "delete")
    kept = [item for item in old if _hashable(item.get(merge_key)) not in deleted]
    merged = _merge_items(kept, items, merge_key, path)
    if order is not None:
        _check_order(order, items, merge_key)
    return _ordered(merged, items if order is None else order, kept, lambda item: item.get(merge_key))


def _merge_items(old: list[Any], new: list[Any], merge_key: str, path: str) -> list[Any]:
    merged = list(old)
    places: dict[Any, int] = {}
    for index, item in enumerate(old):
        places.setdefault(_hashable(item.get(merge_key)), index)
    for item in new:
        wanted = _hashable(_key_of(item, merge_key))
        if wanted in places:
            merged[places[wanted]] = _merge_map(merged[places[wanted]], item, path)
        else:
            places[wanted] = len(merged)
            merged.append(_clean(item))
    return merged


def _ordered(merged: list[Any], wanted: Sequence[Any], old: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Named items in the wanted order; the others keep their places relative to those they stood before."""
    _check_keys(key(item) for item in (*wanted, *merged, *old))
    rank = {key(item): index for index, item in enumerate(wanted)}
    place = {key(item): index for index, item in enumerate(old)}
    named = deque(sorted((item for item in merged if key(item) in rank), key=lambda item: rank[key(item)]))
    others = deque(item for item in merged if key(item) not in rank)
    result: list[Any] = []
    while others and named:
        first, second = place.get(key(others[0])), place.get(key(named[0]))
        before = first is not None and second is not None and first < second
        result.append(others.popleft() if before else named.popleft())
    return [*result, *others, *named]


def _apply_list_directive(
    result: dict[str, Any], original: Mapping[str, Any], patch: Mapping[str, Any], key: str, path: str
) -> None:
    """`$deleteFromPrimitiveList`, and a `$setElementOrder` whose list the patch does not touch otherwise."""
    value = patch[key]
    if key.startswith(_DELETE):
        name = key.removeprefix(_DELETE)
        if not isinstance(value, list):
            raise PatchError("invalid patch format of primitive list")
        source = result.get(name, original.get(name))
        if isinstance(source, list):
            unwanted = _lookup(value)
            result[name] = [item for item in source if _hashable(item) not in unwanted]
    elif key.startswith(_ORDER):
        name = key.removeprefix(_ORDER)
        if not isinstance(value, list):
            raise PatchError("invalid patch format of setElementOrder list")
        if name not in patch and isinstance(result.get(name), list):
            result[name] = _merge_list(result[name], [], value, _join(path, name), name)


def _lookup(values: Iterable[Any]) -> frozenset[Any]:
    """To find one of many in: a list would be walked for each, and a patch may have a hundred thousand."""
    return frozenset(map(_hashable, values))


def _hashable(value: Any) -> Any:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else value


def _check_keys(keys: Iterable[Any]) -> None:
    for key in keys:
        if isinstance(key, dict | list):
            raise PatchError(f"cannot merge by {go_format(key)}: a merge key is no object and no list")


def _check_order(order: list[Any], items: list[Any], merge_key: str) -> None:
    """Everything that the patch sets must be in the order it gives."""
    if not all(isinstance(item, dict) for item in order):
        raise PatchError("invalid patch format of setElementOrder list")
    named = _lookup(item.get(merge_key) for item in order)
    if any(_hashable(item.get(merge_key)) not in named for item in items):
        raise PatchError(f"The order in patch list:\n{items}\n doesn't match $setElementOrder list:\n{order}\n")


def _retained(original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    keys = patch.get(_RETAIN)
    if keys is None:
        return dict(original)
    if not isinstance(keys, list):
        raise PatchError("invalid patch format of retainKeys")
    retained = _lookup(keys)
    if any(key not in retained for key, value in patch.items() if value is not None and not key.startswith("$")):
        raise PatchError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}


def _clean(value: Any) -> Any:
    """New content: without nulls and directives."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if item is not None and not key.startswith("$")}
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and _DIRECTIVE in item)]
        return [_clean(item) for item in kept]
    return value


def _key_of(item: Mapping[str, Any], merge_key: str) -> Any:
    if item.get(merge_key) is None:
        raise PatchError(f"map: {go_format(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def go_format(value: Any) -> str:
    """As Go's %v prints decoded JSON: `map[a:1 b:[x y]]`."""
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{go_format(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_format, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
