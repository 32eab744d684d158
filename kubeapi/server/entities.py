"""Between the store's rows and objects: keys, encoding, and each revision decoded once for all who read it.

A row's value is the object's JSON without `resourceVersion`, which is the row's revision.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any, Generic, TypeVar

import orjson

from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from metastore.api import Key, Put, Row

T = TypeVar("T", bound=KubeObject)


def key_of(resource: ResourceType[Any], namespace: str | None, name: str) -> Key:
    return Key(resource.key, (namespace or "") if resource.namespaced else "", name)


def encode(obj: KubeObject) -> bytes:
    data = obj.to_dict()
    data["metadata"].pop("resourceVersion", None)
    return orjson.dumps(data)


def encode_put(resource: ResourceType[Any], obj: KubeObject, expect: int | None) -> Put:
    """The store operation that writes `obj`; `expect` as in metastore.api.Put."""
    meta = obj.metadata
    return Put(key_of(resource, meta.namespace, meta.name), meta.uid or "", encode(obj), expect)


class Entity(Generic[T]):
    """One object at one revision, in whatever form is asked for. Shared between readers: never change what it gives."""

    def __init__(self, resource: ResourceType[T], row: Row) -> None:
        self.resource = resource
        self.row = row

    @classmethod
    def of_object(cls, resource: ResourceType[T], obj: T) -> Entity[T]:
        """For an object that no row holds as it is: a dry run's result, or what was just written."""
        meta = obj.metadata
        revision = int(meta.resource_version or 0)
        key = key_of(resource, meta.namespace, meta.name)
        return cls(resource, Row(key, meta.uid or "", revision, 0, encode(obj)))

    @cached_property
    def data(self) -> dict[str, Any]:
        return self._loaded()

    def _loaded(self) -> dict[str, Any]:
        data: dict[str, Any] = orjson.loads(self.row.value)
        if self.row.revision:
            data["metadata"]["resourceVersion"] = str(self.row.revision)
        return data

    @cached_property
    def item_json(self) -> bytes:
        """As an element of a list: without apiVersion and kind, which the list states."""
        return orjson.dumps({key: value for key, value in self.data.items() if key not in ("apiVersion", "kind")})

    @cached_property
    def obj(self) -> T:
        return self.resource.model.from_dict(self.data)

    @cached_property
    def json(self) -> bytes:
        return orjson.dumps(self.data)

    def copied(self) -> T:
        """For whoever wants to change it: nothing in it is shared, undeclared fields included."""
        return self.resource.model.from_dict(self._loaded())


class Entities:
    """A bounded cache of decoded rows, newest kept."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._known: OrderedDict[tuple[Key, int], Entity[Any]] = OrderedDict()

    def of(self, resource: ResourceType[T], row: Row) -> Entity[T]:
        at = (row.key, row.revision)
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = Entity(resource, row)
            if len(self._known) > self._capacity:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(at)
        return found
