"""What is counted for a pod, and its quality of service class."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi import qos
from kubeapi.core import Pod
from kubeapi.podresources import Amounts, limits, node_counted, requests, scheduler_counted

MIB = 1024 * 1024


def pod(spec: dict[str, Any], **status: Any) -> Pod:
    return Pod.from_dict({"spec": spec, "status": status})


def container(cpu: str = "", memory: str = "", name: str = "c", **more: Any) -> dict[str, Any]:
    asked = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"name": name, "resources": {"requests": asked, "limits": asked}, **more}


def test_containers_add_up_with_overhead() -> None:
    spec = {
        "containers": [container("250m", "64Mi", "a"), container("1", "32Mi", "b")],
        "overhead": {"cpu": "50m", "memory": "40Mi"},
    }
    assert requests(pod(spec)) == Amounts(1300, 136 * MIB)
    assert limits(pod(spec)) == Amounts(1300, 136 * MIB)


def test_init_containers_run_before_and_sidecars_alongside() -> None:
    init = [
        container("2", "10Mi", "i1"),
        container("100m", "10Mi", "side", restartPolicy="Always"),
        container("1", "200Mi", "i2"),
    ]
    spec = {"containers": [container("500m", "64Mi")], "initContainers": init}
    assert requests(pod(spec)) == Amounts(2000, 210 * MIB), "cpu peaks in i1, memory in i2 beside the sidecar"


def test_pod_level_resources_replace_the_sum() -> None:
    spec = {"containers": [container("500m", "64Mi")], "resources": {"requests": {"cpu": "2"}}}
    assert requests(pod(spec)) == Amounts(2000, 64 * MIB)


def _resizing(spec: str, allocated: str, actual: str, reason: str | None = None) -> Pod:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    status = {
        "name": "c",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}},
    }
    return pod(
        {"containers": [container(spec)], "overhead": {"cpu": "10m"}},
        containerStatuses=[status],
        conditions=conditions,
    )


@pytest.mark.parametrize(
    ("wished", "allocated", "actual", "reason", "scheduler", "node"),
    [
        ("700m", "400m", "400m", None, 710, 410),
        ("700m", "400m", "400m", "Deferred", 710, 410),
        ("700m", "400m", "400m", "Infeasible", 410, 410),
        ("200m", "200m", "400m", None, 410, 410),
        ("200m", "400m", "300m", None, 410, 410),
        ("400m", "400m", "400m", None, 410, 410),
    ],
)
def test_a_resize_counts_the_largest(
    wished: str, allocated: str, actual: str, reason: str | None, scheduler: int, node: int
) -> None:
    resizing = _resizing(wished, allocated, actual, reason)
    assert scheduler_counted(resizing).cpu == scheduler
    assert node_counted(resizing).cpu == node


def test_a_pod_that_no_node_has_admitted_counts_its_spec() -> None:
    fresh = pod({"containers": [container("300m", "64Mi")]})
    assert node_counted(fresh) == scheduler_counted(fresh) == Amounts(300, 64 * MIB)


def test_pod_level_counts_allocated_too() -> None:
    resizing = pod(
        {"containers": [container()], "resources": {"requests": {"cpu": "1"}}},
        allocatedResources={"cpu": "2"},
        resources={"requests": {"cpu": "1500m"}},
    )
    assert scheduler_counted(resizing).cpu == node_counted(resizing).cpu == 2000


sizes = st.integers(0, 4000).map(lambda millis: f"{millis}m")


@given(sizes, sizes, sizes, st.sampled_from([None, "Deferred", "Infeasible"]))
def test_the_scheduler_never_counts_less_than_the_node(
    wished: str, allocated: str, actual: str, reason: str | None
) -> None:
    resizing = _resizing(wished, allocated, actual, reason)
    assert node_counted(resizing).fits(scheduler_counted(resizing))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "c"}]}, "BestEffort"),
        ({"containers": [container("0", "0")]}, "BestEffort"),
        ({"containers": [container("1", "1Gi")]}, "Guaranteed"),
        ({"containers": [container("1")]}, "Burstable"),
        ({"containers": [container("1", "1Gi"), {"name": "d"}]}, "Burstable"),
        ({"containers": [container("1", "1Gi")], "initContainers": [{"name": "i"}]}, "Burstable"),
        ({"containers": [container("1", "1Gi")], "initContainers": [container("1", "1Gi")]}, "Guaranteed"),
        ({"containers": [{"name": "c"}], "resources": container("1", "1Gi")["resources"]}, "Guaranteed"),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "resources": {
                            "requests": {"cpu": "1000m", "memory": "1024Mi"},
                            "limits": {"cpu": "1", "memory": "1Gi"},
                        },
                    }
                ]
            },
            "Guaranteed",
        ),
    ],
)
def test_qos_class(spec: dict[str, Any], expected: str) -> None:
    assert qos.compute(pod(spec).spec) == expected
    assert qos.qos_class(pod(spec)) == expected
    assert qos.qos_class(pod(spec, qosClass="X")) == "X"
