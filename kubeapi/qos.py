"""The quality of service class of a pod (k8s.io/kubernetes/pkg/apis/core/helper/qos)."""

from __future__ import annotations

from collections.abc import Iterable

from kubeapi import quantity
from kubeapi.core import Pod, PodSpec, ResourceRequirements
from kubeapi.quantity import Quantity

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

_RESOURCES = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """The class that the status names, else the one that the spec makes."""
    return pod.status.qos_class or compute(pod.spec)


def compute(spec: PodSpec) -> str:
    """Pod-level resources decide where they are set; else all containers, init containers included."""
    parts = _deciding(spec)
    requests = _total(part.requests for part in parts)
    limits = _total(part.limits for part in parts)
    if not requests and not limits:
        return BEST_EFFORT
    limited = all(_positive(part.limits, name) for part in parts for name in _RESOURCES)
    return GUARANTEED if limited and requests == limits else BURSTABLE


def _deciding(spec: PodSpec) -> list[ResourceRequirements]:
    if spec.resources and (spec.resources.requests or spec.resources.limits):
        return [spec.resources]
    containers = [*spec.containers, *spec.init_containers]
    return [container.resources or ResourceRequirements() for container in containers]


def _total(lists: Iterable[dict[str, str]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for amounts in lists:
        for name in _RESOURCES:
            if _positive(amounts, name):
                amount = quantity.parse(amounts[name])
                total[name] = total[name] + amount if name in total else amount
    return total


def _positive(amounts: dict[str, str], name: str) -> bool:
    return name in amounts and quantity.parse(amounts[name]).value > 0
