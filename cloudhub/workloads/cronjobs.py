"""CronJob: a Job at each time of a schedule. Pure; croniter, which knows what the five fields mean, is used here alone.

Times are looked up, never counted down: whatever was missed while the hub was down, the most recent time that is still
due makes one Job, and what a Job is called follows from its time, so that none is made twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

from cloudhub.workloads import jobs, pods
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus, Tell
from kubeapi.clock import later, parse_timestamp, timestamp
from kubeapi.core import ObjectReference
from kubeapi.kinds import cron
from kubeapi.meta import ObjectMeta
from kubeapi.workloads import CronJob, CronJobStatus, Job

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = 100
"""Missed times after which something is probably wrong with a clock or the schedule."""


class BadSchedule(Exception):
    """The schedule or time zone cannot be read."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What the schedule says now."""

    at: datetime | None
    """The most recent time that has not been served."""
    missed: int
    following: datetime


def plan(cronjob: CronJob, owned: Sequence[Job], now: datetime) -> Plan:
    """`owned`: the Jobs that it controls."""
    status = _status(cronjob, owned)
    actions: list[Action] = [] if cronjob.metadata.deletion_timestamp else _clean_up(cronjob, owned)
    wake: float | None = None
    if not cronjob.metadata.deletion_timestamp and not cronjob.spec.suspend:
        try:
            due = _due(cronjob, now)
        except BadSchedule as error:
            actions.append(Tell("Warning", "UnparseableSchedule", str(error)))
        else:
            wake = max((due.following - now).total_seconds(), 0.0)
            actions += _start(cronjob, owned, due, status, now)
    if status != cronjob.status:
        changed = cronjob.copied()
        changed.status = status
        # Last: what is noted as started has been.
        actions.append(SetStatus(changed))
    return Plan(tuple(actions), wake)


def _status(cronjob: CronJob, owned: Sequence[Job]) -> CronJobStatus:
    status = cronjob.status.copied()
    status.active = [_reference(job) for job in owned if not jobs.ended(job)]
    ends = [job.status.completion_time or "" for job in owned if jobs.condition(job, "Complete")]
    status.last_successful_time = max([status.last_successful_time or "", *ends]) or None
    return status


def _reference(job: Job) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(
        api_version=job.api_version, kind=job.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def _clean_up(cronjob: CronJob, owned: Sequence[Job]) -> list[Action]:
    """Keep so many Jobs that ended well, and so many that did not; oldest first to go."""
    actions: list[Action] = []
    kinds = (
        ("Complete", cronjob.spec.successful_jobs_history_limit),
        ("Failed", cronjob.spec.failed_jobs_history_limit),
    )
    for kind, limit in kinds:
        if limit is None:
            continue
        ended = [job for job in owned if jobs.condition(job, kind) and not job.metadata.deletion_timestamp]
        ended.sort(key=lambda job: (job.status.start_time or "", job.metadata.name))
        actions += [Delete(job, "Deleted job {name}") for job in ended[: max(len(ended) - limit, 0)]]
    return actions


# When


def _due(cronjob: CronJob, now: datetime) -> _Due:
    """Raises BadSchedule."""
    local = now.astimezone(_zone(cronjob.spec.time_zone))
    earliest = parse_timestamp(
        cronjob.status.last_schedule_time or cronjob.metadata.creation_timestamp or timestamp(now)
    )
    deadline = cronjob.spec.starting_deadline_seconds
    try:
        period = cron.every(cronjob.spec.schedule)
        if period is not None:
            return _due_every(period, earliest, now)
        if deadline is not None:
            earliest = max(earliest, later(now, -deadline))
        following: datetime = croniter(cronjob.spec.schedule, local).get_next(datetime)
        recent: datetime = croniter(cronjob.spec.schedule, later(local, 1)).get_prev(datetime)
        if recent <= earliest or recent > now:
            return _Due(None, 0, following)
        return _Due(recent, _missed(cronjob.spec.schedule, earliest.astimezone(local.tzinfo), now), following)
    except (CroniterError, ValueError, OverflowError) as error:  # CronError is a ValueError
        raise BadSchedule(f"unparseable schedule {cronjob.spec.schedule!r}: {error}") from error


def _due_every(period: int, since: datetime, now: datetime) -> _Due:
    """`@every`: counted from the last time, or from when it was made. A deadline does not shift the beat."""
    beats = max(int((now - since).total_seconds()) // period, 0)
    recent = later(since, beats * period)
    return _Due(recent if beats else None, beats, later(recent, period))


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise BadSchedule(f"unknown time zone {name!r}") from error


def _missed(schedule: str, earliest: datetime, now: datetime) -> int:
    times = croniter(schedule, earliest)
    count = 0
    while count <= _TOO_MANY and times.get_next(datetime) <= now:
        count += 1
    return count


# What


def _start(cronjob: CronJob, owned: Sequence[Job], due: _Due, status: CronJobStatus, now: datetime) -> list[Action]:
    """Changes `status` where the time is served."""
    if due.at is None:
        return []
    actions: list[Action] = []
    if due.missed > _TOO_MANY:
        actions.append(Tell("Warning", "TooManyMissedTimes", f"too many missed start times: {due.missed}. {_ADVICE}"))
    deadline = cronjob.spec.starting_deadline_seconds
    if deadline is not None and later(due.at, deadline) < now:
        late = f"Missed scheduled time to start a job: {due.at.strftime('%a, %d %b %Y %H:%M:%S +0000')}"
        return [*actions, Tell("Warning", "MissSchedule", late)]
    job = _job(cronjob, due.at)
    known = any(item.metadata.name == job.metadata.name for item in owned)
    running = [item for item in owned if not jobs.ended(item) and item.metadata.name != job.metadata.name]
    if not known and running and cronjob.spec.concurrency_policy == "Forbid":
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return [*actions, Tell("Normal", "JobAlreadyActive", message)]
    if not known and cronjob.spec.concurrency_policy == "Replace":
        actions += [Delete(item, "Deleted job {name}") for item in running]
    if not known:
        actions.append(Create(job, "Created job {name}"))
    status.last_schedule_time = timestamp(due.at)
    return actions


_ADVICE = "Set or decrease .spec.startingDeadlineSeconds or check clock skew"


def _job(cronjob: CronJob, at: datetime) -> Job:
    template = cronjob.spec.job_template.copied()
    meta = template.metadata
    made = at if cronjob.spec.time_zone is None else at.astimezone(_zone(cronjob.spec.time_zone))
    return Job(
        metadata=ObjectMeta(
            name=f"{cronjob.metadata.name}-{int(at.timestamp()) // 60}",
            namespace=cronjob.metadata.namespace,
            labels=meta.labels,
            annotations=meta.annotations | {SCHEDULED: _rfc3339(made)},
            owner_references=[pods.owned_by(cronjob)],
        ),
        spec=template.spec,
    )


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
