"""apiextensions.k8s.io/v1: CustomResourceDefinition, with the reference's names."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeapi.meta import Condition, KubeModel, KubeObject

GROUP = "apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until the last of its objects is gone."""
APPROVAL = "api-approved.kubernetes.io"
"""The annotation that a definition in one of the community's own groups must have."""


class ValidationRule(KubeModel):
    """A CEL expression that must be true of a value."""

    rule: str = ""
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


class JSONSchemaProps(KubeModel):
    """A schema: JSON Schema without references, and the `x-kubernetes-` extensions."""

    id: str | None = None
    schema_: str | None = Field(None, alias="$schema")
    ref: str | None = Field(None, alias="$ref")
    description: str | None = None
    type: str | None = None
    format: str | None = None
    title: str | None = None
    default: Any = None
    maximum: int | float | None = None
    exclusive_maximum: bool | None = None
    minimum: int | float | None = None
    exclusive_minimum: bool | None = None
    max_length: int | None = None
    min_length: int | None = None
    pattern: str | None = None
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool | None = None
    multiple_of: int | float | None = None
    enum: list[Any] = Field(default_factory=list)
    max_properties: int | None = None
    min_properties: int | None = None
    required: list[str] = Field(default_factory=list)
    items: JSONSchemaProps | list[JSONSchemaProps] | None = None
    all_of: list[JSONSchemaProps] = Field(default_factory=list)
    one_of: list[JSONSchemaProps] = Field(default_factory=list)
    any_of: list[JSONSchemaProps] = Field(default_factory=list)
    not_: JSONSchemaProps | None = Field(None, alias="not")
    properties: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    additional_properties: JSONSchemaProps | bool | None = None
    pattern_properties: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    dependencies: dict[str, Any] = Field(default_factory=dict)
    additional_items: JSONSchemaProps | bool | None = None
    definitions: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    external_docs: dict[str, Any] | None = None
    example: Any = None
    nullable: bool | None = None
    x_preserve: bool | None = Field(None, alias="x-kubernetes-preserve-unknown-fields")
    x_embedded: bool | None = Field(None, alias="x-kubernetes-embedded-resource")
    x_int_or_string: bool | None = Field(None, alias="x-kubernetes-int-or-string")
    x_list_map_keys: list[str] = Field(default_factory=list, alias="x-kubernetes-list-map-keys")
    x_list_type: str | None = Field(None, alias="x-kubernetes-list-type")
    x_map_type: str | None = Field(None, alias="x-kubernetes-map-type")
    x_validations: list[ValidationRule] = Field(default_factory=list, alias="x-kubernetes-validations")


class CustomResourceValidation(KubeModel):
    open_api_v3_schema: JSONSchemaProps | None = Field(None, alias="openAPIV3Schema")


class ScaleSubresource(KubeModel):
    """JSON paths of the fields that a Scale shows."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str | None = None


class Subresources(KubeModel):
    status: dict[str, Any] | None = None
    scale: ScaleSubresource | None = None


class ColumnDefinition(KubeModel):
    """One column of `kubectl get`."""

    name: str = ""
    type: str = ""
    format: str | None = None
    description: str | None = None
    priority: int | None = None
    json_path: str = Field("", alias="jsonPath")


class SelectableField(KubeModel):
    json_path: str = Field("", alias="jsonPath")


class DefinedVersion(KubeModel):
    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema_: CustomResourceValidation | None = Field(None, alias="schema")
    subresources: Subresources | None = None
    additional_printer_columns: list[ColumnDefinition] = Field(default_factory=list)
    selectable_fields: list[SelectableField] = Field(default_factory=list)

    @property
    def schema_of(self) -> JSONSchemaProps | None:
        return self.schema_.open_api_v3_schema if self.schema_ else None


class Names(KubeModel):
    """What the kind is called, in requests and by people."""

    plural: str = ""
    singular: str | None = None
    short_names: list[str] = Field(default_factory=list)
    kind: str = ""
    list_kind: str | None = None
    categories: list[str] = Field(default_factory=list)


class Conversion(KubeModel):
    strategy: str = ""
    webhook: dict[str, Any] | None = None


class CustomResourceDefinitionSpec(KubeModel):
    group: str = ""
    names: Names = Field(default_factory=Names)
    scope: str = ""
    versions: list[DefinedVersion] = Field(default_factory=list)
    conversion: Conversion | None = None
    preserve_unknown_fields: bool | None = None

    @property
    def storage_version(self) -> str:
        return next((version.name for version in self.versions if version.storage), "")


class CustomResourceDefinitionStatus(KubeModel):
    conditions: list[Condition] = Field(default_factory=list)
    accepted_names: Names | None = None
    stored_versions: list[str] = Field(default_factory=list)

    def condition(self, kind: str) -> Condition | None:
        return next((item for item in self.conditions if item.type == kind), None)

    def is_true(self, kind: str) -> bool:
        found = self.condition(kind)
        return found is not None and found.status == "True"


class CustomResourceDefinition(KubeObject):
    """A kind of object that users add to the API."""

    api_version: str = "apiextensions.k8s.io/v1"
    kind: str = "CustomResourceDefinition"
    spec: CustomResourceDefinitionSpec = Field(default_factory=CustomResourceDefinitionSpec)
    status: CustomResourceDefinitionStatus = Field(default_factory=CustomResourceDefinitionStatus)
