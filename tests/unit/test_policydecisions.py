"""What the outcomes of a policy's expressions mean."""

from __future__ import annotations

from typing import Any

import pytest

from kubeapi.admissionregistration import ValidatingAdmissionPolicySpec
from kubeapi.celjobs import run
from kubeapi.policydecisions import Denial, Finding, findings, job, refusal


def found(spec: dict[str, Any], obj: Any) -> tuple[list[Finding], dict[str, str]]:
    policy = ValidatingAdmissionPolicySpec.from_dict(spec)
    return findings(policy, run(job(policy, {"object": obj})))


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"expression": "object.n <= 5 "}, "failed expression: object.n <= 5"),
        ({"expression": "object.n <= 5", "message": " too many "}, "too many"),
        ({"expression": "object.n <= 5", "message": "m", "messageExpression": "'has ' + string(object.n)"}, "has 9"),
        ({"expression": "object.n <= 5", "message": "m", "messageExpression": "object.absent"}, "m"),
        ({"expression": "object.n <= 5", "message": "m", "messageExpression": "'a\\nb'"}, "m"),
        ({"expression": "object.n <= 5", "message": "m", "messageExpression": "'  '"}, "m"),
        ({"expression": "object.absent"}, "expression 'object.absent' resulted in error: no such key: absent"),
        ({"expression": "object.n"}, "failed expression: object.n"),
    ],
)
def test_messages(validation: dict[str, Any], message: str) -> None:
    assert [item.message for item in found({"validations": [validation]}, {"n": 9})[0]] == [message]


def test_what_holds_is_not_found_and_reasons_are_kept() -> None:
    validations = [{"expression": "object.n > 5"}, {"expression": "object.n > 50", "reason": "Forbidden"}]
    (item,), _ = found({"validations": validations}, {"n": 9})
    assert item.reason == "Forbidden"


def test_the_failure_policy_is_for_errors_only() -> None:
    spec = {"failurePolicy": "Ignore", "validations": [{"expression": "object.absent"}, {"expression": "false"}]}
    assert [item.message for item in found(spec, {})[0]] == ["failed expression: false"]


@pytest.mark.parametrize(
    ("conditions", "count"),
    [(["true"], 1), (["true", "false"], 0), (["object.absent", "false"], 0), (["object.absent"], 1)],
)
def test_conditions(conditions: list[str], count: int) -> None:
    """A false one decides, even where another fails."""
    named = [{"name": str(index), "expression": text} for index, text in enumerate(conditions)]
    assert len(found({"matchConditions": named, "validations": [{"expression": "false"}]}, {})[0]) == count


def test_notes() -> None:
    notes = [
        {"key": "a", "valueExpression": "'n is ' + string(object.n)"},
        {"key": "b", "valueExpression": "object.n > 100 ? dyn('big') : null"},
        {"key": "c", "valueExpression": "object.n"},
    ]
    problems, given = found({"auditAnnotations": notes}, {"n": 9})
    assert given == {"a": "n is 9"}
    assert "unsupported return type" in problems[0].message


def test_the_words_of_a_refusal() -> None:
    error = refusal(Denial("p", "b", "too many"), "deployments", "web", "apps")
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == (
        "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many"
    )
    assert refusal(Denial("p", "b", "m", "Forbidden"), "pods", "x", "").code == 403
