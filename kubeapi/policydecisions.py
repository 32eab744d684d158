"""What the outcomes of a policy's expressions mean: refusals, warnings, audit notes (pure).

Words and rules: k8s.io/apiserver/pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeapi.admissionregistration import IGNORE, ValidatingAdmissionPolicySpec
from kubeapi.celjobs import Job, Outcome
from kubeapi.errors import ApiError, forbidden

_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE = 5 * 1024
"""Bytes of what a messageExpression gives; more is not used."""


@dataclass(frozen=True, slots=True)
class Denial:
    policy: str
    binding: str
    """Empty: the policy itself cannot be used."""
    message: str
    reason: str = "Invalid"

    @property
    def text(self) -> str:
        where = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{where} denied request: {self.message}"

    @property
    def warning(self) -> str:
        return (
            f"Validation failed for ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}': "
            f"{self.message}"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One validation that does not hold, or could not be evaluated."""

    message: str
    reason: str = "Invalid"


def job(spec: ValidatingAdmissionPolicySpec, values: Mapping[str, Any]) -> Job:
    """All that the policy evaluates: conditions, validations, their messages, annotations; in that order."""
    expressions = [item.expression for item in spec.match_conditions]
    expressions += [item.expression for item in spec.validations]
    expressions += [item.message_expression or "''" for item in spec.validations]
    expressions += [item.value_expression for item in spec.audit_annotations]
    return Job(values, expressions, [(item.name, item.expression) for item in spec.variables])


def findings(spec: ValidatingAdmissionPolicySpec, outcomes: Sequence[Outcome]) -> tuple[list[Finding], dict[str, str]]:
    """What does not hold, and the audit annotations. `outcomes` are of `job`."""
    conditions, rest = outcomes[: len(spec.match_conditions)], outcomes[len(spec.match_conditions) :]
    if any(item.value is False for item in conditions):
        return [], {}
    unmet = [item.error or "must evaluate to bool" for item in conditions if item.value is not True]
    if unmet:
        return _unless_ignored(spec, [Finding(", ".join(unmet))]), {}
    count = len(spec.validations)
    found = _validations(spec, rest[:count], rest[count : 2 * count])
    problems, notes = _annotations(spec, rest[2 * count :])
    return [*found, *_unless_ignored(spec, problems)], notes


def _validations(
    spec: ValidatingAdmissionPolicySpec, outcomes: Sequence[Outcome], messages: Sequence[Outcome]
) -> list[Finding]:
    found = []
    for item, outcome, message in zip(spec.validations, outcomes, messages, strict=True):
        if outcome.error:
            found += _unless_ignored(spec, [Finding(outcome.error)])
        elif outcome.value is not True:
            own = _message(message) or (item.message or "").strip()
            found.append(Finding(own or f"failed expression: {item.expression.strip()}", item.reason or "Invalid"))
    return found


def _message(outcome: Outcome) -> str:
    """Of a messageExpression, where it is one that can be shown."""
    if outcome.error or not isinstance(outcome.value, str):
        return ""
    text = outcome.value.strip()
    return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE else text


def _annotations(
    spec: ValidatingAdmissionPolicySpec, outcomes: Sequence[Outcome]
) -> tuple[list[Finding], dict[str, str]]:
    problems, notes = [], {}
    for item, outcome in zip(spec.audit_annotations, outcomes, strict=True):
        if outcome.error:
            problems.append(Finding(outcome.error))
        elif isinstance(outcome.value, str) and outcome.value.strip():
            notes[item.key] = outcome.value.strip()
        elif outcome.value is not None and not isinstance(outcome.value, str):
            detail = "resulted in unsupported return type. Return type must be either string or null."
            problems.append(Finding(f"valueExpression '{item.value_expression}' {detail}"))
    return problems, notes


def _unless_ignored(spec: ValidatingAdmissionPolicySpec, problems: list[Finding]) -> list[Finding]:
    """What could not be evaluated counts as the failure policy says."""
    return [] if spec.failure_policy == IGNORE else problems


def refusal(denial: Denial, resource: str, name: str, group: str) -> ApiError:
    error = forbidden(resource, name, denial.text, group, causes=[{"message": denial.text}])
    error.reason, error.code = denial.reason, _CODES.get(denial.reason, 422)
    return error
