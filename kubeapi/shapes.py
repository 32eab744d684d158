"""How each field's value is merged and owned: as a whole, or part by part (x-kubernetes-list-type, -map-type). Pure.

The core types give each field name one meaning, so a name (and its parent's, for `ports`) is enough; a schema of its
own (of a custom resource) is another `Shape`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from kubeapi.strategic import MERGE_KEYS, MERGED_PRIMITIVES, PORT_KEYS


class Shape(Protocol):
    """Of a value somewhere in an object. What the value is not (a list's keys, for a map) is not asked for."""

    @property
    def atomic(self) -> bool:
        """A map that is owned as a whole. (A list is unless it has keys or is a set.)"""

    @property
    def keys(self) -> tuple[str, ...]:
        """Of a list's items; empty = the list has none."""

    @property
    def is_set(self) -> bool:
        """A list whose items are their own keys."""

    @property
    def always(self) -> bool:
        """A field that the reference writes even if empty, so that it never counts as added."""

    def field(self, name: str) -> Shape: ...

    def item(self) -> Shape: ...


KEY_DEFAULTS: Mapping[str, str] = {"protocol": "TCP"}
"""What a key has if it is left out."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    **{name: (key,) for name, key in MERGE_KEYS.items() if name != "hostIPs"},
    "claims": ("name",),
    "matchConditions": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_PORTS: Mapping[str, tuple[str, ...]] = {parent: (key, "protocol") for parent, key in PORT_KEYS.items()}
_ATOMIC = frozenset(
    {
        "configMapKeyRef",
        "fieldRef",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "objectSelector",
        "podSelector",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "resourceFieldRef",
        "roleRef",
        "scopeSelector",
        "secretKeyRef",
        "secretRef",
        "selector",
        "targetRef",
    }
)
_ALWAYS = frozenset(
    {
        "containers",
        "daemonEndpoints",
        "kubeletEndpoint",
        "loadBalancer",
        "metadata",
        "nodeInfo",
        "spec",
        "status",
        "strategy",
        "template",
        "updateStrategy",
    }
)


@dataclass(frozen=True, slots=True)
class NamedShape:
    name: str = ""
    atomic: bool = False
    keys: tuple[str, ...] = ()
    is_set: bool = False
    always: bool = False

    def field(self, name: str) -> Shape:
        return _named(name, self.name)

    def item(self) -> Shape:
        return _named("", self.name)


@lru_cache(maxsize=4096)
def _named(name: str, parent: str) -> NamedShape:
    if not name:
        return NamedShape(parent)
    keys = _PORTS.get(parent, ()) if name == "ports" else _KEYS.get(name, ())
    return NamedShape(name, name in _ATOMIC, keys, f"{parent}.{name}" in MERGED_PRIMITIVES, name in _ALWAYS)


CORE: Shape = NamedShape()
"""Of an object of the built-in kinds."""


@dataclass(frozen=True, slots=True)
class SchemaShape:
    """Of a value described by a structural schema (a custom resource's). What it does not describe is merged by its
    JSON type: maps key by key, lists as a whole."""

    schema: Mapping[str, Any] = field(default_factory=dict)
    root: bool = True
    always: bool = False

    @property
    def atomic(self) -> bool:
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    @property
    def keys(self) -> tuple[str, ...]:
        if self.schema.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @property
    def is_set(self) -> bool:
        return self.schema.get("x-kubernetes-list-type") == "set"

    def field(self, name: str) -> Shape:
        if self.root and name == "metadata":
            return CORE.field(name)
        known = (self.schema.get("properties") or {}).get(name)
        return SchemaShape(_schema(self.schema.get("additionalProperties") if known is None else known), root=False)

    def item(self) -> Shape:
        return SchemaShape(_schema(self.schema.get("items")), root=False)


def _schema(part: Any) -> Mapping[str, Any]:
    """`additionalProperties` may be a bool."""
    return part if isinstance(part, Mapping) else {}
