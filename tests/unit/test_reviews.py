"""What a webhook answers, read and put into errors; what a configuration may say."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kubeapi.admissionregistration import ValidatingWebhookConfiguration
from kubeapi.kinds.webhooks import VALIDATING_WEBHOOKS
from kubeapi.server.reviews import Answer, BadAnswer, failed, parse, refusal


def review(**response: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}


def test_what_is_no_answer_to_what_was_asked() -> None:
    for data, words in (
        ([], "to be an object"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}, "expected webhook response of"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}, "response was absent"),
        (review(uid="other", allowed=True), 'expected response.uid="u", got "other"'),
        (review(allowed=True, patchType="JSONPatch"), "response.patchType but not response.patch"),
        (review(allowed=True, patch="W10=", patchType="Merge"), "expected JSONPatch"),
        (review(allowed=True, patch="!", patchType="JSONPatch"), "cannot be decoded"),
        (review(allowed=True, patch="e30=", patchType="JSONPatch"), "no list of operations"),
    ):
        with pytest.raises(BadAnswer) as error:
            parse(data, "u", mutating=True)
        assert words in str(error.value)


def test_only_true_is_a_yes_and_warnings_are_bounded() -> None:
    assert not parse(review(allowed="true"), "u", mutating=False).allowed
    answer = parse(review(allowed=True, warnings=["x" * 1000] * 100 + [7]), "u", mutating=False)
    assert len(answer.warnings[0]) == 256
    assert sum(map(len, answer.warnings)) <= 4096
    patch = base64.b64encode(b'[{"op":"remove","path":"/a"}]').decode()
    assert parse(review(allowed=True, patch=patch, patchType="JSONPatch"), "u", mutating=True).patch


@pytest.mark.parametrize(
    ("status", "code", "reason", "words"),
    [
        ({}, 403, "Forbidden", "denied the request without explanation"),
        ({"message": "no"}, 403, "Forbidden", "denied the request: no"),
        ({"reason": "Because"}, 403, "Because", "denied the request: Because"),
        ({"message": "no", "code": 422, "reason": "Invalid"}, 422, "Invalid", "denied the request: no"),
        ({"message": "no", "code": 200}, 403, "Forbidden", "denied the request: no"),
        ({"message": "no", "code": "x"}, 403, "Forbidden", "denied the request: no"),
    ],
)
def test_refusals(status: dict[str, Any], code: int, reason: str, words: str) -> None:
    error = refusal("a.b.c", Answer(False, status), {"kind": "pods", "name": "p"})
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "a.b.c" {words}'
    assert error.details == {"kind": "pods", "name": "p"}


def test_a_webhook_that_could_not_be_asked() -> None:
    error = failed("a.b.c", "failed to call webhook: EOF")
    assert error.code == 500
    assert error.message == 'Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: EOF'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "short"}, "webhooks[0].name: Invalid value"),
        ({"clientConfig": {}}, "exactly one of url or service is required"),
        ({"clientConfig": {"url": "http://x/"}}, "'https' is the only allowed URL scheme"),
        ({"clientConfig": {"url": "https://u@x/?a=b"}}, "user not permitted in the URL"),
        ({"clientConfig": {"url": "https://x/", "caBundle": "eA=="}}, "unable to load root certificates"),
        ({"clientConfig": {"service": {"name": "s"}}}, "service namespace is required"),
        ({"sideEffects": None}, "must specify one of None, NoneOnDryRun"),
        ({"sideEffects": "Some"}, "Unsupported value"),
        ({"admissionReviewVersions": ["v2"]}, "must include at least one of v1, v1beta1"),
        ({"timeoutSeconds": 31}, "must be between 1 and 30 seconds"),
        ({"failurePolicy": "Maybe"}, "Unsupported value"),
        ({"rules": [{"operations": ["READ"]}]}, 'webhooks[0].rules[0].operations[0]: Unsupported value: "READ"'),
        ({"matchConditions": [{"name": "a", "expression": "object +"}]}, "Syntax error"),
        ({"matchConditions": [{"name": "a", "expression": "'text'"}]}, "must evaluate to bool"),
    ],
)
def test_what_a_configuration_may_not_say(change: dict[str, Any], words: str) -> None:
    hook = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://x/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    data = {"metadata": {"name": "x"}, "webhooks": [hook | change]}
    obj = ValidatingWebhookConfiguration.from_dict(data)
    strategy = VALIDATING_WEBHOOKS.strategy
    strategy.default(obj)
    assert any(words in str(cause) for cause in strategy.validate_create(obj))
