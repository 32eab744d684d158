"""Admission as a chain: plug-ins that may change what is asked for, then plug-ins that may only refuse it.

The order is the reference's (kube-apiserver's RecommendedPluginOrder): what is built in comes before policies, those
before webhooks; what a namespace has used up is looked at last, around the write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.server.caller import Caller


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(slots=True)
class Request:
    """A write, as plug-ins see it."""

    operation: Operation
    resource: ResourceType[Any]
    caller: Caller
    new: KubeObject | None
    """The wish. A mutating plug-in changes it, or puts another in its place. None: a deletion."""
    old: KubeObject | None = None
    """As it is; never to be changed. None: a creation."""
    subresource: str = ""
    dry_run: bool = False

    @property
    def obj(self) -> KubeObject:
        """Whichever there is: what the request is about."""
        found = self.old if self.new is None else self.new
        assert found is not None  # a request without any object asks for nothing
        return found

    @property
    def namespace(self) -> str:
        return self.obj.metadata.namespace or ""


class Mutating(Protocol):
    async def admit(self, request: Request) -> None:
        """Changes `request.new`. May be asked again about what others have changed since. Raises ApiError."""


class Validating(Protocol):
    async def validate(self, request: Request) -> None:
        """Raises ApiError for what is not to be."""


@dataclass(frozen=True, slots=True)
class Chain:
    mutating: Sequence[Mutating] = ()
    validating: Sequence[Validating] = ()

    async def mutate(self, request: Request) -> None:
        for plugin in self.mutating:
            await plugin.admit(request)

    async def validate(self, request: Request) -> None:
        for plugin in self.validating:
            await plugin.validate(request)
