"""Objects survive the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.core import ConfigMap, Container, Pod, PodSpec
from kubeapi.meta import ObjectMeta, camel

DATA = Path(__file__).parents[2] / "data" / "kubernetes"
STATES = sorted((DATA / "resize-states").glob("[0-9]*.json"))


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", STATES, ids=[path.stem for path in STATES])
def test_recorded_pods_round_trip(path: Path) -> None:
    data = json.loads(path.read_text())
    assert Pod.from_json(path.read_bytes()).to_dict() == _without_null(data)


def test_empty_objects_are_kept_and_empty_lists_are_not() -> None:
    data = {"spec": {"securityContext": {}, "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": []}}
    spec = Pod.from_dict(data).to_dict()["spec"]
    assert spec == {"securityContext": {}, "volumes": [{"name": "v", "emptyDir": {}}]}


def test_null_means_unset() -> None:
    meta = ObjectMeta.from_dict({"name": "a", "labels": None, "creationTimestamp": None})
    assert meta.labels == {}
    assert meta.to_dict() == {"name": "a"}


def test_python_names_work_too_and_changes_in_place_are_written() -> None:
    pod = Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(node_name="n", containers=[Container(name="c")]))
    pod.metadata.labels["x"] = "y"
    assert pod.to_dict()["metadata"] == {"name": "a", "labels": {"x": "y"}}
    assert pod.to_dict()["spec"]["nodeName"] == "n"


def test_a_copy_is_independent() -> None:
    pod = Pod(metadata=ObjectMeta(name="a", labels={"x": "1"}))
    copy = pod.copied()
    copy.metadata.labels["x"] = "2"
    assert pod.metadata.labels == {"x": "1"}


def test_acronyms() -> None:
    names = ("pod_ip", "host_ips", "container_id", "observed_generation", "os_image")
    assert [camel(name) for name in names] == ["podIP", "hostIPs", "containerID", "observedGeneration", "osImage"]


json_values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"x[a-zA-Z]{1,8}", fullmatch=True), json_values, max_size=4))
def test_unknown_fields_survive(extra: dict[str, Any]) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}, **extra}
    assert ConfigMap.from_json(ConfigMap.from_dict(data).to_json()).to_dict() == data


@pytest.mark.parametrize(
    "text", ["now", "2026-11-30", "2026-11-30T21:59:26", "2026-13-30T21:59:26Z", "0001-01-01T00:00:00+14:00", "²"]
)
def test_a_time_is_one_wherever_it_is_read(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        Pod.from_dict({"metadata": {"creationTimestamp": text}})
    with pytest.raises(ValueError, match="parsing time"):
        Pod.from_dict({"status": {"startTime": text}})


@pytest.mark.parametrize("text", ["", "2026-11-30T21:59:26Z", "2026-11-30T21:59:26.123456+02:00"])
def test_times_are_kept_as_they_came(text: str) -> None:
    assert Pod.from_dict({"status": {"startTime": text}}).status.start_time == text
