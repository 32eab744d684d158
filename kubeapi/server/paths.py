"""Which resource a URL names (pure). The rules are those of the reference's request-info resolver."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Target:
    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    """Empty: the collection."""
    subresource: str = ""


def parse(raw_path: str) -> Target | None:
    """`/api/v1/…`, `/apis/<group>/<version>/…`; None for anything that names no resource."""
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    match parts:
        case ["api", "v1", *rest] if rest:
            group, version = "", "v1"
        case ["apis", group, version, *rest] if rest and group:
            pass
        case _:
            return None
    if not all(rest) or "\0" in raw_path or "%00" in raw_path:
        return None  # no name has a NUL in it, and not every database could even be asked for one
    namespace = None
    core = group == ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (core and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource)
