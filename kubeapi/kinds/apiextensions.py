"""CustomResourceDefinition (apiextensions-apiserver's pkg/apis/apiextensions/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from kubeapi import jsonpaths, names, schemacheck, schemarules
from kubeapi.apiextensions import (
    APPROVAL,
    CLEANUP,
    GROUP,
    ColumnDefinition,
    Conversion,
    CustomResourceDefinition,
    CustomResourceDefinitionStatus,
    DefinedVersion,
    JSONSchemaProps,
    ScaleSubresource,
)
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, duplicate, forbidden, invalid, not_supported, required
from kubeapi.jsonpaths import BadPath, JsonPath
from kubeapi.kinds.common import STATUS, ObjectStrategy
from kubeapi.resource import NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.schemacheck import RuleCheck, refuse_rules

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_PROTECTED = ("k8s.io", "kubernetes.io")
_VERSIONS_MAX = 50


def declaration(built_in: frozenset[str], rules: RuleCheck = refuse_rules) -> ResourceType[CustomResourceDefinition]:
    """`built_in`: keys of the kinds (`pods`, `leases.coordination.k8s.io`) that cannot be defined anew."""
    return ResourceType(
        model=CustomResourceDefinition,
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        singular="customresourcedefinition",
        group=GROUP,
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(STATUS,),
        table=Table((NAME_COLUMN, Column("Created At", type="date")), _cells),
        strategy=_Strategy(lambda obj: [*_not_built_in(obj, built_in), *validate(obj, rules)]),
    )


def _cells(obj: CustomResourceDefinition, _now: datetime) -> Sequence[Cell]:
    return (obj.metadata.name, obj.metadata.creation_timestamp)


class _Strategy(ObjectStrategy[CustomResourceDefinition]):
    def __init__(self, validate: Callable[[CustomResourceDefinition], Sequence[Cause]]) -> None:
        super().__init__(namespaced=False, validate=validate, compare=compare, default=default)

    def prepare_create(self, obj: CustomResourceDefinition) -> None:
        super().prepare_create(obj)
        obj.status = CustomResourceDefinitionStatus(stored_versions=[obj.spec.storage_version])
        if CLEANUP not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(CLEANUP)

    def prepare_update(self, new: CustomResourceDefinition, old: CustomResourceDefinition) -> None:
        super().prepare_update(new, old)
        new.status = old.status.copied()
        if new.spec.storage_version not in new.status.stored_versions:
            new.status.stored_versions.append(new.spec.storage_version)


def default(obj: CustomResourceDefinition) -> None:
    spec = obj.spec
    spec.names.singular = spec.names.singular or spec.names.kind.lower()
    spec.names.list_kind = spec.names.list_kind or f"{spec.names.kind}List"
    spec.conversion = spec.conversion or Conversion(strategy="None")
    if not spec.preserve_unknown_fields:
        spec.preserve_unknown_fields = None


# Validation


def _not_built_in(obj: CustomResourceDefinition, built_in: frozenset[str]) -> list[Cause]:
    key = f"{obj.spec.names.plural}.{obj.spec.group}"
    if key not in built_in:
        return []
    return [invalid("spec.names.plural", obj.spec.names.plural, f"{key} is built into this server")]


def validate(obj: CustomResourceDefinition, rules: RuleCheck = refuse_rules) -> list[Cause]:
    """All but the metadata."""
    spec = obj.spec
    causes = []
    if obj.metadata.name != f"{spec.names.plural}.{spec.group}":
        causes.append(invalid("metadata.name", obj.metadata.name, 'must be spec.names.plural+"."+spec.group'))
    causes += _group(obj)
    if spec.scope not in ("Cluster", "Namespaced"):
        path = "spec.scope"
        causes.append(not_supported(path, spec.scope, ("Cluster", "Namespaced")) if spec.scope else required(path))
    causes += _names(obj)
    causes += _versions(obj)
    causes += _conversion(obj)
    if spec.preserve_unknown_fields:
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        causes.append(invalid("spec.preserveUnknownFields", True, detail))
    for index, version in enumerate(spec.versions):
        causes += _version(version, f"spec.versions[{index}]", rules)
    return causes


def _group(obj: CustomResourceDefinition) -> Iterator[Cause]:
    group = obj.spec.group
    if not group:
        yield required("spec.group")
        return
    problems = names.dns_subdomain(group)
    yield from (invalid("spec.group", group, problem) for problem in problems)
    if not problems and "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    approved = obj.metadata.annotations.get(APPROVAL, "")
    if any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        path = f"metadata.annotations[{APPROVAL}]"
        if not approved:
            detail = (
                f'protected groups must have approval annotation "{APPROVAL}", '
                "see https://github.com/kubernetes/enhancements/pull/1111"
            )
            yield required(path, detail)
        elif not approved.startswith(("unapproved", "https://")):
            detail = (
                "protected groups must have approval annotation "
                f'"{APPROVAL}" with either a URL or a reason starting with "unapproved", '
                "see https://github.com/kubernetes/enhancements/pull/1111"
            )
            yield invalid(path, approved, detail)


def _names(obj: CustomResourceDefinition) -> Iterator[Cause]:
    named = obj.spec.names
    for field, value in (("plural", named.plural), ("singular", named.singular or "")):
        yield from _label(f"spec.names.{field}", value)
    for index, short in enumerate(named.short_names):
        yield from _label(f"spec.names.shortNames[{index}]", short)
    for field, value in (("kind", named.kind), ("listKind", named.list_kind or "")):
        if not named.kind:
            yield required(f"spec.names.{field}")
        else:
            yield from _label(f"spec.names.{field}", value, value.lower())
    if named.kind and named.kind == named.list_kind:
        yield invalid("spec.names.listKind", named.list_kind, "kind and listKind may not be the same")
    for index, category in enumerate(named.categories):
        yield from _label(f"spec.names.categories[{index}]", category)


def _label(path: str, value: str, checked: str | None = None) -> Iterator[Cause]:
    checked = value if checked is None else checked
    if not value:
        yield required(path)
    elif not _DNS1035.fullmatch(checked):
        yield invalid(path, value, _DNS1035_MESSAGE)
    elif len(checked) > 63:
        yield invalid(path, value, "must be no more than 63 bytes")


def _versions(obj: CustomResourceDefinition) -> Iterator[Cause]:
    versions = obj.spec.versions
    shown = [version.to_dict() for version in versions]
    if not versions:
        yield required("spec.versions", "must have at least one version")
        return
    if len(versions) > _VERSIONS_MAX:
        yield forbidden("spec.versions", f"at most {_VERSIONS_MAX} versions are served")
    if len({version.name for version in versions}) != len(versions):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    for index, name in enumerate(obj.status.stored_versions):
        if name not in {version.name for version in versions}:
            yield invalid(f"status.storedVersions[{index}]", name, "must appear in spec.versions")


def _conversion(obj: CustomResourceDefinition) -> Iterator[Cause]:
    strategy = obj.spec.conversion.strategy if obj.spec.conversion else "None"
    if strategy == "Webhook":
        yield forbidden("spec.conversion.strategy", "this server converts by apiVersion only (None)")
    elif not strategy:
        yield required("spec.conversion.strategy")
    elif strategy != "None":
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _version(version: DefinedVersion, path: str, rules: RuleCheck) -> list[Cause]:
    causes = list(_label(f"{path}.name", version.name))
    if version.deprecation_warning is not None and not version.deprecated:
        detail = "can only be set for deprecated versions"
        causes.append(invalid(f"{path}.deprecationWarning", version.deprecation_warning, detail))
    where, schema = f"{path}.schema.openAPIV3Schema", version.schema_of
    if schema is None:
        causes.append(required(where, "schemas are required"))
    else:
        causes += _rule_count(schema, where) or schemacheck.check(schema.to_dict(), where, rules)
    if version.subresources and version.subresources.scale is not None:
        causes += _scale(version.subresources.scale, f"{path}.subresources.scale")
    for index, column in enumerate(version.additional_printer_columns):
        causes += _column(column, f"{path}.additionalPrinterColumns[{index}]")
    return [*causes, *_selectable(version, schema, f"{path}.selectableFields")]


def _rule_count(schema: JSONSchemaProps, path: str) -> list[Cause]:
    if schemarules.count(schema.to_dict()) <= schemarules.MOST:
        return []
    return [forbidden(path, f"a schema may have {schemarules.MOST} validation rules at most")]


def _scale(scale: ScaleSubresource, path: str) -> Iterator[Cause]:
    for field, value, roots in (
        ("specReplicasPath", scale.spec_replicas_path, (".spec.",)),
        ("statusReplicasPath", scale.status_replicas_path, (".status.",)),
        ("labelSelectorPath", scale.label_selector_path, (".spec.", ".status.")),
    ):
        where = f"{path}.{field}"
        if not value:
            if field != "labelSelectorPath":
                yield required(where)
            continue
        if not _simple(value):
            yield invalid(where, value, "should be a simple json path (only dot notation)")
        elif not value.startswith(roots):
            yield invalid(where, value, f"should be a json path under {' or '.join(root[:-1] for root in roots)}")


def _parsed(path: str) -> JsonPath | None:
    try:
        return jsonpaths.parse(path)
    except BadPath:
        return None


def _simple(path: str) -> bool:
    parsed = _parsed(path)
    return path.startswith(".") and parsed is not None and parsed.names is not None


def _column(column: ColumnDefinition, path: str) -> Iterator[Cause]:
    if not column.name:
        yield required(f"{path}.name")
    if column.type not in _COLUMN_TYPES:
        where = f"{path}.type"
        yield not_supported(where, column.type, _COLUMN_TYPES) if column.type else required(where)
    where = f"{path}.jsonPath"
    if not column.json_path:
        yield required(where)
    elif _parsed(column.json_path) is None or not column.json_path.lstrip("{").startswith((".", "[")):
        yield invalid(where, column.json_path, "must be a simple json path starting with .")


def _selectable(version: DefinedVersion, schema: JSONSchemaProps | None, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, item in enumerate(version.selectable_fields):
        where = f"{path}[{index}].jsonPath"
        if not _simple(item.json_path):
            yield invalid(where, item.json_path, "is an invalid path: must be a simple json path (only dot notation)")
        elif item.json_path.startswith(".metadata."):
            yield invalid(where, item.json_path, "must not point to fields in metadata")
        elif _leaf(schema, jsonpaths.parse(item.json_path).names or ()) not in ("boolean", "integer", "string"):
            yield invalid(where, item.json_path, "must point to a field of type boolean, integer or string")
        elif item.json_path in seen:
            yield duplicate(where, item.json_path)
        seen.add(item.json_path)


def _leaf(schema: JSONSchemaProps | None, steps: Sequence[str]) -> str | None:
    for name in steps:
        schema = schema.properties.get(name) if schema else None
    return schema.type if schema else None


def compare(new: CustomResourceDefinition, old: CustomResourceDefinition) -> list[Cause]:
    """What may not change: the kind's objects are stored under it."""
    fixed = [
        ("spec.group", new.spec.group, old.spec.group),
        ("spec.names.plural", new.spec.names.plural, old.spec.names.plural),
    ]
    if old.status.is_true("Established"):
        fixed += [
            ("spec.scope", new.spec.scope, old.spec.scope),
            ("spec.names.kind", new.spec.names.kind, old.spec.names.kind),
        ]
    return [invalid(path, value, IMMUTABLE) for path, value, before in fixed if value != before]
