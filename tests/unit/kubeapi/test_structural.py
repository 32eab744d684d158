"""Structural schemas: what is pruned, defaulted and refused, and which schemas are refused themselves."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi import jsonpaths, patterns, schemacheck, structural
from kubeapi.apiextensions import JSONSchemaProps
from kubeapi.decode import unknown_fields
from kubeapi.jsonpaths import BadPath
from kubeapi.schemavalues import MISSING, validate
from kubeapi.versions import priority

NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "multipleOf": 0.5},
        "size": {"type": "integer", "format": "int32"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "maybe": {"type": "string", "nullable": True},
        "on": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"n": NAMED}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"level": {"type": "integer", "default": 1}, "label": {"type": "string"}},
        },
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": NAMED,
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": SPEC}}


def problems(spec: Any, schema: dict[str, Any] = SPEC, old: Any = MISSING) -> list[str]:
    return [str(cause) for cause in validate(spec, schema, "spec", old)]


def wrong(path: str, found: str, wanted: str) -> list[str]:
    return [f'{path}: Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"']


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"text": 5}, wrong("spec.text", "integer", "string")),
        ({"text": "a"}, ['spec.text: Invalid value: "a": spec.text in body should be at least 2 chars long']),
        ({"text": "abcdef"}, ["spec.text: Too long: may not be more than 5 bytes"]),
        ({"text": "AB"}, ["spec.text: Invalid value: \"AB\": spec.text in body should match '^[a-z]+$'"]),
        ({"count": 0}, ["spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"]),
        ({"count": 11}, ["spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10"]),
        ({"count": 2.0}, []),
        (
            {"count": 2.5},
            wrong("spec.count", "number", "integer"),
        ),
        (
            {"count": True},
            wrong("spec.count", "boolean", "integer"),
        ),
        ({"share": 0}, ["spec.share: Invalid value: 0: spec.share in body should be greater than 0"]),
        ({"share": 0.7}, ["spec.share: Invalid value: 0.7: spec.share in body should be a multiple of 0.5"]),
        ({"share": 1}, []),
        ({"size": 2**31}, [f"spec.size: Invalid value: {2**31}: spec.size in body must be of type int32: {2**31}"]),
        ({"mode": "warp"}, ['spec.mode: Unsupported value: "warp": supported values: "fast", "slow"']),
        ({"maybe": None}, []),
        ({"size": None}, wrong("spec.size", "null", "integer")),
        (
            {"when": "noon"},
            ['spec.when: Invalid value: "noon": spec.when in body must be of type date-time: "noon"'],
        ),
        ({"when": "2026-12-01T06:00:00.5Z"}, []),
        ({"port": 80}, []),
        ({"port": "http"}, []),
        ({"port": 1.5}, wrong("spec.port", "number", "integer,string")),
        ({"map": {"a": 1, "b": "2"}}, wrong("spec.map.b", "string", "integer")),
        ({"map": {"a": 1, "b": 2, "c": 3}}, ["spec.map: Too many: 3: must have at most 2 items"]),
        ({"list": []}, ["spec.list: Invalid value: []: spec.list in body should have at least 1 items"]),
        ({"list": ["a", 1]}, wrong("spec.list[1]", "integer", "string")),
        ({"list": ["a"] * 4}, ["spec.list: Too many: 4: must have at most 3 items"]),
        ({"set": ["a", "b", "a"]}, ['spec.set[2]: Duplicate value: "a"']),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, ['spec.parts[1]: Duplicate value: {"name":"a"}']),
        ({"parts": [{"n": 1}]}, ["spec.parts[0].name: Required value"]),
        ({"template": {"kind": "Pod"}}, ["spec.template.apiVersion: Required value: must not be empty"]),
        ({"text": None}, wrong("spec.text", "null", "string")),
    ],
)  # fmt: skip
def test_values_are_refused_in_the_reference_words(more: dict[str, Any], expected: list[str]) -> None:
    assert problems({"text": "abc"} | more) == expected


def test_required_and_wrong_roots() -> None:
    assert problems({}) == ["spec.text: Required value"]
    assert problems([]) == wrong("spec", "array", "object")


def test_combined_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"properties": {"a": {"enum": ["no"]}}, "required": ["a"]},
    }
    one = 'spec: Invalid value: "": "spec" must validate one and only one schema (oneOf). '
    assert problems({"a": "x"}, schema) == []
    assert problems({"a": "x", "b": "y"}, schema) == [f"{one}Found 2 valid alternatives"]
    assert problems({}, schema) == [f"{one}Found none valid", "spec.a: Required value"]
    assert problems({"a": "no"}, schema) == ['spec: Invalid value: "": "spec" must not validate the schema (not)']
    either = {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 2}]}
    assert problems(1, either) == problems(11, either) == []
    assert problems(5, either)[0] == 'spec: Invalid value: "": "spec" must validate at least one schema (anyOf)'


def test_what_an_update_did_not_change_may_stay() -> None:
    """Ratcheting: an object that was valid under an older schema is not held hostage by its old fields."""
    old = {"text": "TOO LONG", "parts": [{"name": "a", "n": "x"}, {"name": "b"}]}
    assert problems({**old, "count": 5}, old=old) == []
    assert problems({**old, "parts": [{"name": "b"}, {"name": "a", "n": "x"}]}, old=old) == []
    assert len(problems({**old, "parts": [{"name": "a", "n": "y"}]}, old=old)) == 1
    assert len(problems({"text": "ALSO WRONG"}, old=old)) == 2


def test_defaults_and_nulls() -> None:
    spec: dict[str, Any] = {"text": "abc", "count": None, "mode": None, "maybe": None, "parts": [{"name": "a"}]}
    structural.default({"spec": spec}, SCHEMA)
    assert spec == {"text": "abc", "count": 3, "maybe": None, "nested": {"level": 1}, "parts": [{"name": "a"}]}
    given = {"text": "abc", "count": 7, "nested": {"label": "x"}}
    structural.default(given, SPEC)
    assert given == {"text": "abc", "count": 7, "nested": {"label": "x", "level": 1}}


def test_pruning_leaves_what_is_described() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "x"},
        "extra": 1,
        "spec": {
            "bogus": 1,
            "any": {"free": {"deep": 1}, "n": {"name": "a", "bogus": 1}},
            "map": {"k": 1},
            "parts": [{"name": "a", "bogus": 1}],
            "template": {"kind": "Pod", "metadata": {"name": "y"}, "spec": {}},
        },
    }
    paths = ["extra", "spec.bogus", "spec.any.n.bogus", "spec.parts[0].bogus"]
    assert list(structural.unknown(obj, SCHEMA, is_object=True)) == paths
    structural.prune(obj, SCHEMA, is_object=True)
    assert obj == {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "x"},
        "spec": {
            "any": {"free": {"deep": 1}, "n": {"name": "a"}},
            "map": {"k": 1},
            "parts": [{"name": "a"}],
            "template": {"kind": "Pod", "metadata": {"name": "y"}, "spec": {}},
        },
    }


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SPEC["properties"], "name", "n", "kind", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_value_is_pruned_defaulted_and_judged(value: Any) -> None:
    obj = {"spec": value}
    structural.prune(obj, SCHEMA, is_object=True)
    assert not list(structural.unknown(obj, SCHEMA, is_object=True))
    structural.default(obj, SCHEMA)
    once = copy.deepcopy(obj)
    structural.default(obj, SCHEMA)
    assert obj == once
    validate(obj, SCHEMA)
    assert validate(obj, SCHEMA, old=once) == []


# Schemas


def schema_problems(**spec: Any) -> list[str]:
    schema = {"type": "object", "properties": {"spec": spec}}
    return [str(cause) for cause in schemacheck.check(schema, "s")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SPEC, []),
        ({}, ["s.properties[spec].type: Required value: must not be empty for specified object fields"]),
        (
            {"type": "text"},
            [
                's.properties[spec].type: Unsupported value: "text": supported values: "array", "boolean", "integer", '
                '"number", "object", "string"'
            ],
        ),
        ({"type": "array"}, ["s.properties[spec].items: Required value: must be specified"]),
        (
            {"type": "array", "items": {}},
            ["s.properties[spec].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
            [
                "s.properties[spec].additionalProperties: Forbidden: "
                "additionalProperties and properties are mutual exclusive"
            ],
        ),
        ({"type": "string", "$ref": "#/x"}, ["s.properties[spec].$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            [
                "s.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
                "complexity becomes quadratic"
            ],
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]},
            [
                "s.properties[spec].properties[a]: Required value: because it is defined in "
                "s.properties[spec].anyOf[0].properties[a]",
                "s.properties[spec].anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            [],
        ),
        (
            {"type": "string", "x-kubernetes-int-or-string": True},
            ["s.properties[spec].type: Forbidden: must be empty if x-kubernetes-int-or-string is true"],
        ),
        (
            {"type": "integer", "default": "x"},
            [
                's.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string"',
            ],
        ),
        (
            {"type": "object", "default": {"a": 1}},
            ['s.properties[spec].default: Invalid value: {"a":1}: must not have unknown fields: a'],
        ),
        (
            {"type": "array", "items": NAMED, "x-kubernetes-list-type": "map"},
            [
                "s.properties[spec].x-kubernetes-list-map-keys: Required value: "
                "must not be empty if x-kubernetes-list-type is map"
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                "s.properties[spec].properties: Required value: must not be empty if x-kubernetes-embedded-resource is "
                "true without x-kubernetes-preserve-unknown-fields"
            ],
        ),
    ],
)
def test_schemas_that_are_not_structural(spec: dict[str, Any], expected: list[str]) -> None:
    assert schema_problems(**spec) == expected


def test_a_pattern_must_be_an_expression() -> None:
    (problem,) = schema_problems(type="string", pattern="(")
    assert problem.startswith('s.properties[spec].pattern: Invalid value: "(": must be a valid regular expression')


def test_patterns_take_time_linear_in_the_text() -> None:
    """S-85's kind of fault: a backtracking matcher would take years over this."""
    assert not patterns.found("^(a+)+$", "a" * 5000 + "b")


def test_very_deep_schemas_are_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "nested 64 levels deep at most" in str(schemacheck.check(schema, "s")[0])


def test_validation_rules_are_refused_while_nothing_applies_them() -> None:
    found = schema_problems(type="string", **{"x-kubernetes-validations": [{"rule": "self != ''"}]})
    assert found == [
        "s.properties[spec].x-kubernetes-validations: Forbidden: this server does not evaluate validation rules (CEL)"
    ]


def test_unknown_words_of_a_schema_are_found() -> None:
    schema = JSONSchemaProps.from_dict({"type": "object", "properties": {"a": {"type": "string", "bogus": 1}}})
    assert list(unknown_fields(schema)) == ["properties.a.bogus"]
    as_given = {"type": "integer", "minimum": 1, "default": 0, "x-kubernetes-preserve-unknown-fields": True}
    assert JSONSchemaProps.from_dict(as_given).to_dict() == as_given


# Paths and versions


def test_json_paths() -> None:
    data = {
        "a": {"b.c": 1, "list": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]},
        "on": False,
    }
    for path, expected in (
        (".a['b.c']", [1]),
        (".a.b\\.c", [1]),
        (".a.list[0].v", [1]),
        (".a.list[-1].v", [2]),
        (".a.list[*].v", [1, 2]),
        ('.a.list[?(@.t=="y")].v', [2]),
        ("{.a.list[?(@.v > 1)].t}", ["y"]),
        (".a.list[?(@.v)].t", ["x", "y"]),
        (".a.list[?(@.t > 1)].t", []),
        (".on", [False]),
        (".none.deep", []),
    ):
        assert jsonpaths.parse(path).find(data) == expected, path
    for path in ("", "a", ".a[", ".a[x]", ".a b"):
        with pytest.raises(BadPath):
            jsonpaths.parse(path)


def test_versions_in_the_order_clients_prefer() -> None:
    names = ["foo10", "v1", "v10", "v11alpha2", "v11beta2", "v12alpha1", "v2", "v3beta1", "foo1", "v10beta3"]
    assert sorted(names, key=priority) == [
        "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10",
    ]  # fmt: skip
