"""A Deployment's status: counts, and the conditions Available, Progressing and ReplicaFailure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cloudhub.workloads import rollout
from cloudhub.workloads.rollout import Limits
from kubeapi.clock import later, parse_timestamp, timestamp
from kubeapi.workloads import Deployment, DeploymentStatus, ReplicaSet, WorkloadCondition

NO_DEADLINE = (1 << 31) - 1
TIMED_OUT = "ProgressDeadlineExceeded"
DONE = "NewReplicaSetAvailable"
_FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class Verdict:
    status: DeploymentStatus
    wake_after: float | None
    """Seconds until the progress deadline."""


def complete(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> bool:
    """Every pod is of the newest version, and available."""
    wished = rollout.replicas(deployment)
    replicas = sum(item.status.replicas for item in sets)
    updated = new.status.replicas if new else 0
    return updated == wished and replicas == wished and sum(map(rollout.available, sets)) == wished


def status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime, trouble: str = ""
) -> Verdict:
    sets = [*old, *([new] if new is not None else [])]
    result = _counted(deployment, new, sets)
    available = _available(deployment, sets)
    progressing = _progressing(deployment, new, sets, result, now)
    failure = _failure(sets, trouble)
    wanted = [item for item in (available, progressing, failure) if item is not None]
    result.conditions = [_dated(item, deployment, now) for item in wanted]
    return Verdict(result, _deadline(deployment, result, now))


def _counted(deployment: Deployment, new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> DeploymentStatus:
    result = deployment.status.copied()
    available = sum(map(rollout.available, sets))
    result.observed_generation = deployment.metadata.generation
    result.replicas = sum(item.status.replicas for item in sets) or None
    result.updated_replicas = (new.status.replicas if new else 0) or None
    result.ready_replicas = sum(item.status.ready_replicas or 0 for item in sets) or None
    result.available_replicas = available or None
    result.unavailable_replicas = max(rollout.total(sets) - available, 0) or None
    result.terminating_replicas = sum(item.status.terminating_replicas or 0 for item in sets) or None
    return result


def _available(deployment: Deployment, sets: Sequence[ReplicaSet]) -> WorkloadCondition:
    enough = sum(map(rollout.available, sets)) >= Limits.of(deployment).least_available
    return WorkloadCondition(
        type="Available",
        status="True" if enough else "False",
        reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )


def _failure(sets: Sequence[ReplicaSet], trouble: str) -> WorkloadCondition | None:
    if trouble:
        return WorkloadCondition(type=_FAILURE, status="True", reason="ReplicaSetCreateError", message=trouble)
    for item in reversed(sets):
        for condition in item.status.conditions:
            if condition.type == _FAILURE and condition.status == "True":
                return WorkloadCondition(
                    type=_FAILURE, status="True", reason=condition.reason, message=condition.message
                )
    return None


def _progressing(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    result: DeploymentStatus,
    now: datetime,
) -> WorkloadCondition | None:
    limit = deployment.spec.progress_deadline_seconds
    if limit is None or limit >= NO_DEADLINE:
        return None
    before = condition(deployment.status, "Progressing")
    what = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    if deployment.spec.paused:
        if before is not None and before.reason in (TIMED_OUT, DONE):
            return before
        return _say("Unknown", "DeploymentPaused", "Deployment is paused")
    if before is not None and before.reason == "DeploymentPaused":
        return _say("Unknown", "DeploymentResumed", "Deployment is resumed")
    done = f"{what} has successfully progressed."
    # A rollout that was done stays done: a node that goes offline later is not a rollout without progress.
    stays = before is not None and (before.reason, before.message) == (DONE, done)
    if complete(deployment, sets, new) or (stays and result.updated_replicas == result.replicas):
        return _say("True", DONE, done)
    if before is None:
        return _say("True", "NewReplicaSetCreated", f'Created new replica set "{new.metadata.name}"') if new else None
    if _moved(deployment.status, result):
        return _say("True", "ReplicaSetUpdated", f"{what} is progressing.")
    if before.reason != TIMED_OUT and before.reason != DONE and _overdue(before, limit, now):
        return _say("False", TIMED_OUT, f"{what} has timed out progressing.")
    if before.reason == DONE:
        return _say("True", "ReplicaSetUpdated", f"{what} is progressing.")
    return before


def _moved(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    old_before = (before.replicas or 0) - (before.updated_replicas or 0)
    old_after = (after.replicas or 0) - (after.updated_replicas or 0)
    return (
        (after.updated_replicas or 0) > (before.updated_replicas or 0)
        or old_after < old_before
        or (after.ready_replicas or 0) > (before.ready_replicas or 0)
        or (after.available_replicas or 0) > (before.available_replicas or 0)
    )


def _overdue(before: WorkloadCondition, limit: int, now: datetime) -> bool:
    since = before.last_update_time or before.last_transition_time
    return bool(since) and now >= later(parse_timestamp(since or ""), limit)


def _deadline(deployment: Deployment, result: DeploymentStatus, now: datetime) -> float | None:
    progressing = condition(result, "Progressing")
    limit = deployment.spec.progress_deadline_seconds
    if progressing is None or limit is None or progressing.reason in (DONE, TIMED_OUT, "DeploymentPaused"):
        return None
    since = progressing.last_update_time
    if not since:
        return None
    return max((later(parse_timestamp(since), limit) - now).total_seconds(), 0.0)


def condition(status: DeploymentStatus, kind: str) -> WorkloadCondition | None:
    return next((item for item in status.conditions if item.type == kind), None)


def _say(status: str, reason: str, message: str) -> WorkloadCondition:
    return WorkloadCondition(type="Progressing", status=status, reason=reason, message=message)


def _dated(wanted: WorkloadCondition, deployment: Deployment, now: datetime) -> WorkloadCondition:
    """With its times: kept where nothing changed. Progress is dated anew each time it is made."""
    before = condition(deployment.status, wanted.type)
    if before is wanted:
        return wanted
    moment = timestamp(now)
    same_status = before is not None and before.status == wanted.status
    same = same_status and before is not None and (before.reason, before.message) == (wanted.reason, wanted.message)
    if same and before is not None and wanted.reason != "ReplicaSetUpdated":
        return before
    wanted.last_update_time = moment
    wanted.last_transition_time = before.last_transition_time if same_status and before is not None else moment
    return wanted
