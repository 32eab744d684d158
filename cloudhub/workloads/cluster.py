"""What planners see: mirrors of the kinds that workloads are made of, and who controls whom among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from cloudhub.mirror import Identity, Mirror
from kubeapi.meta import KubeObject, OwnerReference

T = TypeVar("T", bound=KubeObject)


def controller_of(obj: KubeObject) -> OwnerReference | None:
    return next((item for item in obj.metadata.owner_references if item.controller), None)


class Owned:
    """One kind's objects by the UID of their controller; those without one by namespace."""

    def __init__(self, mirror: Mirror[Any]) -> None:
        self.mirror = mirror
        self._by_owner: defaultdict[str, dict[str, KubeObject]] = defaultdict(dict)
        self._place: dict[str, str] = {}
        mirror.listen(self._changed)

    def _changed(self, obj: KubeObject) -> None:
        meta = obj.metadata
        uid = meta.uid or ""
        before = self._place.pop(uid, None)
        if before is not None:
            self._by_owner[before].pop(uid, None)
            if not self._by_owner[before]:
                del self._by_owner[before]
        current = self.mirror.items.get((meta.namespace or "", meta.name))
        if current is None or current.metadata.uid != uid:
            return
        owner = controller_of(current)
        place = owner.uid if owner else f"/{meta.namespace}"
        self._by_owner[place][uid] = current
        self._place[uid] = place

    def by(self, uid: str) -> list[Any]:
        """In order of name, so that plans do not depend on the order in which things were heard of."""
        return sorted(self._by_owner.get(uid, {}).values(), key=lambda obj: obj.metadata.name)

    def nobodys(self, namespace: str) -> list[Any]:
        return self.by(f"/{namespace}")


class Cluster:
    def __init__(self, mirrors: Mapping[type[Any], Mirror[Any]], owned: Iterable[type[Any]]) -> None:
        self._mirrors = mirrors
        self._owned = {model: Owned(mirrors[model]) for model in owned}

    def mirror(self, model: type[T]) -> Mirror[T]:
        return self._mirrors[model]

    def all(self, model: type[T]) -> list[T]:
        items = self._mirrors[model].items
        return [items[key] for key in sorted(items)]

    def find(self, model: type[T], identity: Identity) -> T | None:
        return self._mirrors[model].items.get(identity)

    def owned(self, model: type[T], owner: KubeObject) -> list[T]:
        """What `owner` controls."""
        return self._owned[model].by(owner.metadata.uid or "")

    def claimable(self, model: type[T], owner: KubeObject) -> list[T]:
        """What `owner` controls, and what nobody controls in its namespace."""
        owned = self._owned[model]
        return [*owned.by(owner.metadata.uid or ""), *owned.nobodys(owner.metadata.namespace or "")]

    async def synced(self) -> None:
        for mirror in self._mirrors.values():
            await mirror.synced.wait()

    async def shows(self, written: KubeObject) -> None:
        """Until what was just written is seen here: planning before that would do things twice."""
        mirror = self._mirrors.get(type(written))
        if mirror is not None:
            await mirror.reached(int(written.metadata.resource_version or 0))

    async def shows_end(self, deleted: KubeObject) -> None:
        """Until a deletion just asked for is seen here: gone, or marked."""
        mirror = self._mirrors.get(type(deleted))
        if mirror is None:
            return
        meta = deleted.metadata

        def ending() -> bool:
            seen = mirror.items.get((meta.namespace or "", meta.name))
            return seen is None or seen.metadata.uid != meta.uid or bool(seen.metadata.deletion_timestamp)

        while not ending():
            await mirror.moved()
