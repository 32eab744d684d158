"""The one narrow interface by which controllers reach objects.

`kubeapi.server` puts a metastore behind it; a client of a real Kubernetes API server can stand there instead. All
methods raise `kubeapi.errors.ApiError`. What is returned belongs to the caller and may be changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from kubeapi.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class WatchEventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: WatchEventType
    object: T
    """For DELETED: the last state, with the resourceVersion of the deletion."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: tuple[T, ...]
    resource_version: str
    """What the list is true at: watch from here to miss nothing."""


class Objects(Protocol):
    """`namespace` is None (or empty) for cluster-scoped kinds; for `list`, None means all namespaces."""

    async def get(self, model: type[T], namespace: str | None, name: str) -> T:
        """Raises ApiError 404."""

    async def list(self, model: type[T], namespace: str | None = None) -> Listing[T]:
        """Ordered by namespace, then name."""

    def watch(
        self, model: type[T], resource_version: str, namespace: str | None = None
    ) -> AsyncIterator[WatchEvent[T]]:
        """Every change after `resource_version`, in order. Raises ApiError 410 when history is not whole: relist."""

    async def create(self, obj: T) -> T:
        """Defaulted, validated, stored; returns what was stored. Raises ApiError 409, 422."""

    async def update(self, obj: T) -> T:
        """Replace all but status. Compare-and-swap when `metadata.resourceVersion` is set. Raises ApiError 404, 409,
        422."""

    async def update_status(self, obj: T) -> T:
        """Replace status (and nothing else), as `update`. A `metadata.uid` that is set must match (409)."""

    async def bind(self, namespace: str, name: str, node: str, *, uid: str | None = None) -> None:
        """Set a pod's node, once: the `binding` subresource. Raises ApiError 404, 409 when bound already."""

    async def delete(
        self,
        model: type[T],
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Mark for deletion, or remove at once where nothing holds it (grace 0, no finalizers).

        Raises ApiError 404, and 409 when `uid` does not match."""
