"""Admission that must look at other objects, between a kind's own validation and the write. The rules are pure
(`kubeapi.admission`); this fetches what they look at."""

from __future__ import annotations

from kubeapi import admission
from kubeapi.core import LimitRange, Node, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.objects import Objects

RESIZE = "resize"


class Admission:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def complete(self, obj: KubeObject) -> None:
        """Fill in what the namespace's policies give to a new object."""
        if isinstance(obj, Pod):
            admission.apply_limit_defaults(obj, await self._limit_ranges(obj))

    async def admit(self, subresource: str, new: KubeObject, old: KubeObject | None) -> None:
        """Raises ApiError 403."""
        if not isinstance(new, Pod):
            return
        if old is None:
            admission.admit_limits(new, await self._limit_ranges(new))
        elif subresource == RESIZE and isinstance(old, Pod) and new.spec != old.spec:
            admission.admit_resize(new, old, await self._node(new.spec.node_name))
            admission.admit_limits(new, await self._limit_ranges(new))

    async def _limit_ranges(self, pod: Pod) -> tuple[LimitRange, ...]:
        return (await self._objects.list(LimitRange, pod.metadata.namespace)).items

    async def _node(self, name: str | None) -> Node | None:
        if not name:
            return None
        try:
            return await self._objects.get(Node, None, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
