"""Patches: merge (RFC 7386), JSON (RFC 6902), strategic; and their errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.jsonpatch import JsonPatchError, json_patch, merge_patch
from kubeapi.patch import JSON, MERGE, STRATEGIC, apply_patch
from kubeapi.strategic import PatchError, go_format, strategic_merge

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [  # the examples of RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_rfc_7386(original: Any, patch: Any, result: Any) -> None:
    assert merge_patch(original, patch) == result


@given(json_values, json_values)
def test_merge_patch_twice_is_once(original: Any, patch: Any) -> None:
    once = merge_patch(original, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("original", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "q"}], {"foo": "bar", "baz": "q"}),
        ({"foo": ["a", "c"]}, [{"op": "add", "path": "/foo/1", "value": "b"}], {"foo": ["a", "b", "c"]}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/-", "value": ["b"]}], {"foo": ["a", ["b"]]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/1"}], {"a": [1, 3]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"a/b": 1, "m~n": 2}, [{"op": "test", "path": "/a~1b", "value": 1}], {"a/b": 1, "m~n": 2}),
        ({"m~n": 2}, [{"op": "remove", "path": "/m~0n"}], {}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_json_patch_rfc_6902(original: Any, operations: Any, result: Any) -> None:
    before = orjson.dumps(original)
    assert json_patch(original, operations) == result
    assert orjson.dumps(original) == before


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add"},
        ["x"],
        [{"op": "jump", "path": "/a"}],
        [{"op": "remove", "path": "/nope"}],
        [{"op": "replace", "path": "/nope", "value": 1}],
        [{"op": "add", "path": "/nope/deep", "value": 1}],
        [{"op": "add", "path": "/list/9", "value": 1}],
        [{"op": "add", "path": "/list/01", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "test", "path": "/a", "value": True}],
        [{"op": "move", "from": "/list", "path": "/list/0"}],
        [{"op": "remove", "path": ""}],
        [{"op": "copy", "path": "/b"}],
    ],
)
def test_json_patch_refuses_whole(operations: Any) -> None:
    original = {"a": 1, "list": [1]}
    with pytest.raises(JsonPatchError):
        json_patch(original, operations)
    assert original == {"a": 1, "list": [1]}


@given(objects, st.sampled_from("abcd"), json_values)
def test_json_patch_add_then_remove(original: dict[str, Any], key: str, value: Any) -> None:
    added = json_patch(original, [{"op": "add", "path": f"/{key}", "value": value}])
    assert added == {**original, key: value}
    removed = json_patch(added, [{"op": "remove", "path": f"/{key}"}])
    assert removed == {name: item for name, item in original.items() if name != key}


def _containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": f"i-{name}"} for name in names]}}


def _names(data: dict[str, Any]) -> list[str]:
    return [item["name"] for item in data["spec"]["containers"]]


def test_containers_merge_by_name() -> None:
    merged = strategic_merge(
        _containers("a", "b"), {"spec": {"containers": [{"name": "b", "image": "new", "args": ["x"]}]}}
    )
    assert merged["spec"]["containers"] == [
        {"name": "a", "image": "i-a"},
        {"name": "b", "image": "new", "args": ["x"]},
    ]


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        (["b", "a"], ["b", "a", "c"]),
        (["c"], ["a", "b", "c"]),
        (["z"], ["z", "a", "b", "c"]),
        (["c", "a"], ["b", "c", "a"]),
    ],
)
def test_named_items_come_in_the_patchs_order(patch: list[str], order: list[str]) -> None:
    data = {"spec": {"containers": [{"name": name} for name in patch]}}
    assert _names(strategic_merge(_containers("a", "b", "c"), data)) == order


def test_set_element_order() -> None:
    order = [{"name": "c"}, {"name": "a"}]
    patch = {"spec": {"$setElementOrder/containers": order, "containers": [{"name": "a", "image": "n"}]}}
    merged = strategic_merge(_containers("a", "b", "c"), patch)
    assert _names(merged) == ["b", "c", "a"]
    only_order = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert _names(strategic_merge(_containers("a", "b"), only_order)) == ["b", "a"]
    assert "$setElementOrder/containers" not in merged["spec"]


def test_set_element_order_must_name_what_is_patched() -> None:
    patch = {"spec": {"$setElementOrder/containers": [], "containers": [{"name": "a"}]}}
    with pytest.raises(PatchError):
        strategic_merge(_containers("a"), patch)


def test_directives() -> None:
    delete = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert _names(strategic_merge(_containers("a", "b"), delete)) == ["b"]
    replace = {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}
    assert _names(strategic_merge(_containers("a", "b"), replace)) == ["z"]
    whole = {"metadata": {"labels": {"$patch": "replace", "x": "1"}}}
    assert strategic_merge({"metadata": {"labels": {"y": "2"}}}, whole) == {"metadata": {"labels": {"x": "1"}}}
    emptied = {"metadata": {"labels": {"$patch": "delete"}}}
    assert strategic_merge({"metadata": {"labels": {"y": "2"}}}, emptied) == {"metadata": {"labels": {}}}
    with pytest.raises(PatchError, match="Unknown patch type found: odd"):
        strategic_merge({}, {"$patch": "odd"})


def test_retain_keys() -> None:
    old = {"volumes": [{"name": "v", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}
    assert strategic_merge(old, patch) == {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}
    bad = {"volumes": [{"name": "v", "$retainKeys": ["name"], "configMap": {}}]}
    with pytest.raises(PatchError, match="retainKeys"):
        strategic_merge(old, bad)


def test_finalizers_merge_as_a_set_and_tolerations_are_atomic() -> None:
    old = {"metadata": {"finalizers": ["a/b", "c/d"]}, "spec": {"tolerations": [{"key": "x"}]}}
    merged = strategic_merge(old, {"metadata": {"finalizers": ["e/f"]}, "spec": {"tolerations": [{"key": "y"}]}})
    assert sorted(merged["metadata"]["finalizers"]) == ["a/b", "c/d", "e/f"]
    assert merged["spec"]["tolerations"] == [{"key": "y"}]
    gone = strategic_merge(old, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}})
    assert gone["metadata"]["finalizers"] == ["c/d"]


def test_conditions_merge_by_type_and_ports_by_number() -> None:
    old = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "True"}]}}
    new = strategic_merge(old, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert new["status"]["conditions"] == [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]
    ports = strategic_merge({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "name": "w"}]})
    assert ports == {"ports": [{"containerPort": 80, "name": "w"}]}


def test_a_missing_merge_key_is_named() -> None:
    with pytest.raises(PatchError, match=r"map: map\[image:x\] does not contain declared merge key: name"):
        strategic_merge(_containers("a"), {"spec": {"containers": [{"image": "x"}]}})


def test_new_content_has_no_nulls() -> None:
    assert strategic_merge({}, {"spec": {"a": None, "b": {"c": None}}}) == {"spec": {"b": {}}}


@given(objects)
def test_empty_strategic_patch_changes_nothing(original: dict[str, Any]) -> None:
    assert strategic_merge(original, {}) == original


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_no_container_is_lost_or_doubled(old: list[str], patched: list[str]) -> None:
    data = {"spec": {"containers": [{"name": name} for name in patched]}}
    names = _names(strategic_merge(_containers(*old), data))
    assert sorted(names) == sorted({*old, *patched})
    assert [name for name in names if name in patched] == patched, "the patch's order holds"


def test_go_format() -> None:
    assert go_format({"b": [1, "x", None], "a": True}) == "map[a:true b:[1 x <nil>]]"


POD = Pod.from_dict({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (MERGE, b'{"metadata":{"labels":{"a":"b"}}}'),
        (STRATEGIC, b'{"metadata":{"labels":{"a":"b"}}}'),
        (f"{STRATEGIC}; charset=utf-8", b'{"metadata":{"labels":{"a":"b"}}}'),
        (JSON, b'[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]'),
    ],
)
def test_content_types(content_type: str, body: bytes) -> None:
    assert apply_patch(POD, content_type, body).metadata.labels == {"a": "b"}
    assert POD.metadata.labels == {}


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("application/json", b"{}", 415),
        ("", b"{}", 415),
        (MERGE, b"[]", 400),
        (STRATEGIC, b'"x"', 400),
        (STRATEGIC, b"{", 400),
        (STRATEGIC, b'{"spec":{"containers":[{"image":"x"}]}}', 400),
        (JSON, b"{}", 400),
        (JSON, b'[{"op":"remove","path":"/nope"}]', 422),
        (JSON, b'[{"op":"replace","path":"","value":3}]', 400),
        (JSON, orjson.dumps([{"op": "test", "path": "", "value": 1}] * 10_001), 413),
        (MERGE, b'{"spec":{"containers":3}}', 422),
        (MERGE, b'{"metadata":{"labels":{"a":1}}}', 422),
    ],
)
def test_refused_patches(content_type: str, body: bytes, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        apply_patch(POD, content_type, body)
    assert caught.value.code == code


def test_ports_are_merged_by_what_they_belong_to() -> None:
    service = {"spec": {"ports": [{"port": 80, "targetPort": 1}, {"port": 81}]}}
    patch = {"spec": {"ports": [{"port": 80, "targetPort": 2}]}}
    assert strategic_merge(service, patch) == {"spec": {"ports": [{"port": 80, "targetPort": 2}, {"port": 81}]}}
    template = {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
    patch = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]}
    merged = strategic_merge({"spec": {"template": {"spec": template}}}, {"spec": {"template": {"spec": patch}}})
    assert merged == {"spec": {"template": {"spec": patch}}}
    policy = {"spec": {"ingress": [{"ports": [{"port": 1}]}]}, "ports": [{"port": 1}]}
    patch = {"spec": {"ingress": [{"ports": [{"port": 2}]}]}, "ports": [{"port": 2}]}
    assert strategic_merge(policy, patch) == patch


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"name": []}]}},
        {"spec": {"containers": [{"name": {}}]}},
        {"spec": {"$setElementOrder/containers": [1]}},
        {"spec": {"containers": [{"name": "a"}], "$setElementOrder/containers": ["a"]}},
        {"spec": {"containers": [{"name": "a"}], "$setElementOrder/containers": {"a": 1}}},
        {"spec": {"containers": [{"name": "a"}], "$setElementOrder/containers": [{"name": []}]}},
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"finalizers": ["y"], "$setElementOrder/finalizers": [[]]}},
        {"metadata": {"finalizers": ["y"], "$setElementOrder/finalizers": 5}},
    ],
)
def test_a_strategic_patch_that_is_none_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        strategic_merge({"spec": {"containers": [{"name": "a"}]}, "metadata": {"finalizers": ["x"]}}, patch)
