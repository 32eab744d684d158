"""CustomResourceDefinitions: which are refused, and which of their names they get."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kubeapi import customkinds, customnames
from kubeapi.apiextensions import CustomResourceDefinition, JSONSchemaProps, Names
from kubeapi.customnames import Taken
from kubeapi.kinds import apiextensions
from kubeapi.resource import Registry
from kubeapi.server.openapi import Documents

NOW, LATER = "2026-11-30T21:59:26Z", "2026-11-30T21:59:27Z"


def definition(**spec: Any) -> CustomResourceDefinition:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    given = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version | spec.pop("version", {})],
    }
    made = CustomResourceDefinition.from_dict({"metadata": {"name": "things.example.com"}, "spec": given | spec})
    apiextensions.default(made)
    return made


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"group": "com"}, '"things.example.com": must be spec.names.plural+"."+spec.group'),
        ({"scope": "World"}, 'spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'),
        ({"names": {"plural": "things", "kind": "Th ing"}}, 'spec.names.singular: Invalid value: "th ing": a DNS-1035'),
        ({"versions": []}, "spec.versions: Required value: must have at least one version"),
        ({"version": {"storage": False}}, "must have exactly one version marked as storage version"),
        ({"version": {"schema": None}}, "versions[0].schema.openAPIV3Schema: Required value: schemas are required"),
        ({"version": {"schema": {"openAPIV3Schema": {}}}}, "type: Required value: must not be empty at the root"),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy: Forbidden: "),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
        (
            {"version": {"subresources": {"scale": {"specReplicasPath": ".n", "statusReplicasPath": ".status.n"}}}},
            'scale.specReplicasPath: Invalid value: ".n": should be a json path under .spec',
        ),
        (
            {"version": {"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]}},
            'additionalPrinterColumns[0].type: Unsupported value: "text"',
        ),
        (
            {"version": {"selectableFields": [{"jsonPath": ".spec.a"}]}},
            "selectableFields[0].jsonPath: Invalid value",
        ),
    ],
)  # fmt: skip
def test_definitions_that_are_refused(spec: dict[str, Any], expected: str | list[str]) -> None:
    found = [str(cause) for cause in apiextensions.validate(definition(**spec))]
    assert found == [] if expected == [] else any(str(expected) in problem for problem in found), found


def test_groups_of_the_community_need_its_approval() -> None:
    made = definition(group="x.k8s.io")
    made.metadata.name = "things.x.k8s.io"
    (cause,) = apiextensions.validate(made)
    assert cause.reason == "FieldValueRequired"
    made.metadata.annotations["api-approved.kubernetes.io"] = "https://example.com/approved"
    assert apiextensions.validate(made) == []


def test_a_name_belongs_to_whoever_came_first() -> None:
    """A definition whose kind or short name another one has is not established until it is free."""
    made = definition(names={"plural": "things", "kind": "Thing", "shortNames": ["th"]})
    first = Names(plural="thongs", singular="thong", kind="Thing", short_names=["th"])
    refused = customnames.with_names(made, customnames.taken([first]), NOW)
    accepted, established = refused.status.condition("NamesAccepted"), refused.status.condition("Established")
    assert accepted
    assert (accepted.status, accepted.reason) == ("False", "ShortNamesConflict")
    assert accepted.message == '"th" is already in use'
    assert established
    assert (established.status, established.reason) == ("False", "NotAccepted")
    assert refused.status.accepted_names
    assert refused.status.accepted_names.kind == ""

    free = customnames.with_names(refused, Taken(), LATER)
    assert free.status.is_true("NamesAccepted")
    assert free.status.is_true("Established")
    assert free.status.accepted_names == made.spec.names
    assert customnames.with_names(free, Taken(), "even later").status == free.status


def test_what_is_established_stays_so_when_it_asks_for_more() -> None:
    made = customnames.with_names(definition(), Taken(), NOW)
    made.spec.names.short_names = ["po"]
    greedy = customnames.with_names(made, Taken(frozenset({"po"})), LATER)
    assert not greedy.status.is_true("NamesAccepted")
    assert greedy.status.is_true("Established")
    assert greedy.status.accepted_names
    assert greedy.status.accepted_names.short_names == []


_WORDS = sorted({info.alias or name for name, info in JSONSchemaProps.model_fields.items()})
_TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "odd"])


def _schemas() -> st.SearchStrategy[dict[str, Any]]:
    small = st.booleans() | st.integers(-3, 3) | st.text(max_size=4) | st.lists(st.text(max_size=2), max_size=2)
    leaf = st.fixed_dictionaries({"type": _TYPES}) | st.dictionaries(st.sampled_from(_WORDS), small, max_size=3)

    def deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        named = st.dictionaries(st.sampled_from(["a", "b", "metadata", "kind"]), inner, max_size=3)
        parts = {"properties": named, "items": inner, "additionalProperties": inner, "not": inner, "default": inner}
        lists = {word: st.lists(inner, max_size=2) for word in ("allOf", "anyOf", "oneOf")}
        return st.fixed_dictionaries({"type": _TYPES}, optional={**parts, **lists})

    return st.recursive(leaf, deeper, max_leaves=8)


@given(
    _schemas(), st.dictionaries(st.sampled_from(["a", "b", "kind"]), st.none() | st.integers() | st.text(max_size=3))
)
def test_any_schema_is_refused_or_served(schema: dict[str, Any], content: dict[str, Any]) -> None:
    """Whatever is sent as a schema, there is an answer; and what is accepted can be served and asked."""
    root = {"type": "object", "properties": {"spec": schema}}
    try:
        made = definition(version={"schema": {"openAPIV3Schema": root}})
    except ValidationError:
        return
    if apiextensions.validate(made):
        return
    (kind,) = customkinds.kinds(made)
    obj = kind.model.from_dict({"metadata": {"name": "x", "namespace": "y"}, "spec": content})
    kind.strategy.default(obj)
    kind.strategy.validate_create(obj)
    assert Documents(Registry(kind)).all()  # type: ignore[arg-type]  # a registry holds kinds of any model
