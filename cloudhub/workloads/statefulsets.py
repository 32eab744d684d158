"""StatefulSet: pods with names that stay, made and ended in order. Pure.

At most one pod of a name exists at any time: on a node that is not heard from, an old pod holds its name until that
node says it is gone. That is the promise of the kind, and it is kept; `kubectl delete --force` is a person's decision.
As the reference's stateful_set_control.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from types import MappingProxyType

from cloudhub.workloads import claims, pods, revisions
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus
from cloudhub.workloads.claims import Claims
from cloudhub.workloads.revisions import HASH_LABEL
from kubeapi.core import Pod
from kubeapi.numbers import decimal
from kubeapi.workloads import ControllerRevision, StatefulSet, StatefulSetStatus

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_BURST = 250
"""Pods made in one pass at most."""


@dataclass(frozen=True, slots=True)
class _Versions:
    """Names of ControllerRevisions: what most pods are, and what they are to become."""

    current: ControllerRevision
    update: ControllerRevision


def plan(
    statefulset: StatefulSet,
    candidates: Sequence[Pod],
    owned: Sequence[ControllerRevision],
    taken: frozenset[str],
    now: datetime,
    held: Claims = MappingProxyType({}),
) -> Plan:
    """`candidates`: the namespace's pods that are its own, or nobody's; `owned`, `taken`: see `revisions.plan`; `held`:
    the namespace's volume claims."""
    named = [pod for pod in candidates if ordinal(statefulset, pod) is not None]
    claim = pods.claim(statefulset, statefulset.spec.selector, named)
    if claim.actions:
        return Plan(claim.actions)
    mine, spec, status = claim.mine, statefulset.spec, statefulset.status
    used = {pod.metadata.labels.get(HASH_LABEL, "") for pod in mine}
    used |= {status.current_revision or "", status.update_revision or ""}
    found = revisions.plan(statefulset, spec.template, owned, taken, frozenset(used), spec.revision_history_limit)
    if found.current is None:
        return Plan(found.actions if not statefulset.metadata.deletion_timestamp else ())
    before = next((item for item in owned if item.metadata.name == status.current_revision), found.current)
    versions = _Versions(before, found.current)
    actions: list[Action] = []
    changed = statefulset.copied()
    changed.status = _status(statefulset, mine, versions, now)
    if changed.status != status:
        actions.append(SetStatus(changed))
    if not statefulset.metadata.deletion_timestamp:
        actions += found.actions
        # By the counts of now: by those stored, a pod just deleted for the update would come back as it was.
        actions += _steps(changed, mine, versions, held, now)
    rests = [pods.rest_left([pod], now) or None for pod in mine if pods.failed(pod)]
    return Plan(tuple(actions), pods.sooner(pods.next_available(mine, spec.min_ready_seconds, now), *rests))


def ordinal(statefulset: StatefulSet, pod: Pod) -> int | None:
    """None: not a name of this set."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    return decimal(number) if prefix == statefulset.metadata.name else None


def _range(statefulset: StatefulSet) -> range:
    spec = statefulset.spec
    start = spec.ordinals.start if spec.ordinals else 0
    return range(start, start + (1 if spec.replicas is None else spec.replicas))


def _steps(
    statefulset: StatefulSet, mine: Sequence[Pod], versions: _Versions, held: Claims, now: datetime
) -> list[Action]:
    by_ordinal = {ordinal(statefulset, pod): pod for pod in mine}
    wanted = _range(statefulset)
    condemned = sorted((pod for pod in mine if ordinal(statefulset, pod) not in wanted), key=_number, reverse=True)
    # Before a pod goes its claims must know whose they are.
    owners = claims.owners(statefulset, mine, condemned, held)
    return owners or _pods(statefulset, by_ordinal, condemned, versions, held, now)


def _pods(
    statefulset: StatefulSet,
    by_ordinal: dict[int | None, Pod],
    condemned: Sequence[Pod],
    versions: _Versions,
    held: Claims,
    now: datetime,
) -> list[Action]:
    if statefulset.spec.pod_management_policy == "Parallel":
        places = _places(statefulset, by_ordinal, versions, held, now)
        steps = list(islice(chain.from_iterable(step for step in places if step is not None), _BURST))
        steps += [Delete(pod, _deleted(statefulset)) for pod in condemned if not pod.metadata.deletion_timestamp]
        return steps + _update(statefulset, by_ordinal, versions, now)
    for step in _places(statefulset, by_ordinal, versions, held, now, ordered=True):
        return step or []
    if condemned:
        last = condemned[0]
        return [] if last.metadata.deletion_timestamp else [Delete(last, _deleted(statefulset))]
    return _update(statefulset, by_ordinal, versions, now)


def _places(
    statefulset: StatefulSet,
    by_ordinal: dict[int | None, Pod],
    versions: _Versions,
    held: Claims,
    now: datetime,
    *,
    ordered: bool = False,
) -> Iterator[list[Action] | None]:
    """For each ordinal that is not as it should be: what to do, or None where only waiting helps."""
    for number in _range(statefulset):
        pod = by_ordinal.get(number)
        if pod is None:
            made = _pod(statefulset, number, versions)
            first = claims.before(statefulset, made.metadata.name, held)
            yield None if first is None else [*first, Create(made, _created(statefulset))]
        elif pod.metadata.deletion_timestamp:
            yield None
        elif pods.finished(pod):
            rests = pods.failed(pod) and pods.rest_left([pod], now)
            yield None if rests else [Delete(pod, _deleted(statefulset))]
        elif ordered and not pods.available(pod, statefulset.spec.min_ready_seconds, now):
            yield None


def _partition(statefulset: StatefulSet) -> int:
    """Ordinals below it are not updated."""
    rolling = statefulset.spec.update_strategy.rolling_update
    return _range(statefulset).start + ((rolling.partition or 0) if rolling else 0)


def _update(
    statefulset: StatefulSet, by_ordinal: dict[int | None, Pod], versions: _Versions, now: datetime
) -> list[Action]:
    """From the highest ordinal down, one at a time (or `maxUnavailable`), waiting for each."""
    strategy = statefulset.spec.update_strategy
    if strategy.type == "OnDelete":
        return []
    wanted = _range(statefulset)
    rolling = strategy.rolling_update
    most = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 1
    budget = max(pods.amount(most, len(wanted), up=True), 1)
    actions: list[Action] = []
    for number in range(wanted.stop - 1, max(wanted.start, _partition(statefulset)) - 1, -1):
        pod = by_ordinal.get(number)
        if pod is not None and not pod.metadata.deletion_timestamp and _version(pod) != _name(versions.update):
            actions.append(Delete(pod, _deleted(statefulset)))
            budget -= 1
        elif pod is None or not pods.active(pod) or not _available(statefulset, pod, now):
            budget -= 1
        if budget <= 0:
            break
    return actions


def _available(statefulset: StatefulSet, pod: Pod, now: datetime) -> bool:
    return pods.available(pod, statefulset.spec.min_ready_seconds, now)


def _version(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


def _name(revision: ControllerRevision) -> str:
    return revision.metadata.name


def _number(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])


def _created(statefulset: StatefulSet) -> str:
    return f"create Pod {{name}} in StatefulSet {statefulset.metadata.name} successful"


def _deleted(statefulset: StatefulSet) -> str:
    return f"delete Pod {{name}} in StatefulSet {statefulset.metadata.name} successful"


def _pod(statefulset: StatefulSet, number: int, versions: _Versions) -> Pod:
    revision = _revision_for(statefulset, number, versions)
    name = f"{statefulset.metadata.name}-{number}"
    pod = pods.from_template(revisions.template_of(revision), statefulset, name=name)
    pod.metadata.labels |= {POD_NAME_LABEL: name, INDEX_LABEL: str(number), HASH_LABEL: _name(revision)}
    pod.spec.hostname = name
    pod.spec.subdomain = statefulset.spec.service_name or None
    claims.mount(statefulset, pod)
    return pod


def _revision_for(statefulset: StatefulSet, number: int, versions: _Versions) -> ControllerRevision:
    """A pod that is made anew in the middle of an update is of the version that its ordinal still has."""
    if versions.current is versions.update or statefulset.spec.update_strategy.type == "OnDelete":
        return versions.update
    partition = _partition(statefulset)
    start = _range(statefulset).start
    below = partition if partition > start else start + (statefulset.status.current_replicas or 0)
    return versions.current if number < below else versions.update


def _status(statefulset: StatefulSet, mine: Sequence[Pod], versions: _Versions, now: datetime) -> StatefulSetStatus:
    current, update = _name(versions.current), _name(versions.update)
    living = [pod for pod in mine if not pods.finished(pod)]
    running = [pod for pod in living if pod.status.phase == "Running"]
    steady = [pod for pod in living if not pod.metadata.deletion_timestamp]
    status = statefulset.status.copied()
    status.observed_generation = statefulset.metadata.generation
    status.replicas = len(living)
    status.ready_replicas = sum(map(pods.ready, running)) or None
    status.available_replicas = sum(_available(statefulset, pod, now) for pod in running)
    status.update_revision = update
    at_update = sum(_version(pod) == update for pod in steady)
    done = at_update == status.replicas == (status.ready_replicas or 0)
    if done and statefulset.spec.update_strategy.type != "OnDelete" and at_update == len(_range(statefulset)):
        current = update
    status.current_revision = current
    status.current_replicas = sum(_version(pod) == current for pod in steady) or None
    status.updated_replicas = at_update or None
    return status
