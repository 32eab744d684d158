"""What the API says to affinities, spreading and gates: refused when they come, narrowed behind a gate."""

from __future__ import annotations

from typing import Any

import pytest

from kubeapi.core import Pod
from kubeapi.podupdate import validate_pod_update
from kubeapi.podvalidation import validate_pod_create

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GATE = {"schedulingGates": [{"name": "example.com/wait"}]}


def pod(**spec: Any) -> Pod:
    container = {"name": "vm", "image": "copepod/micro:1"}
    return Pod.from_dict(
        {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]} | spec}
    )


def zone(*values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "zone", "operator": operator, "values": list(values)}


def by_node(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def by_pod(term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"} | term]}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (by_node(), f"nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one"),
        (
            by_node({"matchExpressions": [zone()]}),
            "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (by_node({"matchExpressions": [zone("a", operator="Near")]}), "not a valid selector operator"),
        (by_node({"matchFields": [zone("a")]}), 'key: Invalid value: "zone": not a valid field selector key'),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}},
            f"nodeAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
        ),
        (by_pod({"topologyKey": ""}), f"podAntiAffinity.{REQUIRED}[0].topologyKey: Required value: can not be empty"),
        (
            by_pod({"matchLabelKeys": ["rev"]}),
            f"{REQUIRED}[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        (
            {
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]
                * 2
            },
            'spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"',
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
                ]
            },
            "Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
        ),
        ({"schedulingGates": [{"name": ""}]}, "spec.schedulingGates[0]: Required value"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], words: str) -> None:
    assert any(words in str(cause) for cause in validate_pod_create(pod(**spec)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "1", "b": "2"}}),
        ({}, by_node({"matchExpressions": [zone("a")]})),
        (
            by_node({"matchExpressions": [zone("a", "b")]}),
            by_node({"matchExpressions": [zone("a", "b"), zone("a")]}),
        ),
        (GATE, {"schedulingGates": []}),
    ],
)
def test_behind_a_gate_a_pod_may_be_narrowed(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert [str(cause) for cause in validate_pod_update(pod(**GATE | after), pod(**GATE | before))] == []
    if "schedulingGates" not in after:
        assert validate_pod_update(pod(**after), pod(**before)) != [], "without a gate it may not"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, "only additions to spec.nodeSelector are allowed"),
        (by_node({"matchExpressions": [zone("a")]}), {}, "no additions/deletions to non-empty NodeSelectorTerms list"),
        (
            by_node({"matchExpressions": [zone("a")]}),
            by_node({"matchExpressions": [zone("a", "b")]}),
            "only additions are allowed (no mutations or deletions)",
        ),
        ({}, by_pod({}), "pod updates may not change fields other than"),
        ({}, {"schedulingGates": [{"name": "example.com/more"}]}, "only deletion is allowed, but found new"),
    ],
)
def test_but_not_widened(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    causes = validate_pod_update(pod(**GATE | after), pod(**GATE | before))
    assert any(words in str(cause) for cause in causes)
