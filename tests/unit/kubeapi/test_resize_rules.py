"""Resize rules that the recordings do not show, and admission against limit ranges (S-69, S-71)."""

from __future__ import annotations

from typing import Any

import pytest

from kubeapi.admission import admit_limits, admit_resize, apply_limit_defaults
from kubeapi.core import LimitRange, Node, Pod
from kubeapi.errors import ApiError
from kubeapi.resize import apply_resize
from kubeapi.resources import PODS


def make(*containers: dict[str, Any], **spec: Any) -> Pod:
    pod = Pod.from_dict(
        {
            "metadata": {"name": "p", "namespace": "demo"},
            "spec": {"containers": [{"image": "i:1", **item} for item in containers], **spec},
        }
    )
    PODS.strategy.default(pod)
    PODS.strategy.prepare_create(pod)
    return pod


def asks(name: str = "c", cpu: str = "100m", memory: str = "64Mi", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def refusal(old: Pod, new: Pod) -> str:
    with pytest.raises(ApiError) as caught:
        apply_resize(old, new)
    assert caught.value.code == 422
    return caught.value.message


def test_s71_containers_may_not_be_reordered_or_renamed() -> None:
    """S-71"""
    old = make(asks("a"), asks("b"))
    assert refusal(old, make(asks("b"), asks("a"))) == (
        'Pod "p" is invalid: [spec.containers[0].name: Forbidden: containers may not be renamed or reordered on '
        "resize, spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize]"
    )
    assert refusal(old, make(asks("a"))) == (
        'Pod "p" is invalid: spec.containers: Forbidden: containers may not be added or removed on resize'
    )


def test_static_pods_are_not_resized() -> None:
    old = make(asks())
    old.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    message = 'Pod "p" is invalid: []: Forbidden: static pods cannot be resized'
    assert refusal(old, make(asks(cpu="200m"))) == message


def test_pod_level_resources_stay_once_set() -> None:
    level = {"requests": {"cpu": "500m", "memory": "128Mi"}, "limits": {"cpu": "1"}}
    old = make(asks(), resources=level)
    assert "spec.resources: Forbidden: pod-level resources cannot be removed" in refusal(old, make(asks()))
    less = make(asks(), resources={"requests": level["requests"]})
    assert refusal(old, less) == (
        'Pod "p" is invalid: spec.resources.limits: Forbidden: pod-level resource limits cannot be removed'
    )


def test_an_init_container_that_restarts_on_resize_is_not_resized() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    init = asks("i", image="i:1", resizePolicy=policy)
    bigger = asks("i", cpu="200m", image="i:1", resizePolicy=policy)
    assert refusal(make(asks(), initContainers=[init]), make(asks(), initContainers=[bigger])) == (
        'Pod "p" is invalid: spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of '
        "RestartContainer cannot be resized"
    )


def test_generation_rises_only_with_a_change() -> None:
    old = make(asks())
    assert apply_resize(old, make(asks())).metadata.generation == 1
    assert apply_resize(old, make(asks(cpu="0.1"))).metadata.generation == 1
    assert apply_resize(old, make(asks(cpu="200m"))).metadata.generation == 2


def _forbidden(pod: Pod, old: Pod, node: Node | None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        admit_resize(pod, old, node)
    assert caught.value.code == 403
    return caught.value


def test_s69_more_than_the_node_is_refused_at_the_door() -> None:
    """S-69: with the limit in the message, and a cause that a machine can read."""
    old = make(asks(), nodeName="n")
    new = apply_resize(old, make(asks(cpu="8"), nodeName="n"))
    node = Node.from_dict(
        {
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"allocatable": {"cpu": "4", "memory": "1Gi"}},
        }
    )
    error = _forbidden(new, old, node)
    assert "cpu, requested: 8000, allocatable: 4000" in error.message
    assert error.details == {"name": "p", "kind": "pods", "causes": [{"reason": "NodeCapacity"}]}
    assert _forbidden(new, old, None).message == 'pods "p" is forbidden: node "n" not found'
    admit_resize(old, old, None)
    unbound = apply_resize(make(asks()), make(asks(cpu="8")))
    admit_resize(unbound, make(asks()), None)


def _range(**limits: Any) -> LimitRange:
    return LimitRange.from_dict({"spec": {"limits": [{"type": "Container", **limits}]}})


@pytest.mark.parametrize(
    ("limits", "container", "problem"),
    [
        ({"min": {"cpu": "200m"}}, asks(), "minimum cpu usage per Container is 200m, but request is 100m"),
        ({"min": {"disk": "1"}}, asks(), "minimum disk usage per Container is 1.  No request is specified"),
        ({"max": {"cpu": "1"}}, asks(), "maximum cpu usage per Container is 1.  No limit is specified"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            asks(),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
    ],
)
def test_limit_ranges(limits: dict[str, Any], container: dict[str, Any], problem: str) -> None:
    with pytest.raises(ApiError) as caught:
        admit_limits(make(container), [_range(**limits)])
    assert caught.value.message == f'pods "p" is forbidden: {problem}'


def test_limit_range_defaults() -> None:
    pod = make({"name": "c"})
    ranges = [_range(default={"cpu": "1"}, defaultRequest={"cpu": "100m", "memory": "32Mi"})]
    apply_limit_defaults(pod, ranges)
    assert pod.spec.containers[0].limits == {"cpu": "1"}
    assert pod.spec.containers[0].requests == {"cpu": "100m", "memory": "32Mi"}
    admit_limits(pod, [*ranges, _range(max={"cpu": "1"}, min={"cpu": "50m"})])
