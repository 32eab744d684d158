"""Deployment: ReplicaSets of the template's versions, old ones shrinking as the new one grows. Pure.

One step per pass: what was written is seen before the next step is planned, so no step needs to foresee another. The
names of conditions, reasons and annotations are what `kubectl rollout` reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cloudhub.workloads import deploymentstatus, pods, rollout
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus, Tell, Update
from cloudhub.workloads.rollout import DESIRED, MAX, Limits
from kubeapi.core import Pod
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import ObjectMeta
from kubeapi.numbers import decimal
from kubeapi.workloads import Deployment, PodTemplateSpec, ReplicaSet, ReplicaSetSpec

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_NOT_INHERITED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAX})


def plan(
    deployment: Deployment,
    candidates: Sequence[ReplicaSet],
    taken: frozenset[str],
    old_pods: Mapping[str, Sequence[Pod]],
    now: datetime,
    trouble: str = "",
) -> Plan:
    """`candidates`: the namespace's ReplicaSets that are its own, or nobody's; `taken`: all their names there;
    `old_pods`: pods by their ReplicaSet's name (for Recreate, which waits for their end)."""
    claim = pods.claim(deployment, deployment.spec.selector, candidates)
    if claim.actions:
        return Plan(claim.actions)
    sets = sorted(claim.mine, key=_age)
    new = current(deployment, sets)
    old = [item for item in sets if item is not new]
    verdict = deploymentstatus.status(deployment, new, old, now, trouble)
    actions: list[Action] = []
    if not deployment.metadata.deletion_timestamp:
        actions = _steps(deployment, new, old, taken, old_pods, now)
    renumbered = any(isinstance(item, Update) and item.obj.kind == "Deployment" for item in actions)
    if verdict.status != deployment.status and not renumbered:
        changed = deployment.copied()
        changed.status = verdict.status
        actions.insert(0, SetStatus(changed))
    return Plan(tuple(actions), verdict.wake_after)


def current(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set of today's template: by content, never by the hash, which only names it. The oldest, if there are two."""
    wanted = _content(deployment.spec.template)
    return next((item for item in sets if _content(item.spec.template) == wanted), None)


def _age(item: ReplicaSet) -> tuple[str, int, str]:
    return item.metadata.creation_timestamp or "", revision_of(item), item.metadata.name


def _content(template: PodTemplateSpec) -> dict[str, object]:
    data = template.to_dict()
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return data | {"metadata": {"labels": labels, "annotations": template.metadata.annotations}}


def revision_of(obj: Deployment | ReplicaSet) -> int:
    return decimal(obj.metadata.annotations.get(REVISION, "")) or 0


def _steps(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    taken: frozenset[str],
    old_pods: Mapping[str, Sequence[Pod]],
    now: datetime,
) -> list[Action]:
    limits = Limits.of(deployment)
    alive = [item for item in (*old, new) if item is not None and rollout.size(item)]
    rescaled = any(rollout.was_rescaled(item, limits) for item in alive)
    if deployment.spec.paused:
        resized = _rescale(deployment, new, old, limits) if rescaled or len(alive) <= 1 else []
        return [*resized, *_clean_up(deployment, old)]
    if new is not None:
        numbered = _number(deployment, new, old)
        if numbered:
            return numbered
    if rescaled and (resized := _rescale(deployment, new, old, limits)):
        return resized
    if deployment.spec.strategy.type == "Recreate":
        steps = _recreate(deployment, new, old, taken, old_pods, limits)
    else:
        steps = _roll(deployment, new, old, taken, limits)
    if not steps and new is not None and deploymentstatus.complete(deployment, [new, *old], new):
        return _clean_up(deployment, old)
    return steps


def _number(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Action]:
    """The newest set has the highest revision, also when it is an old one that was rolled back to."""
    highest = max((revision_of(item) for item in old), default=0)
    revision = revision_of(new) if revision_of(new) > highest else highest + 1
    actions: list[Action] = []
    inherited = _inherited(deployment) | {REVISION: str(revision)}
    seconds = deployment.spec.min_ready_seconds
    if not inherited.items() <= new.metadata.annotations.items() or new.spec.min_ready_seconds != seconds:
        changed = new.copied()
        changed.metadata.annotations |= inherited
        changed.spec.min_ready_seconds = seconds
        actions.append(Update(changed))
    if deployment.metadata.annotations.get(REVISION) != str(revision):
        numbered = deployment.copied()
        numbered.metadata.annotations[REVISION] = str(revision)
        actions.append(Update(numbered))
    return actions


def _inherited(deployment: Deployment) -> dict[str, str]:
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_INHERITED}


# Strategies


def _roll(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], taken: frozenset[str], limits: Limits
) -> list[Action]:
    if new is None:
        return _create(deployment, old, taken, rollout.grown(None, old, limits), limits)
    if rollout.size(new) > limits.replicas:
        return _resize(deployment, new, limits.replicas, limits)
    wanted = rollout.grown(new, [new, *old], limits)
    if wanted != rollout.size(new):
        return _resize(deployment, new, wanted, limits)
    by_name = {item.metadata.name: item for item in old}
    smaller = rollout.shrunk(new, old, limits)
    return [step for name, size in smaller.items() for step in _resize(deployment, by_name[name], size, limits)]


def _recreate(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    taken: frozenset[str],
    old_pods: Mapping[str, Sequence[Pod]],
    limits: Limits,
) -> list[Action]:
    down = [step for item in old if rollout.size(item) for step in _resize(deployment, item, 0, limits)]
    if down:
        return down
    if any(not pods.finished(pod) for item in old for pod in old_pods.get(item.metadata.name, ())):
        return []
    if new is None:
        return _create(deployment, old, taken, limits.replicas, limits)
    return _resize(deployment, new, limits.replicas, limits) if rollout.size(new) != limits.replicas else []


def _rescale(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], limits: Limits) -> list[Action]:
    """The Deployment's size changed: what runs follows, without a rollout."""
    sets = [*old, *([new] if new is not None else [])]
    alive = [item for item in sets if rollout.size(item)]
    if len(alive) <= 1:
        only = alive[0] if alive else (new or (old[-1] if old else None))
        return [] if only is None else _resize(deployment, only, limits.replicas, limits)
    if deployment.spec.strategy.type == "Recreate":
        return []
    sizes = rollout.proportional(alive, limits)
    return [step for item in alive for step in _resize(deployment, item, sizes[item.metadata.name], limits)]


# Writes


def _create(
    deployment: Deployment, old: Sequence[ReplicaSet], taken: frozenset[str], size: int, limits: Limits
) -> list[Action]:
    meta, template = deployment.metadata, deployment.spec.template.copied()
    salt = 0
    while f"{meta.name}-{pods.content_hash(_content(template), salt)}" in taken:
        salt += 1
    short = pods.content_hash(_content(template), salt)
    template.metadata.labels[HASH_LABEL] = short
    selector = deployment.spec.selector.copied() if deployment.spec.selector else LabelSelector()
    selector.match_labels[HASH_LABEL] = short
    revision = max((revision_of(item) for item in old), default=0) + 1
    made = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{meta.name}-{short}",
            namespace=meta.namespace,
            labels=dict(template.metadata.labels),
            annotations=_inherited(deployment) | _sized(limits) | {REVISION: str(revision)},
            owner_references=[pods.owned_by(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=size, min_ready_seconds=deployment.spec.min_ready_seconds, selector=selector, template=template
        ),
    )
    message = f"Scaled up replica set {made.metadata.name} from 0 to {size}"
    return [Create(made), *([Tell("Normal", "ScalingReplicaSet", message)] if size else [])]


def _sized(limits: Limits) -> dict[str, str]:
    return {DESIRED: str(limits.replicas), MAX: str(limits.replicas + limits.surge)}


def _resize(deployment: Deployment, item: ReplicaSet, size: int, limits: Limits) -> list[Action]:
    before = rollout.size(item)
    annotated = item.metadata.annotations | _sized(limits)
    if before == size and annotated == item.metadata.annotations:
        return []
    changed = item.copied()
    changed.spec.replicas = size
    changed.metadata.annotations = annotated
    if before == size:
        return [Update(changed)]
    verb = "up" if size > before else "down"
    message = f"Scaled {verb} replica set {item.metadata.name} from {before} to {size}"
    return [Update(changed), Tell("Normal", "ScalingReplicaSet", message)]


def _clean_up(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[Action]:
    """Keep so many old versions to roll back to."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    idle = [
        item
        for item in sorted(old, key=revision_of)
        if not rollout.size(item) and not item.status.replicas and not item.metadata.deletion_timestamp
    ]
    surplus = max(len(idle) - limit, 0)
    settled = [item for item in idle if (item.metadata.generation or 0) <= (item.status.observed_generation or 0)]
    return [Delete(item) for item in settled[:surplus]]
