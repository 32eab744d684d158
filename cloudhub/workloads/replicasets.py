"""ReplicaSet: so many pods of a template. Pure.

A pod on a node that is not heard from is still one of them: it runs on behind the cut link, and is not replaced (S-84).
It counts as a replica, not as a ready one. It is replaced when it is deleted: by somebody, or by its own tolerations
(`cloudhub.workloads.eviction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cloudhub.workloads import pods
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus
from kubeapi.clock import timestamp
from kubeapi.core import Pod
from kubeapi.workloads import ReplicaSet, ReplicaSetStatus, WorkloadCondition

_BURST = 500
"""Pods made or deleted in one pass."""
_FAILED_KEPT = 5
"""Failed pods that stay to be looked at; older ones go. The reference lets them pile up."""
_FAILURE = "ReplicaFailure"


def plan(replicaset: ReplicaSet, candidates: Sequence[Pod], now: datetime, trouble: str = "") -> Plan:
    """`candidates`: the namespace's pods that are its own, or nobody's. `trouble`: why the last creation failed."""
    claim = pods.claim(replicaset, replicaset.spec.selector, candidates)
    if claim.actions:
        return Plan(claim.actions)
    mine = [pod for pod in claim.mine if pods.active(pod)]
    actions: list[Action] = []
    status = _status(replicaset, claim.mine, now, trouble)
    if status != replicaset.status:
        changed = replicaset.copied()
        changed.status = status
        actions.append(SetStatus(changed))
    failed = sorted(
        filter(pods.failed, claim.mine), key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)
    )
    rest = pods.rest_left(failed, now) if len(mine) < wished(replicaset) else 0.0
    if not replicaset.metadata.deletion_timestamp:
        actions += [Delete(pod) for pod in failed[: max(len(failed) - _FAILED_KEPT, 0)]]
        actions += _scale(replicaset, mine) if not rest else []
    available = pods.next_available(mine, replicaset.spec.min_ready_seconds, now)
    return Plan(tuple(actions), pods.sooner(available, rest or None))


def wished(replicaset: ReplicaSet) -> int:
    return 1 if replicaset.spec.replicas is None else replicaset.spec.replicas


def _scale(replicaset: ReplicaSet, mine: Sequence[Pod]) -> list[Action]:
    surplus = len(mine) - wished(replicaset)
    if surplus > 0:
        victims = pods.deletion_order(mine)[: min(surplus, _BURST)]
        return [Delete(pod, "Deleted pod: {name}") for pod in victims]
    template = replicaset.spec.template
    return [
        Create(pods.from_template(template, replicaset), "Created pod: {name}") for _ in range(min(-surplus, _BURST))
    ]


def _status(replicaset: ReplicaSet, owned: Sequence[Pod], now: datetime, trouble: str) -> ReplicaSetStatus:
    mine = [pod for pod in owned if pods.active(pod)]
    labels = replicaset.spec.template.metadata.labels.items()
    seconds = replicaset.spec.min_ready_seconds
    status = replicaset.status.copied()
    status.replicas = len(mine)
    status.fully_labeled_replicas = sum(labels <= pod.metadata.labels.items() for pod in mine) or None
    status.ready_replicas = sum(map(pods.ready, mine)) or None
    status.available_replicas = sum(pods.available(pod, seconds, now) for pod in mine) or None
    status.terminating_replicas = sum(map(pods.terminating, owned)) or None
    status.observed_generation = replicaset.metadata.generation
    others = [item for item in status.conditions if item.type != _FAILURE]
    before = next((item for item in status.conditions if item.type == _FAILURE), None)
    if not trouble:
        status.conditions = others
    elif before is None or before.message != trouble:
        failure = WorkloadCondition(
            type=_FAILURE,
            status="True",
            reason="FailedCreate",
            message=trouble,
            last_transition_time=timestamp(now),
        )
        status.conditions = [*others, failure]
    return status
