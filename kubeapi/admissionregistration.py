"""admissionregistration.k8s.io/v1: webhooks, and policies in CEL, that look at requests before they are carried out."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeapi.labelselector import LabelSelector
from kubeapi.meta import Condition, KubeModel, KubeObject

GROUP = "admissionregistration.k8s.io"
FAIL, IGNORE = "Fail", "Ignore"
ALL = "*"


class RuleWithOperations(KubeModel):
    operations: list[str] = Field(default_factory=list)
    api_groups: list[str] = Field(default_factory=list)
    api_versions: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    resource_names: list[str] = Field(default_factory=list)
    """Of a policy's rules only."""
    scope: str | None = None


class MatchCondition(KubeModel):
    name: str = ""
    expression: str = ""


class ServiceReference(KubeModel):
    namespace: str = ""
    name: str = ""
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(KubeModel):
    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: str | None = None
    """PEM, in base64."""


class ValidatingWebhook(KubeModel):
    name: str = ""
    client_config: WebhookClientConfig = Field(default_factory=WebhookClientConfig)
    rules: list[RuleWithOperations] = Field(default_factory=list)
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] = Field(default_factory=list)
    match_conditions: list[MatchCondition] = Field(default_factory=list)


class MutatingWebhook(ValidatingWebhook):
    reinvocation_policy: str | None = None


class MutatingWebhookConfiguration(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "MutatingWebhookConfiguration"
    webhooks: list[MutatingWebhook] = Field(default_factory=list)


class ValidatingWebhookConfiguration(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "ValidatingWebhookConfiguration"
    webhooks: list[ValidatingWebhook] = Field(default_factory=list)


class MatchResources(KubeModel):
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: list[RuleWithOperations] = Field(default_factory=list)
    exclude_resource_rules: list[RuleWithOperations] = Field(default_factory=list)
    match_policy: str | None = None


class ParamKind(KubeModel):
    api_version: str = ""
    kind: str = ""


class Validation(KubeModel):
    expression: str = ""
    message: str | None = None
    reason: str | None = None
    message_expression: str | None = None


class AuditAnnotation(KubeModel):
    key: str = ""
    value_expression: str = ""


class Variable(KubeModel):
    name: str = ""
    expression: str = ""


class ValidatingAdmissionPolicySpec(KubeModel):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: list[Validation] = Field(default_factory=list)
    failure_policy: str | None = None
    audit_annotations: list[AuditAnnotation] = Field(default_factory=list)
    match_conditions: list[MatchCondition] = Field(default_factory=list)
    variables: list[Variable] = Field(default_factory=list)


class ValidatingAdmissionPolicyStatus(KubeModel):
    observed_generation: int | None = None
    type_checking: dict[str, Any] | None = None
    conditions: list[Condition] = Field(default_factory=list)


class ValidatingAdmissionPolicy(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "ValidatingAdmissionPolicy"
    spec: ValidatingAdmissionPolicySpec = Field(default_factory=ValidatingAdmissionPolicySpec)
    status: ValidatingAdmissionPolicyStatus = Field(default_factory=ValidatingAdmissionPolicyStatus)


class ParamRef(KubeModel):
    name: str | None = None
    namespace: str | None = None
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class ValidatingAdmissionPolicyBindingSpec(KubeModel):
    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: list[str] = Field(default_factory=list)


class ValidatingAdmissionPolicyBinding(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "ValidatingAdmissionPolicyBinding"
    spec: ValidatingAdmissionPolicyBindingSpec = Field(default_factory=ValidatingAdmissionPolicyBindingSpec)
