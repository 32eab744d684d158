"""How far a Deployment's rollout may go in one step: arithmetic on replica counts. Pure.

As the reference's deployment/util and rolling.go have it; the numbers are what `maxSurge` and `maxUnavailable` promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cloudhub.workloads import pods
from kubeapi.numbers import decimal
from kubeapi.workloads import Deployment, ReplicaSet

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
"""On a ReplicaSet: what its Deployment wished, and might have had with its surge, when it was last sized."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one Deployment, in pods."""

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: Deployment) -> Limits:
        wished = replicas(deployment)
        if deployment.spec.strategy.type == "Recreate":
            return cls(wished, 0, wished)
        update = deployment.spec.strategy.rolling_update
        surge = pods.amount(update.max_surge if update else None, wished, up=True)
        unavailable = pods.amount(update.max_unavailable if update else None, wished, up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1  # both percentages came to nothing: the rollout must be able to move
        return cls(wished, surge, min(unavailable, wished) if wished else unavailable)

    @property
    def most(self) -> int:
        """Pods there may be at once."""
        return self.replicas + self.surge if self.replicas else 0

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable


def replicas(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def size(replicaset: ReplicaSet) -> int:
    return 1 if replicaset.spec.replicas is None else replicaset.spec.replicas


def total(sets: Sequence[ReplicaSet]) -> int:
    return sum(map(size, sets))


def available(replicaset: ReplicaSet) -> int:
    return replicaset.status.available_replicas or 0


def grown(new: ReplicaSet | None, all_sets: Sequence[ReplicaSet], limits: Limits) -> int:
    """How large the newest set may be now."""
    current = size(new) if new is not None else 0
    room = limits.most - total(all_sets)
    return current + max(min(room, limits.replicas - current), 0)


def shrunk(new: ReplicaSet, old: Sequence[ReplicaSet], limits: Limits) -> Mapping[str, int]:
    """How large the older sets shall be, by name, where that is a change: first what is not available anyway, then as
    many as availability allows. Oldest first."""
    budget = total([new, *old]) - limits.least_available - (size(new) - available(new))
    if budget <= 0:
        return {}
    sizes = {item.metadata.name: size(item) for item in old}
    for item in old:  # cleanupUnhealthyReplicas
        step = min(budget, max(sizes[item.metadata.name] - available(item), 0))
        sizes[item.metadata.name] -= step
        budget -= step
    spare = available(new) + sum(min(available(item), sizes[item.metadata.name]) for item in old)
    spare -= limits.least_available
    for item in old:  # scaleDownOldReplicaSetsForRollingUpdate
        step = min(max(spare, 0), sizes[item.metadata.name])
        sizes[item.metadata.name] -= step
        spare -= step
    return {item.metadata.name: sizes[item.metadata.name] for item in old if sizes[item.metadata.name] != size(item)}


def proportional(sets: Sequence[ReplicaSet], limits: Limits) -> Mapping[str, int]:
    """New sizes, by name, when a Deployment is scaled in the middle of a rollout: each set gets its share of the
    difference, the largest (then the newest) first, and the largest what rounding leaves. `sets` newest last."""
    to_add = limits.most - total(sets)
    if to_add == 0:
        return {item.metadata.name: size(item) for item in sets}
    order = sorted(sets, key=lambda item: (-size(item), -sets.index(item)))
    sizes: dict[str, int] = {}
    added = 0
    for item in order:
        share = _share(item, limits, to_add, added)
        sizes[item.metadata.name] = size(item) + share
        added += share
    first = order[0].metadata.name
    sizes[first] = max(sizes[first] + to_add - added, 0)
    return sizes


def _share(item: ReplicaSet, limits: Limits, to_add: int, added: int) -> int:
    if size(item) == 0:
        return 0
    before = _recorded(item, MAX) or limits.replicas
    wanted = round(size(item) * limits.most / before) - size(item) if before else 0
    left = to_add - added
    return min(wanted, left) if to_add > 0 else max(wanted, left)


def was_rescaled(item: ReplicaSet, limits: Limits) -> bool:
    """The Deployment's size is not the one that this set was last sized for."""
    recorded = _recorded(item, DESIRED)
    return recorded is not None and recorded != limits.replicas


def _recorded(item: ReplicaSet, annotation: str) -> int | None:
    return decimal(item.metadata.annotations.get(annotation, ""))
