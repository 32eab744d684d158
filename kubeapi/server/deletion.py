"""What a DELETE request means for an object (pure): remove it now, mark it, or leave it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeVar

from kubeapi import errors
from kubeapi.clock import later, timestamp
from kubeapi.core import Namespace
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType

T = TypeVar("T", bound=KubeObject)

_IMMORTAL = frozenset({"default", "kube-public", "kube-system", "copepod-system"})
"""Namespaces that no cluster is without (the reference's NamespaceLifecycle admission, and our own)."""

RETURNED = frozenset({"pods", "serviceaccounts", "persistentvolumeclaims", "services"})
"""Kinds whose deletion is answered with the object; of the others, once they are gone, with a Status (as in the
reference)."""

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
"""Finalizers that the garbage collector serves: dependents are let go first, or deleted first."""


class Propagation(Enum):
    """What becomes of an object's dependents (metav1.DeletionPropagation)."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    propagation: Propagation | None = None
    """None: as its finalizers say already, else in the background."""


class Verdict(Enum):
    REMOVE = "remove"
    MARK = "mark"
    """The object was changed: store it."""
    KEEP = "keep"
    """It is being deleted already, and this request changes nothing."""


def check_preconditions(kind: str, obj: KubeObject, options: DeleteOptions) -> None:
    """Raises ApiError 409."""
    meta = obj.metadata
    if options.uid is not None and options.uid != meta.uid:
        raise errors.uid_mismatch(kind, meta.name, options.uid, meta.uid or "")
    if options.resource_version is not None and options.resource_version != meta.resource_version:
        raise errors.version_mismatch(kind, meta.name, options.resource_version, meta.resource_version or "")


def held(obj: KubeObject) -> bool:
    """Whether finalizers keep it, a namespace's own (`spec.finalizers`) among them."""
    return bool(obj.metadata.finalizers) or (isinstance(obj, Namespace) and bool(obj.spec.finalizers))


def released(obj: KubeObject) -> bool:
    """Marked, and nothing waits for it any more: an update that brought this about removes the object."""
    meta = obj.metadata
    return meta.deletion_timestamp is not None and not held(obj) and not meta.deletion_grace_period_seconds


def plan(resource: ResourceType[T], obj: T, options: DeleteOptions, now: datetime) -> Verdict:
    """Decides, and marks `obj` where that is the verdict. Raises ApiError 403, 409."""
    if isinstance(obj, Namespace) and obj.metadata.name in _IMMORTAL:
        raise errors.forbidden(resource.plural, obj.metadata.name, "this namespace may not be deleted")
    check_preconditions(resource.kind, obj, options)
    asked = options.grace_seconds
    if asked is not None and asked < 0:
        asked = 1  # as the reference reads a negative period
    grace = resource.strategy.grace_seconds(obj, asked)
    meta = obj.metadata
    other_propagation = _set_propagation(obj, options.propagation)
    if grace <= 0 and not held(obj):
        return Verdict.REMOVE
    if meta.deletion_timestamp is not None and grace >= (meta.deletion_grace_period_seconds or 0):
        return Verdict.MARK if other_propagation else Verdict.KEEP
    if meta.deletion_timestamp is None and meta.generation:
        meta.generation += 1
    meta.deletion_timestamp = timestamp(later(now, grace))
    meta.deletion_grace_period_seconds = grace
    if isinstance(obj, Namespace):
        obj.status.phase = "Terminating"
    return Verdict.MARK


def _set_propagation(obj: KubeObject, wished: Propagation | None) -> bool:
    """As finalizers; returns whether they changed."""
    if wished is None:
        return False
    before = obj.metadata.finalizers
    wanted = {Propagation.FOREGROUND: [FOREGROUND], Propagation.ORPHAN: [ORPHAN]}.get(wished, [])
    if [item for item in before if item in (ORPHAN, FOREGROUND)] == wanted:
        return False
    obj.metadata.finalizers = [*(item for item in before if item not in (ORPHAN, FOREGROUND)), *wanted]
    return True
