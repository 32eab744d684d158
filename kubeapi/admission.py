"""Admission that needs to see another object: the node of a resized pod, the limit ranges of a namespace. Pure.

Words are those of the reference's plugins (tests/data/kubernetes/resize-cases.json).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeapi import podresources, quantity
from kubeapi.core import Container, LimitRange, LimitRangeItem, Node, Pod
from kubeapi.errors import ApiError, forbidden
from kubeapi.fields import shown

INIT_CONTAINER_RESIZE = "InPlacePodVerticalScalingInitContainers"
"""The declared feature of a node that can resize init containers which are no sidecars."""
_OS_LABEL = "kubernetes.io/os"


def admit_resize(new: Pod, old: Pod, node: Node | None) -> None:
    """Refuse at the door what the pod's node can never do. `node` is the pod's node, None where it is not known.

    Raises ApiError 403. A pod that is not bound, or does not change, is admitted.
    """
    name = new.spec.node_name
    if not name or new.metadata.generation == old.metadata.generation:
        return
    if node is None:
        raise _refused(new, f"node {shown(name)} not found")
    system = node.metadata.labels.get(_OS_LABEL, "")
    if system != "linux":
        message = f"pod resize is only supported on linux nodes, node {shown(name)} is {shown(system)}"
        raise _refused(new, message, "UnsupportedPlatform")
    if _resizes_init_container(new, old) and INIT_CONTAINER_RESIZE not in node.status.declared_features:
        raise _refused(
            new,
            f"pod update requires features {INIT_CONTAINER_RESIZE} which are not available on node {shown(name)}",
        )
    lacking = _lacking(podresources.requests(new), podresources.allocatable(node.status.allocatable))
    if lacking:
        message = f"node didn't have enough allocatable resources: {lacking}"
        raise _refused(new, message, "NodeCapacity")


def admit_limits(pod: Pod, ranges: Sequence[LimitRange]) -> None:
    """Check containers and the pod against all limit ranges of the namespace. Raises ApiError 403."""
    problems = []
    for limit_range in ranges:
        for item in limit_range.spec.limits:
            if item.type == "Container":
                for container in (*pod.spec.containers, *pod.spec.init_containers):
                    problems += _check_container(container, item)
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise _refused(pod, text)


def apply_limit_defaults(pod: Pod, ranges: Sequence[LimitRange]) -> None:
    """Give containers without limits or requests the namespace's defaults. Changes `pod`, defaulted already."""
    for limit_range in ranges:
        for item in limit_range.spec.limits:
            if item.type != "Container":
                continue
            for container in (*pod.spec.containers, *pod.spec.init_containers):
                if container.resources is None:
                    continue
                for name, amount in item.default.items():
                    container.resources.limits.setdefault(name, amount)
                for name, amount in item.default_request.items():
                    container.resources.requests.setdefault(name, amount)


def _refused(pod: Pod, message: str, cause: str = "") -> ApiError:
    causes: list[dict[str, Any]] = [{"reason": cause}] if cause else []
    return forbidden("pods", pod.metadata.name, message, causes=causes)


def _lacking(asked: podresources.Amounts, room: podresources.Amounts) -> str:
    parts = []
    if asked.cpu > room.cpu:
        parts.append(f"cpu, requested: {asked.cpu}, allocatable: {room.cpu}")
    if asked.memory > room.memory:
        parts.append(f"memory, requested: {asked.memory}, allocatable: {room.memory}")
    return "; ".join(parts)


def _resizes_init_container(new: Pod, old: Pod) -> bool:
    before = {item.name: item.resources for item in old.spec.init_containers}
    return any(
        not podresources.is_sidecar(item) and item.resources != before.get(item.name)
        for item in new.spec.init_containers
    )


def _check_container(container: Container, item: LimitRangeItem) -> list[str]:
    problems = []
    for name, least in sorted(item.min.items()):
        problems += _bound(container, name, "minimum", least, -1)
    for name, most in sorted(item.max.items()):
        problems += _bound(container, name, "maximum", most, 1)
    for name, ratio in sorted(item.max_limit_request_ratio.items()):
        problems += _ratio(container, name, ratio)
    return problems


def _bound(container: Container, name: str, which: str, bound: str, sign: int) -> list[str]:
    """At least the minimum: the request (and the limit where given); at most the maximum: the limit and the request."""
    subject = f"{which} {name} usage per Container is {bound}"
    request, limit = container.requests.get(name), container.limits.get(name)
    needed, other = (request, limit) if which == "minimum" else (limit, request)
    needed_word, other_word = ("request", "limit") if which == "minimum" else ("limit", "request")
    if needed is None:
        return [f"{subject}.  No {needed_word} is specified"]
    for word, value in ((needed_word, needed), (other_word, other)):
        if value is not None and _compare(value, bound) == sign:
            return [f"{subject}, but {word} is {value}"]
    return []


def _ratio(container: Container, name: str, ratio: str) -> list[str]:
    subject = f"{name} max limit to request ratio per Container is {ratio}"
    request, limit = container.requests.get(name), container.limits.get(name)
    if request is None or quantity.parse(request).value == 0:
        return [f"{subject}, but no request is specified or request is 0"]
    if limit is None or quantity.parse(limit).value == 0:
        return [f"{subject}, but no limit is specified or limit is 0"]
    actual = quantity.parse(limit).value / quantity.parse(request).value
    if actual > quantity.parse(ratio).value:
        return [f"{subject}, but provided ratio is {actual:.6f}"]
    return []


def _compare(left: str, right: str) -> int:
    one, two = quantity.parse(left), quantity.parse(right)
    return (one > two) - (one < two)
