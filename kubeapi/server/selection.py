"""Which objects a list or watch is about: namespace, label selector, field selector (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubeapi import selectors
from kubeapi.resource import ResourceType
from kubeapi.selectors import FieldSelector, LabelSelector
from kubeapi.server.entities import Entity

_ANY = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    resource: ResourceType[Any]
    namespace: str | None = None
    labels: LabelSelector = selectors.EVERYTHING
    fields: FieldSelector = _ANY

    @property
    def everything(self) -> bool:
        """Whether it chooses by nothing that could change in an object."""
        return not self.labels.requirements and not self.fields.requirements

    def matches(self, entity: Entity[Any]) -> bool:
        if self.namespace and entity.row.key.namespace != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(entity.data["metadata"].get("labels") or {}):
            return False
        return not self.fields.requirements or self.fields.matches(entity.obj, self.resource)


def parse(resource: ResourceType[Any], namespace: str | None, labels: str, fields: str) -> Selection:
    """Raises ApiError 400."""
    return Selection(
        resource, namespace or None, selectors.parse_labels(labels), selectors.parse_fields(fields, resource)
    )
