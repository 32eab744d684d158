"""Answers made of stored bytes say what decoding and writing out would; caches are bounded and never stale."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.core import ConfigMap, Event, Pod
from kubeapi.resource import ResourceType
from kubeapi.resources import REGISTRY
from kubeapi.server.entities import Entities, Entity, encode
from metastore.api import Key, Row

PODS: ResourceType[Any] = REGISTRY.of(Pod)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)


def row(value: bytes, revision: int = 7, name: str = "web") -> Row:
    return Row(Key("pods", "demo", name), "u1", revision, 1, value)


def values() -> list[bytes]:
    meta = {"name": "web", "namespace": "demo", "labels": {"a": 'quo"ted', "b": "{}"}}
    spelled = {"kind": "Pod", "apiVersion": "v1", "metadata": {**meta, "resourceVersion": "3"}, "spec": {}}
    holder = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "involvedObject": {"resourceVersion": "5"}}
    return [
        encode(Pod.from_dict({"metadata": meta, "spec": {"containers": []}})),
        encode(Pod()),
        orjson.dumps(spelled),
        orjson.dumps(holder),
        json.dumps({**holder, "involvedObject": {}}, indent=1).encode(),
    ]


@pytest.mark.parametrize("value", values())
@pytest.mark.parametrize("revision", [0, 7])
def test_spliced_bytes_are_the_decoded_object(value: bytes, revision: int) -> None:
    entity = Entity(PODS, row(value, revision))
    assert orjson.loads(entity.json) == entity.data
    shown = {key: item for key, item in entity.data.items() if key not in ("apiVersion", "kind")}
    assert orjson.loads(entity.item_json) == shown
    assert entity.json.count(b'"resourceVersion"') == orjson.dumps(entity.data).count(b'"resourceVersion"')
    if revision:
        assert entity.data["metadata"]["resourceVersion"] == "7"


def test_of_other_kinds_too() -> None:
    event = Event.from_dict({"metadata": {"name": "e"}, "involvedObject": {"resourceVersion": "5"}})
    for obj in (event, ConfigMap.from_dict({"metadata": {"name": "c"}, "data": {"resourceVersion": "x"}})):
        entity: Entity[Any] = Entity(REGISTRY.of(type(obj)), row(encode(obj)))
        assert orjson.loads(entity.json) == entity.data
        assert entity.obj.kind == obj.kind


def test_an_entity_is_made_once_and_only_for_its_row() -> None:
    entities = Entities()
    first = entities.of(PODS, row(b"{}"))
    assert entities.of(PODS, row(b"{}")) is first
    assert entities.of(PODS, row(b"[]")) is not first  # the store was restored: another history's revision 7


def test_a_page_is_made_once_and_pages_are_bounded() -> None:
    entities = Entities(capacity=4)
    rows = (row(b"{}", 1, "a"), row(b"{}", 2, "b"))
    page = entities.page(PODS, "demo", rows)
    assert entities.page(PODS, "demo", rows) is page
    assert entities.page(PODS, "demo", rows[:1]) is not page
    for number in range(9):
        assert len(entities.page(PODS, f"n{number}", rows)) == 2
        assert entities._paged == sum(len(held) for held, _ in entities._pages.values()) <= 4
    assert len(entities.page(PODS, "large", tuple(row(b"{}", n) for n in range(1, 9)))) == 8
    assert entities._paged <= 4


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), _nested, max_leaves=12))
def test_a_copy_is_equal_and_shares_nothing_that_changes(extra: Any) -> None:
    """Undeclared fields included; entries of managedFields are shared, since nobody changes them."""
    container = {"name": "c", "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "0.5"}}}
    meta = {"name": "web", "labels": {"a": "b"}, "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]}
    first = Pod.from_dict({"metadata": meta, "spec": {"containers": [container], "beyond": extra}, "also": extra})
    before, copy = first.to_dict(), first.copied()
    assert copy == first
    assert copy.to_dict() == before
    assert copy.model_fields_set == first.model_fields_set
    copy.metadata.labels["a"] = "c"
    copy.spec.containers[0].resources = None
    (copy.spec.model_extra or {})["beyond"] = "else"
    _spoil((copy.model_extra or {}).get("also"))
    copy.metadata.name = ""
    assert first.to_dict() == before
    assert copy.metadata.managed_fields is first.metadata.managed_fields


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            _spoil(item)
        value.append("spoilt")
