"""Objects in the form that the client asked for: as they are, as table rows, or metadata only (pure)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from kubeapi import errors
from kubeapi.resource import ResourceType, Table
from kubeapi.server.entities import Entity, EntityPage
from kubeapi.server.negotiation import Form, Representation

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class ListMeta:
    revision: int
    """0: such objects have none."""
    token: str = ""
    """Where the next page continues; empty on the last."""
    remaining: int | None = None

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"resourceVersion": str(self.revision)} if self.revision else {}
        if self.token:
            data["continue"] = self.token
            if self.remaining is not None:
                data["remainingItemCount"] = self.remaining
        return data


class Renderer:
    """For one request: `now` dates the ages in tables; `include` is the query's includeObject."""

    def __init__(
        self, resource: ResourceType[Any], representation: Representation, now: datetime, include: str = ""
    ) -> None:
        self._resource = resource
        self._representation = representation
        self._form = representation.form
        self._meta_version = f"meta.k8s.io/{representation.version}"
        self._now = now
        self._include = include or "Metadata"

    @property
    def form(self) -> Hashable:
        """Renderers of one kind and form say the same of the same at the same time."""
        return (self._form, self._meta_version, self._include)

    @property
    def begins_differently(self) -> bool:
        """Whether the first event is not as it would be later."""
        return self._form is Form.TABLE

    def at(self, now: datetime) -> Renderer:
        return Renderer(self._resource, self._representation, now, self._include)

    def one(self, entity: Entity[Any]) -> Any:
        if self._form is Form.TABLE:
            return self._table([entity], {"resourceVersion": str(entity.row.revision)})
        if self._form is Form.METADATA:
            return self._metadata(entity)
        if self._form is Form.METADATA_LIST:
            raise errors.not_acceptable()
        return orjson.Fragment(entity.json)

    def list(self, entities: Sequence[Entity[Any]], meta: ListMeta) -> Any:
        if self._form is Form.TABLE:
            return self._table(entities, meta.to_dict())
        if self._form is Form.METADATA:
            raise errors.not_acceptable()
        kind, version = f"{self._resource.kind}List", self._resource.api_version
        items: Any
        if self._form is Form.METADATA_LIST:
            kind, version = Form.METADATA_LIST.value, self._meta_version
            items = [self._metadata(entity) for entity in entities]
        else:
            found = entities if isinstance(entities, EntityPage) else EntityPage(entities)
            items = orjson.Fragment(found.items_json)
        return {"kind": kind, "apiVersion": version, "metadata": meta.to_dict(), "items": items}

    def event(self, kind: str, entity: Entity[Any], *, first: bool) -> Any:
        """A watch event. A table names its columns only in the `first`."""
        if self._form is Form.TABLE:
            meta = {"resourceVersion": str(entity.row.revision)}
            return {"type": kind, "object": self._table([entity], meta, columns=first)}
        if self._form in (Form.METADATA, Form.METADATA_LIST):
            return {"type": kind, "object": self._metadata(entity)}
        return {"type": kind, "object": orjson.Fragment(entity.json)}

    def bookmark(self, revision: int, *, initial_end: bool) -> Any:
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        obj: dict[str, Any]
        if self._form is Form.TABLE:
            obj = self._table([], meta, columns=False)
        elif self._form in (Form.METADATA, Form.METADATA_LIST):
            obj = {"kind": Form.METADATA.value, "apiVersion": self._meta_version, "metadata": meta}
        else:
            obj = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        return {"type": "BOOKMARK", "object": obj}

    def _table(self, entities: Sequence[Entity[Any]], meta: dict[str, Any], *, columns: bool = True) -> dict[str, Any]:
        table = self._resource.table.of(entity.obj for entity in entities)
        return {
            "kind": "Table",
            "apiVersion": self._meta_version,
            "metadata": meta,
            "columnDefinitions": [column.to_dict() for column in table.columns] if columns else None,
            "rows": [self._row(table, entity) for entity in entities],
        }

    def _row(self, table: Table[Any], entity: Entity[Any]) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": list(table.cells(entity.obj, self._now))}
        if self._include == "Object":
            row["object"] = orjson.Fragment(entity.json)
        elif self._include == "Metadata":
            row["object"] = self._metadata(entity)
        return row

    def _metadata(self, entity: Entity[Any]) -> dict[str, Any]:
        return {
            "kind": Form.METADATA.value,
            "apiVersion": self._meta_version,
            "metadata": entity.data["metadata"],
        }
