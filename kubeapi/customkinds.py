"""From a CustomResourceDefinition to the declarations of the kinds it defines, one for each served version. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from kubeapi import custom, jsonpaths
from kubeapi.ages import UNKNOWN, age
from kubeapi.apiextensions import ColumnDefinition, CustomResourceDefinition, DefinedVersion
from kubeapi.custom import CustomObject
from kubeapi.errors import Cause
from kubeapi.jsonpaths import JsonPath
from kubeapi.kinds.common import SCALE, STATUS
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, VERBS, Cell, Column, ResourceType, Strategy, Subresource, Table
from kubeapi.scale import BUILT_IN, ScalePaths
from kubeapi.schemavalues import MISSING, ROOT, validate
from kubeapi.shapes import SchemaShape
from kubeapi.structural import Schema
from kubeapi.validation import validate_metadata, validate_metadata_update
from kubeapi.versions import priority

Kinds = tuple[ResourceType[CustomObject], ...]


def kinds(definition: CustomResourceDefinition) -> Kinds:
    """The version that clients prefer first. A definition that is being deleted lets nothing new be made."""
    served = sorted((item for item in definition.spec.versions if item.served), key=lambda item: priority(item.name))
    return tuple(_kind(definition, version) for version in served)


def stored_kind(definition: CustomResourceDefinition) -> ResourceType[CustomObject]:
    """As its objects are stored, whether anybody is served them or not."""
    return _kind(definition, next(item for item in definition.spec.versions if item.storage))


def _kind(definition: CustomResourceDefinition, version: DefinedVersion) -> ResourceType[CustomObject]:
    spec = definition.spec
    names = definition.status.accepted_names or spec.names
    schema = version.schema_of.to_dict() if version.schema_of else {}
    stored_as = f"{spec.group}/{spec.storage_version}"
    namespaced = spec.scope == "Namespaced"
    subresources = _subresources(version)
    going = definition.metadata.deletion_timestamp is not None
    return ResourceType(
        model=custom.model(f"{spec.group}/{version.name}", names.kind, schema, stored_as),
        kind=names.kind,
        plural=names.plural,
        singular=names.singular or names.kind.lower(),
        group=spec.group,
        version=version.name,
        namespaced=namespaced,
        short_names=tuple(names.short_names),
        categories=tuple(names.categories),
        verbs=tuple(verb for verb in VERBS if not going or verb != "create"),
        subresources=subresources,
        table=_table(version.additional_printer_columns),
        fields={_dotted(item.json_path): _getter(item.json_path) for item in version.selectable_fields},
        strategy=CustomStrategy(schema, namespaced, STATUS in subresources),
        shape=SchemaShape(schema),
        scale=_scale_paths(version),
        warning=_deprecation(definition, version),
    )


def _deprecation(definition: CustomResourceDefinition, version: DefinedVersion) -> str:
    if not version.deprecated:
        return ""
    return version.deprecation_warning or (
        f"{definition.spec.group}/{version.name} {definition.spec.names.kind} is deprecated"
    )


def _subresources(version: DefinedVersion) -> tuple[Subresource, ...]:
    declared = version.subresources
    if declared is None:
        return ()
    given = ((declared.scale, SCALE), (declared.status, STATUS))
    return tuple(item for wish, item in given if wish is not None)


def _scale_paths(version: DefinedVersion) -> ScalePaths:
    scale = version.subresources.scale if version.subresources else None
    if scale is None:
        return BUILT_IN
    return ScalePaths(
        jsonpaths.parse(scale.spec_replicas_path).names or (),
        jsonpaths.parse(scale.status_replicas_path).names or (),
        (jsonpaths.parse(scale.label_selector_path).names or ()) if scale.label_selector_path else ("",),
    )


def _dotted(path: str) -> str:
    return path.removeprefix(".")


def _getter(path: str) -> Callable[[CustomObject], str]:
    parsed = jsonpaths.parse(path)

    def get(obj: CustomObject) -> str:
        value = parsed.first(obj.to_dict())
        return "" if value is None else _text(value)

    return get


# Columns


def _table(definitions: Sequence[ColumnDefinition]) -> Table[CustomObject]:
    if not definitions:
        return Table((NAME_COLUMN, AGE_COLUMN))
    paths = [(jsonpaths.parse(item.json_path), item.type) for item in definitions]

    def cells(obj: CustomObject, now: datetime) -> Sequence[Cell]:
        data = obj.to_dict()
        return (obj.metadata.name, *(_cell(path, kind, data, now) for path, kind in paths))

    return Table((NAME_COLUMN, *map(_column, definitions)), cells)


def _column(item: ColumnDefinition) -> Column:
    description = item.description or f"Custom resource definition column (in JSONPath format): {item.json_path}"
    return Column(item.name, item.type, item.format or "", item.priority or 0, description)


def _cell(path: JsonPath, kind: str, data: Mapping[str, Any], now: datetime) -> Cell:
    value = path.first(data)
    if value is None:
        return None
    match kind:
        case "string":
            return _text(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _age(value, now)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number:
        return None
    return int(value) if kind == "integer" or isinstance(value, int) else _text(value)


def _age(value: Any, now: datetime) -> str:
    shown = age(value, now) if isinstance(value, str) else UNKNOWN
    return "<invalid>" if shown == UNKNOWN else shown


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


# What is particular to such kinds


class CustomStrategy(Strategy[CustomObject]):
    def __init__(self, schema: Schema, namespaced: bool, has_status: bool) -> None:
        self._schema, self._namespaced, self._has_status = schema, namespaced, has_status

    def default(self, obj: CustomObject) -> None:
        obj.prune()
        obj.fill()

    def prepare_create(self, obj: CustomObject) -> None:
        obj.metadata.generation = 1
        if self._has_status:
            obj.content.pop("status", None)

    def validate_create(self, obj: CustomObject) -> Sequence[Cause]:
        causes = validate_metadata(obj.metadata, namespaced=self._namespaced, custom=True)
        return [*causes, *self._valid(obj, MISSING)]

    def prepare_update(self, new: CustomObject, old: CustomObject) -> None:
        if self._has_status:
            _take(new.content, old.content, "status")
        if new.content != old.content:
            new.metadata.generation = (old.metadata.generation or 0) + 1

    def validate_update(self, new: CustomObject, old: CustomObject) -> Sequence[Cause]:
        return [*validate_metadata_update(new, old, custom=True), *self._valid(new, old.to_dict())]

    def prepare_status_update(self, new: CustomObject, old: CustomObject) -> None:
        kept = dict(old.content)
        _take(kept, new.content, "status")
        new.content.clear()
        new.content.update(kept)

    def validate_status_update(self, new: CustomObject, old: CustomObject) -> Sequence[Cause]:
        return self.validate_update(new, old)

    def _valid(self, obj: CustomObject, old: Any) -> list[Cause]:
        causes = validate(obj.to_dict(), self._schema, "", old)
        return [replace(cause, field=cause.field or ROOT) for cause in causes]


def _take(target: dict[str, Any], source: Mapping[str, Any], name: str) -> None:
    """`target`'s field as `source` has it."""
    target.pop(name, None)
    if name in source:
        target[name] = source[name]
