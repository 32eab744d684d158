"""`x-kubernetes-validations`: which rules a write is asked, about which values; and which rules are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kubeapi import cel, schemarules
from kubeapi.schemarules import RULES
from kubeapi.schemavalues import MISSING

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "min": {"type": "integer"},
        "max": {"type": "integer", RULES: [{"rule": "self >= oldSelf", "message": "it only grows"}]},
        "a-b": {"type": "string"},
        "namespace": {"type": "string"},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
                RULES: [{"rule": "self.name != 'no'", "reason": "FieldValueForbidden", "fieldPath": ".name"}],
            },
        },
    },
    RULES: [
        {"rule": "!has(self.min) || self.min <= self.max", "messageExpression": "'min above ' + string(self.max)"},
        {"rule": "!has(self.a__dash__b) || self.a__dash__b != self.__namespace__"},
    ],
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}


def refused(spec: dict[str, Any], old: Any = MISSING) -> list[str]:
    before = old if old is MISSING else {"spec": old}
    found = schemarules.checks({"spec": spec}, SCHEMA, "", before)
    return [
        str(check.refusal())
        for check in found
        if not cel.compile(check.rule, check.values.keys()).evaluate(check.values)
    ]


def test_rules_are_asked_of_the_values_they_are_about() -> None:
    assert refused({"min": 1, "max": 2, "parts": [{"name": "yes"}]}) == []
    assert refused({"min": 3, "max": 2}) == [
        'spec: Invalid value: "object": failed rule: !has(self.min) || self.min <= self.max'
    ]
    assert refused({"max": 2, "a-b": "x", "namespace": "x"})[0].startswith("spec: ")
    no = "spec.parts[1].name: Forbidden: failed rule: self.name != 'no'"
    assert refused({"max": 2, "parts": [{"name": "a"}, {"name": "no"}]}) == [no]


def test_transitions_are_asked_of_updates_only() -> None:
    assert refused({"max": 2}) == []
    assert refused({"max": 2}, {"max": 3}) == ['spec.max: Invalid value: "integer": it only grows']
    assert refused({"max": 3}, {"max": 2}) == []


def test_what_did_not_change_is_not_asked_again() -> None:
    old = {"min": 3, "max": 2, "parts": [{"name": "no"}]}
    assert refused(old, old) == []
    assert len(refused({**old, "max": 2, "min": 4}, old)) == 1
    assert refused({**old, "parts": [{"name": "no"}, {"name": "b"}], "min": 1}, old) == []


def test_rules_are_counted_at_any_depth() -> None:
    assert schemarules.count(SCHEMA) == 4


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": "self.min <= self.max"}, ""),
        ({"rule": ""}, "p.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        ({"rule": "self.min <"}, 'rule: Invalid value: "self.min <": compilation failed: '),
        ({"rule": "other"}, "undeclared reference to 'other'"),
        ({"rule": "1 + 1"}, 'rule: Invalid value: "1 + 1": must evaluate to bool'),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression: Invalid value"),
        ({"rule": "true", "reason": "Because"}, 'reason: Unsupported value: "Because"'),
        ({"rule": "true", "fieldPath": ".nothing"}, "fieldPath must be a valid path"),
        ({"rule": "true", "fieldPath": "['a-b']"}, ""),
        ({"rule": "true\n&& true"}, "message: Required value"),
        ({"rule": "self == oldSelf", "optionalOldSelf": True}, "optionalOldSelf: Forbidden"),
    ],
)
def test_rules_that_are_refused(rule: dict[str, Any], expected: str) -> None:
    found = [str(cause) for cause in schemarules.check({**SPEC, RULES: [rule]}, "p")]
    assert not found if not expected else len(found) == 1 and expected in found[0]
