"""What a write makes of `metadata.managedFields` (pure): `kubeapi.managedfields`, for declared kinds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubeapi import errors, fields, managedfields
from kubeapi.errors import Cause
from kubeapi.fieldwalk import Data
from kubeapi.managedfields import Endpoint, Manager
from kubeapi.meta import KubeModel, KubeObject, ManagedFields
from kubeapi.resource import ResourceType

INTERNAL = "copepod"
"""The manager of what this process writes by itself."""
MAX_NAME = 128


def endpoint(resource: ResourceType[Any], subresource: str) -> Endpoint:
    return Endpoint(resource.shape, subresource, resource.subresource("status") is not None)


def created(resource: ResourceType[Any], new: KubeObject, by: str, now: str) -> ManagedFields:
    """Of a new object that is defaulted, and not yet completed by admission. A client that brings entries (out of a
    backup) keeps them."""
    given = new.metadata.managed_fields
    entries = managedfields.decode(given) if managedfields.is_usable(given) else ()
    empty = _empty(type(new))
    who = Manager(by, resource.api_version)
    found = managedfields.update(empty, new.to_dict(), entries, who, endpoint(resource, ""), now)
    return ManagedFields(managedfields.encode(found))


@lru_cache(256)
def _empty(model: type[KubeObject]) -> Data:
    return model().to_dict()


def updated(
    resource: ResourceType[Any],
    subresource: str,
    old: Data,
    new: KubeObject,
    given: list[dict[str, Any]],
    by: str,
    now: str,
) -> list[dict[str, Any]]:
    """`given` are the entries in the request: a client may write them, except by a subresource; what this process
    writes may be of an old copy, and is never meant so. An object that nobody's
    writes were tracked of (it was made before, or its managers were reset) stays so until an apply."""
    before: list[dict[str, Any]] = old["metadata"].get("managedFields") or []
    base = before
    if by != INTERNAL and not subresource and given != before:
        if managedfields.is_reset(given):
            return ManagedFields()
        if managedfields.is_usable(given):
            base = given
    if not base:
        return ManagedFields(before)
    entries = managedfields.decode(base)
    who = Manager(by, resource.api_version, subresource)
    if subresource == "status":
        # The most frequent of writes: only that part of the object is looked at.
        old, data = _status(old), _status({"status": _wire_status(new)})
    else:
        data = new.to_dict()
    found = managedfields.update(old, data, entries, who, endpoint(resource, subresource), now)
    return ManagedFields(before if found is entries and base is before else managedfields.encode(found))


def _status(data: Data) -> Data:
    return {"status": data.get("status") or {}}


def _wire_status(obj: KubeObject) -> Any:
    status = getattr(obj, "status", None)
    return status.to_dict() if isinstance(status, KubeModel) else status


@dataclass(frozen=True, slots=True)
class Author:
    by: str | None
    """The manager; None = the object says itself who owns what (an apply)."""
    now: str
    through: str = ""

    def own(
        self, resource: ResourceType[Any], subresource: str, old: Data, new: KubeObject, given: list[dict[str, Any]]
    ) -> None:
        meta = new.metadata
        meta.managed_fields = given
        if self.by is not None:
            meta.managed_fields = updated(resource, subresource or self.through, old, new, given, self.by, self.now)


def name_problems(name: str) -> list[Cause]:
    """Of a `fieldManager` as sent."""
    causes = [fields.too_long("fieldManager", MAX_NAME)] if len(name.encode()) > MAX_NAME else []
    for position, character in enumerate(name):
        if not character.isprintable():
            code = f"U+{ord(character):04X}"
            causes.append(fields.invalid("fieldManager", name, f"invalid character {code} (at position {position})"))
            break
    return causes


def writer(name: str, user_agent: str) -> str:
    """The manager of an update: as given, else the client's program. Empty parts are `unknown`."""
    if name:
        return name
    program = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return program.encode()[:MAX_NAME].decode(errors="ignore") or "unknown"


def check_options(name: str, kind: str) -> None:
    """Of a create or update. Raises ApiError 422."""
    causes = name_problems(name)
    if causes:
        raise errors.invalid(kind, "", causes, "meta.k8s.io")


def check_patch_options(name: str, *, apply: bool, force: bool | None) -> None:
    """Raises ApiError 422."""
    causes = []
    if apply and not name:
        causes.append(fields.required("fieldManager", "is required for apply patch"))
    if not apply and force is not None:
        causes.append(fields.forbidden("force", "may not be specified for non-apply patch"))
    causes += name_problems(name)
    if causes:
        raise errors.invalid("PatchOptions", "", causes, "meta.k8s.io")
