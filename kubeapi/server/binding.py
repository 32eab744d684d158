"""The `binding` subresource: a pod gets its node, once (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubeapi import errors
from kubeapi.clock import timestamp
from kubeapi.core import Pod, PodCondition

SUBRESOURCE = "binding"


@dataclass(frozen=True, slots=True)
class Target:
    node: str
    uid: str | None = None
    """Of the pod: a precondition."""
    annotations: Mapping[str, str] = field(default_factory=dict)


def bound(pod: Pod, target: Target, now: datetime) -> Pod:
    """`pod` with its node. Raises ApiError 409."""
    name = pod.metadata.name
    if target.uid and target.uid != pod.metadata.uid:
        message = f"Precondition failed: UID in precondition: {target.uid}, UID in object meta: {pod.metadata.uid}"
        raise errors.conflict("pods/binding", name, message)
    if pod.metadata.deletion_timestamp:
        raise errors.conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise errors.conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
    pod.spec.node_name = target.node
    pod.status.nominated_node_name = None
    pod.metadata.annotations |= target.annotations
    scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=timestamp(now))
    pod.status.conditions = [*(c for c in pod.status.conditions if c.type != "PodScheduled"), scheduled]
    return pod
