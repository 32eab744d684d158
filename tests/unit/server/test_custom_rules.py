"""Rules in CEL of custom kinds' schemas: asked at every write, outside the hub's process."""

from __future__ import annotations

from typing import Any

from tests.unit.server.conftest import MERGE, Api
from tests.unit.server.test_custom_resources import DEFINITIONS, OBJECTS, define, definition, thing, version

RULES = "x-kubernetes-validations"


def ruled(*rules: dict[str, Any]) -> dict[str, Any]:
    made = version(subresources={"status": {}})
    root = made["schema"]["openAPIV3Schema"]
    fields = {
        "min": {"type": "integer"},
        "max": {"type": "integer", RULES: [{"rule": "self >= oldSelf", "message": "it only grows"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    root["properties"]["spec"] = {"type": "object", "properties": fields, RULES: list(rules)}
    root[RULES] = [{"rule": "self.metadata.name.startsWith('o')", "message": "names begin with o"}]
    return definition(made)


async def test_rules_hold_for_every_write(api: Api) -> None:
    rules = (
        {"rule": "self.min <= self.max", "messageExpression": "'min above ' + string(self.max)", "fieldPath": ".min"},
        {"rule": "!has(self.tags) || self.tags.all(tag, tag.size() < 5)", "reason": "FieldValueForbidden"},
    )
    await define(api, ruled(*rules))
    wrong = await api.call("POST", OBJECTS, thing(min=3, max=2, tags=["much too long"]))
    assert wrong.status == 422
    assert [(item["reason"], item["field"]) for item in wrong.body["details"]["causes"]] == [
        ("FieldValueInvalid", "spec.min"),
        ("FieldValueForbidden", "spec"),
    ]
    assert 'spec.min: Invalid value: "object": min above 2' in wrong.body["message"]
    named = await api.call("POST", OBJECTS, thing("two", min=1, max=2))
    said = 'Thing.example.com "two" is invalid: <nil>: Invalid value: "object": names begin with o'
    assert named.body["message"] == said
    assert (await api.call("POST", OBJECTS, thing(min=1, max=2))).status == 201
    shrunk = await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"max": 1}}, content_type=MERGE)
    assert shrunk.body["details"]["causes"][0]["message"] == 'Invalid value: "integer": it only grows'
    assert (await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"max": 5}}, content_type=MERGE)).status == 200
    missing = await api.call("PATCH", f"{OBJECTS}/one", {"spec": {"min": None}}, content_type=MERGE)
    assert "no such key: min evaluating rule: self.min <= self.max" in missing.body["message"]
    dry = await api.call("PATCH", f"{OBJECTS}/one?dryRun=All", {"spec": {"min": 9}}, content_type=MERGE)
    assert dry.status == 422


async def test_rules_that_are_none_are_refused_with_the_definition(api: Api) -> None:
    refused = await api.call("POST", DEFINITIONS, ruled({"rule": "self.min <"}))
    assert refused.status == 422
    assert refused.body["details"]["causes"][0]["field"].endswith(f"properties[spec].{RULES}[0].rule")
    many = await api.call("POST", DEFINITIONS, ruled(*({"rule": f"self.min > {n}"} for n in range(600))))
    assert "a schema may have 500 validation rules at most" in many.body["message"]


async def test_a_rule_that_never_ends_is_stopped(api: Api) -> None:
    tags = "self.tags.all(a, self.tags.all(b, self.tags.all(c, self.tags.all(d, a + b + c + d != 'x'))))"
    await define(api, ruled({"rule": f"!has(self.tags) || {tags}", "message": "too much"}))
    answer = await api.call("POST", OBJECTS, thing(min=1, max=2, tags=["t"] * 300))
    assert answer.status == 422
    assert "cost limit exceeded" in answer.body["message"]
    assert (await api.call("POST", OBJECTS, thing(min=1, max=2, tags=["t"]))).status == 201
