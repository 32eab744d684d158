"""From what a client wishes to what may be stored: system metadata, defaults, ownership, validation (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kubeapi import errors
from kubeapi.errors import Cause
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.server import binding
from kubeapi.server.entities import Entity
from kubeapi.server.ownership import Author

T = TypeVar("T", bound=KubeObject)


def check_identity(resource: ResourceType[T], wish: T, current: T) -> None:
    wanted, found = wish.metadata, current.metadata
    if wanted.name != found.name:
        message = f"the name of the object ({wanted.name}) does not match the name on the URL ({found.name})"
        raise errors.bad_request(message)
    if resource.namespaced and wanted.namespace != found.namespace:
        raise errors.bad_request("the namespace of the object does not match the namespace on the URL")
    if wanted.uid and wanted.uid != found.uid:
        message = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {found.uid}"
        raise errors.conflict(resource.plural, found.name, message, resource.group)
    if wanted.resource_version and wanted.resource_version != found.resource_version:
        raise errors.conflict(resource.plural, found.name, group=resource.group)


def prepared(resource: ResourceType[T], subresource: str, new: T, entity: Entity[T], author: Author) -> T:
    """What may be stored for the wish `new`. Raises ApiError 422."""
    old, strategy = entity.obj, resource.strategy
    given = new.metadata.managed_fields
    _keep_system_metadata(new, old)
    if subresource == binding.SUBRESOURCE:
        return new
    if subresource:
        _keep_all_metadata(new, old)
    strategy.align(subresource, new, old)
    strategy.default(new)
    if not subresource:
        author.own(resource, subresource, entity.data, new, given)
        strategy.prepare_update(new, old)
        refuse(resource, new, strategy.validate_update(new, old))
    elif subresource == "status":
        author.own(resource, subresource, entity.data, new, given)
        strategy.prepare_status_update(new, old)
        refuse(resource, new, strategy.validate_status_update(new, old))
    else:
        new = strategy.prepare_subresource(subresource, new, old)
        author.own(resource, subresource, entity.data, new, given)
        refuse(resource, new, strategy.validate_subresource(subresource, new, old))
    return new


def _keep_system_metadata(new: T, old: T) -> None:
    """What only the server sets."""
    kept, was = new.metadata, old.metadata
    kept.name, kept.namespace, kept.uid = was.name, was.namespace, was.uid
    kept.generate_name = was.generate_name
    kept.creation_timestamp = was.creation_timestamp
    kept.deletion_timestamp = was.deletion_timestamp
    kept.deletion_grace_period_seconds = was.deletion_grace_period_seconds
    kept.generation = was.generation
    kept.managed_fields = was.managed_fields


def _keep_all_metadata(new: T, old: T) -> None:
    """A subresource changes its own part only; the reference lets `status` change labels and annotations, too."""
    new.metadata = old.metadata.copied()


def refuse(resource: ResourceType[T], obj: T, causes: Sequence[Cause]) -> None:
    if causes:
        raise errors.invalid(resource.kind, obj.metadata.name, causes, resource.group)
