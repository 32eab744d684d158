"""Who owns which field: sets, merging, updates, applies (as recorded of a real server, and by their laws)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi import fieldset, fieldwalk, managedfields
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.fieldset import Fields
from kubeapi.managedfields import APPLY, Endpoint, Entries, Manager
from kubeapi.shapes import CORE, SchemaShape

_STATES = Path(__file__).parents[2] / "data" / "kubernetes" / "resize-states"
NOW = "2026-11-30T21:53:26Z"
POD = Endpoint(has_status=True)
RESIZE = Endpoint(subresource="resize", has_status=True)
ALICE, BOB = Manager("alice", operation=APPLY), Manager("bob", operation=APPLY)


def containers(*items: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": list(items)},
    }


def applied(
    config: dict[str, Any], live: dict[str, Any], entries: Entries = (), who: Manager = ALICE, **more: Any
) -> managedfields.Applied:
    return managedfields.apply(live, config, entries, who, POD, NOW, **more)


EMPTY: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}, "status": {}}


def without_probe_times(fields: Any) -> Any:
    """We do not store `lastProbeTime: null`."""
    return {name: without_probe_times(node) for name, node in fields.items() if name != "f:lastProbeTime"}


@pytest.mark.parametrize("name", ["02_just_after_patch", "12_restart_policy_mem"])
def test_a_pod_s_life_is_owned_as_recorded(name: str) -> None:
    """Created by one, resized by a second, reported by the kubelet: each entry as the real server has it."""
    recorded = json.loads((_STATES / f"{name}.json").read_text())
    expected = {item.get("subresource", ""): item["fieldsV1"] for item in recorded["metadata"].pop("managedFields")}
    final = Pod.from_dict(recorded).to_dict()
    defaulted_later = ("priority", "preemptionPolicy")
    final["spec"] = {key: value for key, value in final["spec"].items() if key not in defaulted_later}
    resized = "memory" if "restart" in name else "cpu"
    first = copy.deepcopy({**final, "status": {}})
    first["spec"]["containers"][0]["resources"]["requests"][resized] = "1"
    one, two, three = Manager("one"), Manager("two", subresource="resize"), Manager("three", subresource="status")
    entries = managedfields.update(EMPTY, first, (), one, POD, NOW)
    second = {**final, "status": {}}
    entries = managedfields.update(first, second, entries, two, RESIZE, NOW)
    entries = managedfields.update(second, final, entries, three, Endpoint(subresource="status", has_status=True), NOW)
    found = {entry.manager.subresource: entry.fields for entry in entries}
    found["status"]["f:status"].pop("f:qosClass")
    if name == "12_restart_policy_mem":
        found["status"]["f:status"]["f:resources"]["f:requests"].pop("f:cpu", None)
    assert found["resize"] == expected["resize"]
    assert found["status"] == without_probe_times(expected["status"])
    # `containers: null` of an empty Go pod is why the list is not its creator's.
    assert found[""] == expected[""]


def test_two_appliers_share_what_they_agree_on_and_conflict_where_not() -> None:
    first = applied(containers({"name": "c", "image": "a"}), EMPTY)
    shared = applied(containers({"name": "c", "image": "a"}), first.data, first.entries, BOB)
    assert [entry.manager.name for entry in shared.entries] == ["alice", "bob"]
    with pytest.raises(ApiError) as refused:
        applied(containers({"name": "c", "image": "b"}, labels={"x": "1"}), shared.data, shared.entries, BOB)
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "alice": .spec.containers[name="c"].image'
    )
    forced = applied(containers({"name": "c", "image": "b"}), shared.data, shared.entries, BOB, force=True)
    assert forced.data["spec"]["containers"] == [{"name": "c", "image": "b"}]
    theirs = {entry.manager.name: entry.fields for entry in forced.entries}
    assert theirs["alice"]["f:spec"]["f:containers"] == {'k:{"name":"c"}': {".": {}, "f:name": {}}}


def test_several_conflicts_are_listed_by_manager() -> None:
    live = containers({"name": "c", "image": "a", "workingDir": "/"}, labels={"x": "1"})
    entries = managedfields.update(EMPTY, live, (), Manager("hand"), POD, NOW)
    with pytest.raises(ApiError) as refused:
        applied(containers({"name": "c", "image": "b"}, labels={"x": "2"}), live, entries)
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "hand" using v1:\n'
        '- .metadata.labels.x\n- .spec.containers[name="c"].image'
    )
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == [
        ".metadata.labels.x",
        '.spec.containers[name="c"].image',
    ]


def test_what_is_no_longer_applied_goes_unless_another_owns_it() -> None:
    both = applied(containers({"name": "a", "image": "x"}, {"name": "b", "image": "y"}, labels={"l": "1"}), EMPTY)
    kept = applied(containers({"name": "b", "image": "y"}), both.data, both.entries, BOB)
    left = applied(containers({"name": "a", "image": "x"}), kept.data, kept.entries)
    assert [item["name"] for item in left.data["spec"]["containers"]] == ["a", "b"]
    assert "labels" not in left.data["metadata"]
    alone = applied(containers({"name": "a", "image": "x"}), left.data, left.entries, BOB)
    assert [item["name"] for item in alone.data["spec"]["containers"]] == ["a"]


def test_an_apply_that_changes_nothing_leaves_the_time() -> None:
    first = applied(containers({"name": "c", "image": "a"}), EMPTY)
    again = managedfields.apply(first.data, containers({"name": "c", "image": "a"}), first.entries, ALICE, POD, "later")
    assert again.entries == first.entries


def test_an_object_of_before_belongs_to_before_first_apply() -> None:
    live = containers({"name": "c", "image": "a"})
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using v1'):
        applied(containers({"name": "c", "image": "b"}), live)


def test_updaters_are_bounded() -> None:
    entries: Entries = ()
    old: dict[str, Any] = {"metadata": {}, "data": {}}
    for number in range(30):
        new = {"metadata": {}, "data": {**old["data"], f"k{number}": "x"}}
        entries = managedfields.update(
            old, new, entries, Manager(f"m{number}"), Endpoint(), f"2026-11-30T00:00:{number:02}Z"
        )
        old = new
    assert len(entries) <= managedfields.MAX_UPDATERS
    ancient = next(entry for entry in entries if entry.manager.name == managedfields.ANCIENT)
    owned = ancient.fields
    for entry in entries:
        owned = fieldset.union(owned, entry.fields)
    assert set(owned["f:data"]) - {"."} == {f"f:k{number}" for number in range(30)}


def test_applied_order_wins_and_others_stay_between() -> None:
    def order(live: str, config: str) -> str:
        merged = fieldwalk.merge(
            {"env": [{"name": name} for name in live]}, {"env": [{"name": name} for name in config]}, CORE
        )
        return "".join(item["name"] for item in merged["env"])

    assert order("abc", "ca") == "bca"
    assert order("ab", "xa") == "xab"
    assert order("ab", "ax") == "abx"
    assert order("", "ab") == "ab"


def test_a_schema_of_one_s_own_says_how_lists_merge() -> None:
    items = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    shape = SchemaShape({"properties": {"spec": {"properties": {"items": items, "plain": {"type": "array"}}}}})
    data = {"metadata": {"finalizers": ["a"]}, "spec": {"items": [{"id": 1, "x": 2}], "plain": [1, 2]}}
    assert fieldwalk.field_set(data, shape) == {
        "f:metadata": {"f:finalizers": {'v:"a"': {}}},
        "f:spec": {"f:items": {'k:{"id":1}': {".": {}, "f:id": {}, "f:x": {}}}, "f:plain": {}},
    }


# Laws

_leaf = st.integers(0, 3)
_item = st.dictionaries(st.sampled_from(["image", "workingDir"]), _leaf, max_size=2)
_list = st.dictionaries(st.sampled_from("abc"), _item, max_size=3).map(
    lambda found: [{"name": name, **item} for name, item in found.items()]
)
_spec = st.fixed_dictionaries(
    {}, optional={"containers": _list, "nodeName": _leaf, "tolerations": st.lists(_leaf, max_size=2)}
)
_objects = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"labels": st.dictionaries(st.sampled_from("xyz"), _leaf)})},
    optional={"spec": _spec},
)


@given(_objects, _objects)
def test_sets_obey_their_laws(one: dict[str, Any], two: dict[str, Any]) -> None:
    a, b = fieldwalk.field_set(one, CORE), fieldwalk.field_set(two, CORE)
    assert listed(fieldset.union(a, b)) == listed(a) | listed(b)
    assert listed(fieldset.difference(a, b)) == listed(a) - listed(b)
    assert listed(fieldset.intersection(a, b)) == listed(a) & listed(b)
    assert fieldset.well_formed(fieldset.ordered(fieldset.union(a, b)))


def listed(fields: Fields) -> set[fieldset.Path]:
    return set(fieldset.paths(fields))


@given(_objects, _objects)
def test_a_difference_is_empty_only_between_equals(one: dict[str, Any], two: dict[str, Any]) -> None:
    before = copy.deepcopy((one, two))
    found = fieldwalk.compare(one, two, CORE)
    assert (one, two) == before
    if not found.changed and not found.removed:
        # Only an order of a list with keys is no difference.
        assert fieldwalk.field_set(one, CORE) == fieldwalk.field_set(two, CORE)
    back = fieldwalk.compare(two, one, CORE)
    assert bool(back.changed or back.removed) == bool(found.changed or found.removed)


@given(_objects, _objects, _objects)
def test_forced_applies_leave_what_was_applied(live: dict[str, Any], one: dict[str, Any], two: dict[str, Any]) -> None:
    first = managedfields.apply(live, one, (), ALICE, Endpoint(), NOW, force=True)
    second = managedfields.apply(first.data, two, first.entries, ALICE, Endpoint(), NOW, force=True)
    assert not fieldwalk.compare(second.data, fieldwalk.merge(second.data, two, CORE), CORE).changed
    again = managedfields.apply(second.data, two, second.entries, ALICE, Endpoint(), NOW)
    assert again == second
