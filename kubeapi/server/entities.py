"""Between the store's rows and objects: keys, encoding, and each revision decoded once for all who read it.

A row's value is the object's JSON without `resourceVersion`, which is the row's revision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

import orjson

from kubeapi.custom import CustomObject
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from metastore.api import Key, Put, Row

T = TypeVar("T", bound=KubeObject)


def key_of(resource: ResourceType[Any], namespace: str | None, name: str) -> Key:
    return Key(resource.key, (namespace or "") if resource.namespaced else "", name)


def encode(obj: KubeObject) -> bytes:
    data = obj.to_dict()
    if isinstance(obj, CustomObject):
        data["apiVersion"] = obj.stored_as
    data["metadata"].pop("resourceVersion", None)
    return orjson.dumps(data)


def encode_put(resource: ResourceType[Any], obj: KubeObject, expect: int | None) -> Put:
    """The store operation that writes `obj`; `expect` as in metastore.api.Put."""
    meta = obj.metadata
    return Put(key_of(resource, meta.namespace, meta.name), meta.uid or "", encode(obj), expect)


@lru_cache(256)
def _head(api_version: str, kind: str) -> bytes:
    """How `encode` begins an object of that kind, up to what its metadata holds."""
    return f'{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{'.encode()


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
        if "apiVersion" in data:
            data["apiVersion"] = self.resource.api_version  # the store keeps one version of several
        if self.row.revision:
            data["metadata"]["resourceVersion"] = str(self.row.revision)
        return data

    @cached_property
    def item_json(self) -> bytes:
        """As an element of a list: without apiVersion and kind, which the list states."""
        if self._rest is not None:
            return b'{"metadata":{%b%b' % (self._revision_json, self._rest)
        return orjson.dumps({key: value for key, value in self.data.items() if key not in ("apiVersion", "kind")})

    @cached_property
    def obj(self) -> T:
        return self.resource.model.from_dict(self.data)

    @cached_property
    def json(self) -> bytes:
        if self._rest is not None:
            return b"%b%b%b" % (_head(self.resource.api_version, self.resource.kind), self._revision_json, self._rest)
        return orjson.dumps(self.data)

    @cached_property
    def _rest(self) -> bytes | None:
        """The stored bytes after the metadata's opening brace: answers are put together of them, without reading them.
        None where they do not begin as we write them, or may hold a resourceVersion."""
        value, head = self.row.value, _head(self.resource.api_version, self.resource.kind)
        if value.startswith(head) and value.startswith(b'"', len(head)) and b'"resourceVersion"' not in value:
            return value[len(head) :]
        return None

    @property
    def _revision_json(self) -> bytes:
        return b'"resourceVersion":"%d",' % self.row.revision if self.row.revision else b""

    def copied(self) -> T:
        """For whoever wants to change it: nothing in it is shared, undeclared fields included."""
        return self.resource.model.from_dict(self._loaded())


class EntityPage(tuple[Entity[T], ...]):
    """What a list found."""

    @cached_property
    def items_json(self) -> bytes:
        """All of them, as a JSON list of items."""
        return b"[%b]" % b",".join([entity.item_json for entity in self])


class Entities:
    """A bounded cache of decoded rows, newest kept, and of the pages they were listed on. A revision belongs to one
    row."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._known: OrderedDict[int, Entity[Any]] = OrderedDict()
        self._pages: OrderedDict[tuple[str, str | None], tuple[Sequence[Row], EntityPage[Any]]] = OrderedDict()
        self._paged = 0

    def of(self, resource: ResourceType[T], row: Row) -> Entity[T]:
        known, revision = self._known, row.revision
        found = known.get(revision)
        # A store that was restored gives a revision to another row; a custom kind may be declared anew.
        if found is not None and found.resource is resource and (found.row is row or found.row == row):
            known.move_to_end(revision)
            found.row = row  # equal; the next comparison is one of identity
            return found
        found = known[revision] = Entity(resource, row)
        if len(known) > self._capacity:
            known.popitem(last=False)
        return found

    def page(self, resource: ResourceType[T], namespace: str | None, rows: tuple[Row, ...]) -> EntityPage[T]:
        """The store gives the same tuple of rows as long as none of them changes."""
        at = (resource.key, namespace)
        held, page = self._pages.pop(at, ((), EntityPage()))
        self._paged -= len(held)
        if held is not rows or (page and page[0].resource is not resource):
            page = EntityPage([self.of(resource, row) for row in rows])
        if len(rows) <= self._capacity:
            self._pages[at] = (rows, page)
            self._paged += len(rows)
            while self._paged > self._capacity:
                _, (gone, _) = self._pages.popitem(last=False)
                self._paged -= len(gone)
        return page
