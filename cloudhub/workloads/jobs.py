"""Job: pods that are to end well so many times. Pure. How ends are counted: `jobcounts`; what failures and successes
mean by the Job's policies: `jobpolicies`; the next pods: `jobpods`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, repeat

from cloudhub.workloads import jobcounts, jobpolicies, pods
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus, Tell
from cloudhub.workloads.jobcounts import TRACKING, Seen, count, has_failed, released
from cloudhub.workloads.jobpods import backoff, made
from cloudhub.workloads.jobpolicies import index_of, indexed
from kubeapi.clock import later, parse_timestamp, timestamp
from kubeapi.core import Pod
from kubeapi.workloads import Job, JobStatus, UncountedTerminatedPods, WorkloadCondition

_BURST = 250
_MADE = "Created pod: {name}"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How the Job ends."""

    failed: bool
    reason: str
    message: str


def plan(job: Job, candidates: Sequence[Pod], now: datetime) -> Plan:
    """`candidates`: the namespace's pods that are its own, or nobody's."""
    if job.spec.managed_by not in (None, "kubernetes.io/job-controller"):
        return Plan()
    claim = pods.claim(job, job.spec.selector, candidates)
    if claim.actions:
        return Plan(claim.actions)
    if job.metadata.deletion_timestamp:
        return Plan(tuple(released(pod) for pod in claim.mine if TRACKING in pod.metadata.finalizers))
    if ended(job):
        return _after_the_end(job, claim.mine, now)
    return _run(job, claim.mine, now)


def condition(job: Job, kind: str) -> WorkloadCondition | None:
    return next((item for item in job.status.conditions if item.type == kind and item.status == "True"), None)


def ended(job: Job) -> bool:
    return finished_at(job) is not None


def finished_at(job: Job) -> str | None:
    """When it became Complete or Failed."""
    found = condition(job, "Complete") or condition(job, "Failed")
    return (found.last_transition_time or "") if found else None


def _after_the_end(job: Job, mine: Sequence[Pod], now: datetime) -> Plan:
    actions: list[Action] = [released(pod) for pod in mine if TRACKING in pod.metadata.finalizers]
    ttl, since = job.spec.ttl_seconds_after_finished, finished_at(job)
    if ttl is None or not since:
        return Plan(tuple(actions))
    left = (later(parse_timestamp(since), ttl) - now).total_seconds()
    if left <= 0:
        return Plan((*actions, Delete(job)))
    return Plan(tuple(actions), left)


def _run(job: Job, mine: Sequence[Pod], now: datetime) -> Plan:
    status = _started(job, now)
    counted, releases = count(job, mine, status)
    seen = jobcounts.seen(job, mine, status)
    outcome = None if job.spec.suspend else _decided(job) or _outcome(job, seen, now)
    actions: list[Action] = list(releases)
    wait: float | None = None
    if outcome is not None:
        actions += _deletions(seen.active)
        _conclude(status, outcome, seen, now)
    elif job.spec.suspend:
        actions += _deletions(seen.active)
    else:
        steps, wait = _scale(job, seen, now)
        actions += steps
        wait = pods.sooner(wait, _deadline_left(job, status, now))
    _number(job, status, seen)
    if status != job.status:
        changed = job.copied()
        changed.status = status
        actions = [SetStatus(changed), *(actions if not counted else []), *_news(job, status)]
    return Plan(tuple(actions), wait)


# Counting


def _started(job: Job, now: datetime) -> JobStatus:
    """The status with its start and its suspension."""
    status = job.status.copied()
    moment = timestamp(now)
    suspended = next((item for item in status.conditions if item.type == "Suspended"), None)
    if job.spec.suspend:
        status.start_time = None
        if suspended is None or suspended.status != "True":
            _set(status, "Suspended", "True", "JobSuspended", "Job suspended", moment)
    else:
        if suspended is not None and suspended.status == "True":
            _set(status, "Suspended", "False", "JobResumed", "Job resumed", moment)
            status.start_time = moment
        status.start_time = status.start_time or moment
    return status


# The end


def _decided(job: Job) -> _Outcome | None:
    """What was decided before, while its last pods were still to go."""
    for kind, failed in (("FailureTarget", True), ("SuccessCriteriaMet", False)):
        found = condition(job, kind)
        if found is not None:
            return _Outcome(failed, found.reason or "", found.message or "")
    return None


def _outcome(job: Job, seen: Seen, now: datetime) -> _Outcome | None:
    message = jobpolicies.fails_job(job, [pod for pod in seen.pods if has_failed(job, pod)])
    if message is not None:
        return _Outcome(True, "PodFailurePolicy", message)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if seen.failed > limit or _too_many_restarts(job, seen, limit):
        return _Outcome(True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = _deadline_left(job, job.status, now)
    if left is not None and left <= 0:
        return _Outcome(True, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _of_indexes(job, seen) or _of_successes(job, seen)


def _of_indexes(job: Job, seen: Seen) -> _Outcome | None:
    """Where each index fails by itself: whether too many have."""
    if not jobpolicies.per_index(job) or not seen.failed_indexes:
        return None
    most = job.spec.max_failed_indexes
    if most is not None and len(seen.failed_indexes) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return _Outcome(True, "MaxFailedIndexesExceeded", message)
    if len(seen.failed_indexes | seen.indexes) >= (job.spec.completions or 0):
        return _Outcome(True, "FailedIndexes", "Job has failed indexes")
    return None


def _of_successes(job: Job, seen: Seen) -> _Outcome | None:
    met = jobpolicies.succeeds(job, seen.indexes) if indexed(job) else None
    if met is not None:
        return _Outcome(False, "SuccessPolicy", met)
    if _complete(job, seen):
        return _Outcome(False, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _too_many_restarts(job: Job, seen: Seen, limit: int) -> bool:
    """Where containers are restarted in place, their restarts are the failures."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    statuses = (item for pod in seen.active for item in pod.status.container_statuses)
    restarts = sum(item.restart_count for item in statuses)
    return restarts > 0 if limit == 0 else restarts >= limit


def _complete(job: Job, seen: Seen) -> bool:
    if job.spec.completions is None:
        return seen.succeeded > 0 and not seen.active
    if indexed(job):
        return len(seen.indexes) >= job.spec.completions
    return seen.succeeded >= job.spec.completions


def _deadline_left(job: Job, status: JobStatus, now: datetime) -> float | None:
    if job.spec.active_deadline_seconds is None or not status.start_time or job.spec.suspend:
        return None
    due = later(parse_timestamp(status.start_time), job.spec.active_deadline_seconds)
    return (due - now).total_seconds()


def _conclude(status: JobStatus, outcome: _Outcome, seen: Seen, now: datetime) -> None:
    """First the decision; the end itself when no pod runs any more and every end is counted."""
    moment = timestamp(now)
    _set(status, "FailureTarget" if outcome.failed else "SuccessCriteriaMet", "True", *_words(outcome), moment)
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    if any(not pods.finished(pod) for pod in seen.pods) or uncounted.succeeded or uncounted.failed:
        return
    _set(status, "Failed" if outcome.failed else "Complete", "True", *_words(outcome), moment)
    if not outcome.failed:
        status.completion_time = moment


def _words(outcome: _Outcome) -> tuple[str, str]:
    return outcome.reason, outcome.message


def _set(status: JobStatus, kind: str, value: str, reason: str, message: str, moment: str) -> None:
    before = next((item for item in status.conditions if item.type == kind), None)
    if before is not None and before.status == value:
        return
    made = WorkloadCondition(
        type=kind, status=value, reason=reason, message=message, last_probe_time=moment, last_transition_time=moment
    )
    status.conditions = [*(item for item in status.conditions if item.type != kind), made]


def _number(job: Job, status: JobStatus, seen: Seen) -> None:
    status.active = len(seen.active) or None
    status.ready = sum(map(pods.ready, seen.active))
    status.terminating = sum(map(pods.terminating, seen.pods))
    if any(item.type in ("Complete", "Failed") and item.status == "True" for item in status.conditions):
        status.active, status.ready, status.terminating = None, 0, 0


def _news(job: Job, status: JobStatus) -> Iterable[Tell]:
    before = {(item.type, item.status) for item in job.status.conditions}
    for item in status.conditions:
        if (item.type, item.status) in before:
            continue
        match item.type, item.status:
            case "Complete", "True":
                yield Tell("Normal", "Completed", "Job completed")
            case "Failed", "True":
                yield Tell("Warning", item.reason or "", item.message or "")
            case "Suspended", "True":
                yield Tell("Normal", "Suspended", "Job suspended")
            case "Suspended", _:
                yield Tell("Normal", "Resumed", "Job resumed")


# Making pods


def _scale(job: Job, seen: Seen, now: datetime) -> tuple[list[Action], float | None]:
    """What to start or end now; and in how many seconds, if it is to wait after failures."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # A queue of work: once one has succeeded, no other is started.
        wanted = len(seen.active) if seen.succeeded else parallelism
    else:
        done = len(seen.indexes | seen.failed_indexes) if indexed(job) else seen.succeeded
        wanted = min(parallelism, job.spec.completions - done)
    occupied = len(seen.active)
    if job.spec.pod_replacement_policy == "Failed":
        occupied += sum(map(pods.terminating, seen.pods))
    if len(seen.active) > wanted:
        return _deletions(pods.deletion_order(seen.active)[: len(seen.active) - wanted]), None
    missing = min(wanted - occupied, _BURST)
    if missing <= 0:
        return [], None
    if jobpolicies.per_index(job):
        return _each_by_itself(job, seen, missing, now)
    wait = backoff(job, seen.pods, now)
    if wait > 0:
        return [], wait
    wanted_indexes = islice(_free(job, seen), missing) if indexed(job) else repeat(None, missing)
    return [Create(made(job, index), _MADE) for index in wanted_indexes], None


def _free(job: Job, seen: Seen) -> Iterator[int]:
    """Indexes that are to run and do not."""
    busy = {index_of(pod) for pod in seen.pods if not pods.finished(pod)}
    shut = seen.indexes | seen.failed_indexes
    return (index for index in range(job.spec.completions or 0) if index not in shut and index not in busy)


def _each_by_itself(job: Job, seen: Seen, missing: int, now: datetime) -> tuple[list[Action], float | None]:
    """An index that has failed rests; the others go on."""
    before: defaultdict[int | None, list[Pod]] = defaultdict(list)
    for pod in seen.pods:
        before[index_of(pod)].append(pod)
    actions: list[Action] = []
    waits: list[float] = []
    for index in _free(job, seen):
        had = before.get(index, [])
        wait = backoff(job, had, now)
        if wait > 0:
            waits.append(wait)
            continue
        actions.append(Create(made(job, index, had), _MADE))
        if len(actions) >= missing:
            break
    return actions, min(waits, default=None)


def _deletions(victims: Iterable[Pod]) -> list[Action]:
    return [Delete(pod, "Deleted pod: {name}") for pod in list(victims)[:_BURST]]
