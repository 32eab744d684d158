"""Who set which field: `metadata.managedFields`, for updates and for server-side apply. Pure.

Rules, limits and words are the reference's (k8s.io/apimachinery/pkg/util/managedfields and the merge package of
sigs.k8s.io/structured-merge-diff). One deviation: every manager speaks the one version that a kind is served in, so
sets are never converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kubeapi import fieldset, fieldwalk
from kubeapi.errors import ApiError
from kubeapi.fieldset import Fields
from kubeapi.fieldwalk import Data
from kubeapi.shapes import CORE, Shape

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
"""Entries of updates; the oldest beyond it become one."""
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
"""The one applier to whom a client-side apply of before is its own."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_SYSTEM: Fields = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        fieldset.SELF: {},
        "f:clusterName": {},
        "f:creationTimestamp": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:name": {},
        "f:namespace": {},
        "f:resourceVersion": {},
        "f:selfLink": {},
        "f:uid": {},
    },
}
"""What nobody owns."""


@dataclass(frozen=True, slots=True)
class Manager:
    name: str
    api_version: str = "v1"
    subresource: str = ""
    operation: str = UPDATE

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """An applier stays the same one in another version."""
        return (self.name, self.operation, "" if self.operation == APPLY else self.api_version, self.subresource)

    def __str__(self) -> str:
        """As conflicts name it."""
        text = _quoted(self.name)
        if self.subresource:
            text += f" with subresource {_quoted(self.subresource)}"
        return text if self.operation == APPLY else f"{text} using {self.api_version}"


@dataclass(frozen=True, slots=True)
class Entry:
    manager: Manager
    fields: Fields
    time: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Keys in the server's order."""
        manager = self.manager
        data = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields,
            "subresource": manager.subresource,
        }
        return {key: value for key, value in data.items() if value or key == "fieldsV1"}


Entries = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where something is written, which limits what its writer owns."""

    shape: Shape = CORE
    subresource: str = ""
    has_status: bool = False
    """The kind has a `status` subresource, to which the status is left."""

    def owned(self, fields: Fields) -> Fields:
        if self.subresource == "status":
            return {name: fields[name] for name in ("f:status",) if name in fields}
        if self.has_status and not self.subresource and "f:status" in fields:
            fields = {name: node for name, node in fields.items() if name != "f:status"}
        return fieldset.difference(fields, _SYSTEM)


def decode(data: Sequence[Mapping[str, Any]]) -> Entries:
    """Of a stored object."""
    return tuple(
        Entry(
            Manager(
                item.get("manager", ""),
                item.get("apiVersion", ""),
                item.get("subresource", ""),
                item.get("operation", UPDATE),
            ),
            item.get("fieldsV1") or {},
            item.get("time"),
        )
        for item in data
    )


def is_usable(data: Sequence[Mapping[str, Any]]) -> bool:
    """Of what a client sent: who sends nothing, or nothing that can be understood, changes nothing."""
    return bool(data) and all(_is_entry(item) for item in data)


def is_reset(data: Sequence[Mapping[str, Any]]) -> bool:
    """One empty entry: the client asks to forget all managers."""
    return len(data) == 1 and not data[0]


def _is_entry(item: Mapping[str, Any]) -> bool:
    texts = (item.get(name, "") for name in ("manager", "apiVersion", "subresource", "time"))
    return (
        all(isinstance(text, str) for text in texts)
        and item.get("operation") in (APPLY, UPDATE)
        and item.get("fieldsType") == "FieldsV1"
        and fieldset.well_formed(item.get("fieldsV1", {}))
    )


def encode(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [entry.to_dict() for entry in sorted(entries, key=_rank)]


def _rank(entry: Entry) -> tuple[str, str, str, str, str]:
    manager = entry.manager
    return (manager.operation, entry.time or "", manager.name, manager.api_version, manager.subresource)


def update(old: Data, new: Data, entries: Entries, who: Manager, endpoint: Endpoint, now: str) -> Entries:
    """After `who` made `new` of `old`: what it changed is its own now, and nobody else's."""
    difference = fieldwalk.compare(old, new, endpoint.shape)
    changed, removed = endpoint.owned(difference.changed), endpoint.owned(difference.removed)
    if not changed and not removed:
        return entries
    if not entries:  # a new object
        return _kept(Entry(who, fieldset.ordered(changed), now if changed else None))
    mine = next((entry for entry in entries if entry.manager.identity == who.identity), Entry(who, {}))
    kept = fieldset.difference(mine.fields, removed)
    fresh = fieldset.difference(changed, kept)
    own = fieldset.ordered(fieldset.union(kept, fresh)) if fresh else kept
    mine = replace(mine, fields=own, time=now if changed else mine.time)
    return _capped((*_lessened(_others(entries, who), changed, removed), *_kept(mine)))


@dataclass(frozen=True, slots=True)
class Applied:
    data: dict[str, Any]
    entries: Entries


def apply(
    live: Data, config: Data, entries: Entries, who: Manager, endpoint: Endpoint, now: str, *, force: bool = False
) -> Applied:
    """`config` merged into `live`, without what `who` applied before and no longer does.

    Raises ApiError 409 for fields that others own and that would get another value, unless `force`.
    """
    if not entries:
        entries = update(
            _bare(live), live, (), Manager(BEFORE_FIRST_APPLY, who.api_version), Endpoint(endpoint.shape), now
        )
    wanted = fieldset.ordered(endpoint.owned(fieldwalk.field_set(config, endpoint.shape)))
    mine = next((entry for entry in entries if entry.manager.identity == who.identity), Entry(who, {}))
    others = _others(entries, who)
    merged = fieldwalk.merge(live, config, endpoint.shape)
    dropped = _no_longer_applied(mine.fields, wanted, others)
    if dropped:
        merged = fieldwalk.without(merged, dropped, endpoint.shape)
    difference = fieldwalk.compare(live, merged, endpoint.shape)
    changed, removed = endpoint.owned(difference.changed), endpoint.owned(difference.removed)
    if not force:
        _refuse(_conflicts(others, changed), _allowed(live, who, endpoint.shape))
    same = not changed and not removed and wanted == mine.fields
    mine = mine if same else Entry(who, wanted, now)
    _remember_applied(merged, config, who)
    return Applied(merged, (*_lessened(others, changed, removed), *_kept(mine)))


def _bare(live: Data) -> Data:
    """An object of nothing but its empty parts, which are never owned themselves."""
    return {name: {} for name in ("metadata", "spec", "status") if name in live}


def _no_longer_applied(last: Fields, wanted: Fields, others: Entries) -> Fields:
    if not last:
        return {}
    owned = fieldset.union_of((wanted, _SYSTEM, *(entry.fields for entry in others)))
    return fieldset.difference(fieldset.with_parents(last), fieldset.with_parents(owned))


def _others(entries: Entries, who: Manager) -> Entries:
    return tuple(entry for entry in entries if entry.manager.identity != who.identity)


def _lessened(entries: Entries, changed: Fields, removed: Fields) -> Entries:
    lessened: list[Entry] = []
    for entry in entries:
        fields = fieldset.difference(fieldset.difference(entry.fields, changed), removed)
        lessened += _kept(entry if fields == entry.fields else replace(entry, fields=fields))
    return tuple(lessened)


def _kept(entry: Entry) -> Entries:
    return (entry,) if entry.fields else ()


def _capped(entries: Entries) -> Entries:
    updaters = sorted(
        (entry for entry in entries if entry.manager.operation == UPDATE), key=lambda entry: entry.time or ""
    )
    surplus = updaters[: max(0, len(updaters) - MAX_UPDATERS + 1)] if len(updaters) > MAX_UPDATERS else []
    if not surplus:
        return entries
    fields = fieldset.union_of(entry.fields for entry in surplus)
    newest = surplus[-1]
    ancient = Entry(Manager(ANCIENT, newest.manager.api_version), fieldset.ordered(fields), newest.time)
    gone = set(map(id, surplus))
    return (*(entry for entry in entries if id(entry) not in gone), ancient)


# Conflicts

Conflict = tuple[Manager, fieldset.Path]


def _conflicts(others: Entries, changed: Fields) -> list[Conflict]:
    found = [
        (entry.manager, path)
        for entry in others
        for path in fieldset.paths(fieldset.intersection(entry.fields, changed))
    ]
    return sorted(found, key=lambda conflict: str(conflict[0]))


def _refuse(conflicts: list[Conflict], allowed: Fields) -> None:
    conflicts = [item for item in conflicts if not _contains(allowed, item[1])]
    if not conflicts:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": fieldset.shown(path)}
        for manager, path in conflicts
    ]
    raise ApiError(409, "Conflict", _conflict_message(conflicts), {"causes": causes})


def _conflict_message(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {fieldset.shown(path)}"
    lines: list[str] = []
    before = None
    for manager, path in conflicts:
        if manager != before:
            lines.append(f"conflicts with {manager}:")
            before = manager
        lines.append(f"- {fieldset.shown(path)}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _contains(fields: Fields, path: fieldset.Path) -> bool:
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return not node or fieldset.SELF in node


# From client-side apply


def _allowed(live: Data, who: Manager, shape: Shape) -> Fields:
    """What `kubectl apply` without --server-side set and nobody has changed since: no conflict for kubectl."""
    text = _last_applied(live) if who.name == KUBECTL else None
    if not text:
        return {}
    try:
        last = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return {}
    difference = fieldwalk.compare(last, live, shape)
    fields = fieldwalk.field_set(last, shape)
    return fieldset.difference(fieldset.difference(fields, difference.changed), difference.removed)


def _last_applied(data: Data) -> str | None:
    text = (data.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    return text if isinstance(text, str) else None


def _remember_applied(merged: dict[str, Any], config: Data, who: Manager) -> None:
    """Clients that apply by themselves later compare with this annotation: it follows kubectl's server-side apply."""
    if who.name != KUBECTL or not _last_applied(merged):
        return
    metadata = dict(config.get("metadata") or {})
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    shown = {**config, "metadata": {**metadata, "annotations": annotations}}
    text = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    meta = merged["metadata"]
    merged["metadata"] = {**meta, "annotations": {**meta["annotations"], LAST_APPLIED: text}}


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()
