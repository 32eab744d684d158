"""ValidatingAdmissionPolicy and its binding (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kubeapi import labelselector, names
from kubeapi.admissionregistration import (
    ALL,
    FAIL,
    GROUP,
    IGNORE,
    MatchResources,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
    Variable,
)
from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.fields import duplicate, forbidden, invalid, not_supported, required
from kubeapi.kinds.common import STATUS, ObjectStrategy, one_of
from kubeapi.kinds.webhooks import compiled, default_rules, validate_conditions, validate_rules
from kubeapi.labelselector import LabelSelector
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table

VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""What a policy's expressions may name."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_ACTIONS = ("Audit", "Deny", "Warn")
_UNSET = "<unset>"


# Policies


def _default_matching(match: MatchResources | None) -> None:
    if match is None:
        return
    match.match_policy = match.match_policy or "Equivalent"
    match.namespace_selector = match.namespace_selector or LabelSelector()
    match.object_selector = match.object_selector or LabelSelector()
    default_rules(match.resource_rules)
    default_rules(match.exclude_resource_rules)


def _default_policy(obj: ValidatingAdmissionPolicy) -> None:
    obj.spec.failure_policy = obj.spec.failure_policy or FAIL
    _default_matching(obj.spec.match_constraints)


def _validate_policy(obj: ValidatingAdmissionPolicy) -> Sequence[Cause]:
    spec = obj.spec
    causes: list[Cause] = []
    if spec.param_kind is not None:
        causes += [
            required(f"spec.paramKind.{name}")
            for name, value in (("apiVersion", spec.param_kind.api_version), ("kind", spec.param_kind.kind))
            if not value
        ]
    if spec.match_constraints is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += _validate_matching(spec.match_constraints, "spec.matchConstraints")
        if not spec.match_constraints.resource_rules:
            causes.append(required("spec.matchConstraints.resourceRules"))
    usable = [name for name in VARIABLES if name != "params" or spec.param_kind is not None]
    if not spec.validations and not spec.audit_annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        causes.append(required("spec.validations", detail))
    before = [name for name in usable if name not in ("namespaceObject", "variables")]
    causes += validate_conditions(spec.match_conditions, "spec.matchConditions", before)
    causes += _validate_variables(spec.variables, usable)
    for index, item in enumerate(spec.validations):
        causes += _validate_validation(item, f"spec.validations[{index}]", usable)
    for index, note in enumerate(spec.audit_annotations):
        path = f"spec.auditAnnotations[{index}]"
        causes += [invalid(f"{path}.key", note.key, problem) for problem in names.qualified_name(note.key)]
        causes += compiled(note.value_expression, f"{path}.valueExpression", usable, ("string", "null_type"))
    return [*causes, *one_of("spec.failurePolicy", spec.failure_policy, (FAIL, IGNORE))]


def _validate_variables(variables: Sequence[Variable], usable: Sequence[str]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate(variables):
        path = f"spec.variables[{index}]"
        if not item.name.isidentifier():
            causes.append(
                invalid(f"{path}.name", item.name, "name is not a valid CEL identifier")
                if item.name
                else required(f"{path}.name", "name is not specified")
            )
        if item.name in seen:
            causes.append(duplicate(f"{path}.name", item.name))
        seen.add(item.name)
        causes += compiled(item.expression, f"{path}.expression", usable, ())
    return causes


def _validate_validation(item: Validation, path: str, usable: Sequence[str]) -> list[Cause]:
    causes = compiled(item.expression, f"{path}.expression", usable, ("bool",))
    if item.message_expression is not None:
        causes += compiled(item.message_expression, f"{path}.messageExpression", usable, ("string",))
    if item.message is not None and not item.message.strip():
        causes.append(invalid(f"{path}.message", item.message, "message must be non-empty if specified"))
    if item.message and "\n" in item.message.strip():
        causes.append(invalid(f"{path}.message", item.message, "message must not contain line breaks"))
    if item.reason is not None and item.reason not in _REASONS:
        causes.append(not_supported(f"{path}.reason", item.reason, _REASONS))
    return causes


def _validate_matching(match: MatchResources, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, selector in (("namespaceSelector", match.namespace_selector), ("objectSelector", match.object_selector)):
        if selector is None:
            causes.append(required(f"{path}.{name}"))
        else:
            causes += labelselector.validate(selector, f"{path}.{name}")
    causes += validate_rules(match.resource_rules, f"{path}.resourceRules")
    causes += validate_rules(match.exclude_resource_rules, f"{path}.excludeResourceRules")
    return causes + one_of(f"{path}.matchPolicy", match.match_policy, ("Equivalent", "Exact"))


# Bindings


def _default_binding(obj: ValidatingAdmissionPolicyBinding) -> None:
    _default_matching(obj.spec.match_resources)


def _validate_binding(obj: ValidatingAdmissionPolicyBinding) -> Sequence[Cause]:
    spec = obj.spec
    causes: list[Cause] = []
    if not spec.policy_name:
        causes.append(required("spec.policyName"))
    else:
        causes += [invalid("spec.policyName", spec.policy_name, text) for text in names.dns_subdomain(spec.policy_name)]
    if spec.param_ref is not None:
        causes += _validate_ref(spec.param_ref)
    if spec.match_resources is not None:
        causes += _validate_matching(spec.match_resources, "spec.matchResources")
    path = "spec.validationActions"
    if not spec.validation_actions:
        causes.append(required(path, "at least one validation action is required"))
    for index, action in enumerate(spec.validation_actions):
        causes += one_of(f"{path}[{index}]", action, _ACTIONS)
        if action in spec.validation_actions[:index]:
            causes.append(duplicate(f"{path}[{index}]", action))
    if {"Deny", "Warn"} <= set(spec.validation_actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        causes.append(invalid(path, spec.validation_actions, detail))
    return causes


def _validate_ref(ref: ParamRef) -> list[Cause]:
    path = "spec.paramRef"
    causes: list[Cause] = []
    if ref.name and ref.selector is not None:
        causes.append(forbidden(f"{path}.name", "name and selector are mutually exclusive"))
        causes.append(forbidden(f"{path}.selector", "name and selector are mutually exclusive"))
    elif not ref.name and ref.selector is None:
        causes.append(required(path, "one of name or selector must be specified"))
    if ref.selector is not None:
        causes += labelselector.validate(ref.selector, f"{path}.selector")
    if ref.parameter_not_found_action is None:
        causes.append(required(f"{path}.parameterNotFoundAction"))
    else:
        causes += one_of(f"{path}.parameterNotFoundAction", ref.parameter_not_found_action, ("Deny", "Allow"))
    return causes


# Declarations


def _policy_cells(obj: ValidatingAdmissionPolicy, now: datetime) -> Sequence[Cell]:
    kind = obj.spec.param_kind
    shown = f"{kind.api_version}/{kind.kind}" if kind else _UNSET
    return (obj.metadata.name, len(obj.spec.validations), shown, age(obj.metadata.creation_timestamp, now))


def _binding_cells(obj: ValidatingAdmissionPolicyBinding, now: datetime) -> Sequence[Cell]:
    ref = obj.spec.param_ref
    shown = _UNSET
    if ref is not None:
        shown = f"{ref.namespace or ALL}/{ref.name}" if ref.name else f"{ref.namespace or ALL}/{ALL}"
    return (obj.metadata.name, obj.spec.policy_name, shown, age(obj.metadata.creation_timestamp, now))


_POLICY_COLUMNS = (NAME_COLUMN, Column("Validations", "integer"), Column("ParamKind"), AGE_COLUMN)
_BINDING_COLUMNS = (NAME_COLUMN, Column("PolicyName"), Column("ParamRef"), AGE_COLUMN)

POLICIES: ResourceType[ValidatingAdmissionPolicy] = ResourceType(
    model=ValidatingAdmissionPolicy,
    kind="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    singular="validatingadmissionpolicy",
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    subresources=(STATUS,),
    table=Table(_POLICY_COLUMNS, _policy_cells),
    strategy=ObjectStrategy(namespaced=False, validate=_validate_policy, default=_default_policy),
)
BINDINGS: ResourceType[ValidatingAdmissionPolicyBinding] = ResourceType(
    model=ValidatingAdmissionPolicyBinding,
    kind="ValidatingAdmissionPolicyBinding",
    plural="validatingadmissionpolicybindings",
    singular="validatingadmissionpolicybinding",
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    table=Table(_BINDING_COLUMNS, _binding_cells),
    strategy=ObjectStrategy(namespaced=False, validate=_validate_binding, default=_default_binding),
)

KINDS: tuple[ResourceType[Any], ...] = (BINDINGS, POLICIES)
