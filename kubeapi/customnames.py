"""Which of a CustomResourceDefinition's names it gets, and what its conditions say of that. Pure.

Names belong to whoever had them first in the group (apiextensions-apiserver's pkg/controller/status).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubeapi.apiextensions import CustomResourceDefinition, Names
from kubeapi.meta import Condition


@dataclass(frozen=True, slots=True)
class Taken:
    """Within a group."""

    resources: frozenset[str] = frozenset()
    """Plurals, singulars, short names."""
    kinds: frozenset[str] = frozenset()
    """Kinds and kinds of lists."""


def taken(names: Iterable[Names]) -> Taken:
    resources: set[str] = set()
    kinds: set[str] = set()
    for item in names:
        resources |= {item.plural, item.singular or "", *item.short_names}
        kinds |= {item.kind, item.list_kind or ""}
    return Taken(frozenset(resources - {""}), frozenset(kinds - {""}))


@dataclass(frozen=True, slots=True)
class Conflict:
    reason: str
    message: str


def accept(wanted: Names, accepted: Names | None, by_others: Taken) -> tuple[Names, Conflict | None]:
    """What is free of the names wanted; for what is not, what was accepted before stays. The last conflict is told."""
    result = (accepted or Names()).copied()
    conflict = None
    for field, name, held in (
        ("plural", wanted.plural, by_others.resources),
        ("singular", wanted.singular, by_others.resources),
        ("kind", wanted.kind, by_others.kinds),
        ("list_kind", wanted.list_kind, by_others.kinds),
    ):
        if name in held:
            what = "ListKind" if field == "list_kind" else field.capitalize()
            conflict = Conflict(f"{what}Conflict", f'"{name}" is already in use')
        else:
            setattr(result, field, name)
    doubled = [name for name in wanted.short_names if name in by_others.resources]
    if doubled:
        conflict = Conflict("ShortNamesConflict", " ".join(f'"{name}" is already in use' for name in doubled))
    else:
        result.short_names = list(wanted.short_names)
    result.categories = list(wanted.categories)
    return result, conflict


def with_names(definition: CustomResourceDefinition, by_others: Taken, now: str) -> CustomResourceDefinition:
    """The definition with its accepted names and conditions. Once established it stays so."""
    changed = definition.copied()
    status = changed.status
    status.accepted_names, conflict = accept(definition.spec.names, status.accepted_names, by_others)
    established = status.is_true("Established")
    if conflict:
        _set(changed, "NamesAccepted", "False", conflict.reason, conflict.message, now)
        if not established:
            _set(changed, "Established", "False", "NotAccepted", "not all names are accepted", now)
        return changed
    _set(changed, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    if not established:
        _set(changed, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    return changed


def with_end(definition: CustomResourceDefinition, now: str) -> CustomResourceDefinition:
    changed = definition.copied()
    _set(changed, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)
    return changed


def _set(definition: CustomResourceDefinition, kind: str, status: str, reason: str, message: str, now: str) -> None:
    before = definition.status.condition(kind)
    since = before.last_transition_time if before and before.status == status else now
    condition = Condition(type=kind, status=status, last_transition_time=since, reason=reason, message=message)
    conditions = definition.status.conditions
    if before:
        conditions[conditions.index(before)] = condition
    else:
        conditions.append(condition)
