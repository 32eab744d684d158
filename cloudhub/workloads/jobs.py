"""Job: pods that are to end well so many times. Pure.

What a pod's end counted for is not forgotten with the pod: each carries a finalizer until its end is in the Job's
status. In order: the UID goes into `uncountedTerminatedPods`; the finalizer goes; the UID becomes a number. A crash
between any two of these counts nothing twice (KEP-2307). Not served: `podFailurePolicy`, `successPolicy`,
`backoffLimitPerIndex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from cloudhub.workloads import indexes, pods
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus, Tell, Update
from kubeapi.clock import later, parse_timestamp, timestamp
from kubeapi.core import EnvVar, Pod
from kubeapi.numbers import decimal
from kubeapi.workloads import Job, JobStatus, UncountedTerminatedPods, WorkloadCondition

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_INDEX_ENV = "JOB_COMPLETION_INDEX"
_BACKOFF_FIRST, _BACKOFF_MOST = 10.0, 600.0
"""Seconds to wait after failures that follow each other."""
_BURST = 250


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How the Job ends."""

    failed: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """The Job's pods, and what their ends amount to, those not yet counted included."""

    pods: Sequence[Pod]
    active: list[Pod]
    succeeded: int
    failed: int
    indexes: frozenset[int]
    """Completed ones."""


def plan(job: Job, candidates: Sequence[Pod], now: datetime) -> Plan:
    """`candidates`: the namespace's pods that are its own, or nobody's."""
    if job.spec.managed_by not in (None, "kubernetes.io/job-controller"):
        return Plan()
    claim = pods.claim(job, job.spec.selector, candidates)
    if claim.actions:
        return Plan(claim.actions)
    if job.metadata.deletion_timestamp:
        return Plan(tuple(_released(pod) for pod in claim.mine if TRACKING in pod.metadata.finalizers))
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
    actions: list[Action] = [_released(pod) for pod in mine if TRACKING in pod.metadata.finalizers]
    ttl, since = job.spec.ttl_seconds_after_finished, finished_at(job)
    if ttl is None or not since:
        return Plan(tuple(actions))
    left = (later(parse_timestamp(since), ttl) - now).total_seconds()
    if left <= 0:
        return Plan((*actions, Delete(job)))
    return Plan(tuple(actions), left)


def _run(job: Job, mine: Sequence[Pod], now: datetime) -> Plan:
    status = _started(job, now)
    counted, releases = _count(job, mine, status)
    seen = _seen(job, mine, status)
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


def _count(job: Job, mine: Sequence[Pod], status: JobStatus) -> tuple[bool, list[Action]]:
    """Take the ends of pods into `status`. Returns whether there are new ones (to be stored before anything else), and
    the releases of pods whose end is stored."""
    stored = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    held = {pod.metadata.uid or "" for pod in mine if TRACKING in pod.metadata.finalizers}
    done = indexes.parse(status.completed_indexes)
    uncounted = UncountedTerminatedPods()
    for uid in stored.succeeded:
        if uid in held:
            uncounted.succeeded.append(uid)
        else:
            status.succeeded = (status.succeeded or 0) + 1
    for uid in stored.failed:
        if uid in held:
            uncounted.failed.append(uid)
        else:
            status.failed = (status.failed or 0) + 1
    news = False
    releases: list[Action] = []
    for pod in mine:
        uid = pod.metadata.uid or ""
        if uid not in held:
            continue
        if uid in stored.succeeded or uid in stored.failed:
            releases.append(_released(pod))
        elif pod.status.phase == "Succeeded":
            news = True
            index = index_of(pod)
            if not _indexed(job):
                uncounted.succeeded.append(uid)
            elif index is not None and index not in done and index < (job.spec.completions or 0):
                done.add(index)
                uncounted.succeeded.append(uid)
            else:
                releases.append(_released(pod))
        elif _has_failed(job, pod):
            news = True
            uncounted.failed.append(uid)
    if _indexed(job):
        status.completed_indexes = indexes.format(done)
    status.uncounted_terminated_pods = uncounted
    return news, releases


def _has_failed(job: Job, pod: Pod) -> bool:
    """A pod that is being deleted counts as failed at once, unless the Job waits for real failures."""
    if pod.status.phase == "Failed":
        return True
    return bool(pod.metadata.deletion_timestamp) and job.spec.pod_replacement_policy != "Failed"


def _released(pod: Pod) -> Update:
    free = pod.copied()
    free.metadata.finalizers = [item for item in free.metadata.finalizers if item != TRACKING]
    return Update(free)


def _seen(job: Job, mine: Sequence[Pod], status: JobStatus) -> _Seen:
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return _Seen(
        mine,
        [pod for pod in mine if pods.active(pod)],
        (status.succeeded or 0) + len(uncounted.succeeded),
        (status.failed or 0) + len(uncounted.failed),
        frozenset(indexes.parse(status.completed_indexes)),
    )


def _indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def index_of(pod: Pod) -> int | None:
    return decimal(pod.metadata.annotations.get(INDEX, ""))


# The end


def _decided(job: Job) -> _Outcome | None:
    """What was decided before, while its last pods were still to go."""
    for kind, failed in (("FailureTarget", True), ("SuccessCriteriaMet", False)):
        found = condition(job, kind)
        if found is not None:
            return _Outcome(failed, found.reason or "", found.message or "")
    return None


def _outcome(job: Job, seen: _Seen, now: datetime) -> _Outcome | None:
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if seen.failed > limit or _too_many_restarts(job, seen, limit):
        return _Outcome(True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = _deadline_left(job, job.status, now)
    if left is not None and left <= 0:
        return _Outcome(True, "DeadlineExceeded", "Job was active longer than specified deadline")
    if _complete(job, seen):
        return _Outcome(False, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _too_many_restarts(job: Job, seen: _Seen, limit: int) -> bool:
    """Where containers are restarted in place, their restarts are the failures."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    statuses = (item for pod in seen.active for item in pod.status.container_statuses)
    restarts = sum(item.restart_count for item in statuses)
    return restarts > 0 if limit == 0 else restarts >= limit


def _complete(job: Job, seen: _Seen) -> bool:
    if job.spec.completions is None:
        return seen.succeeded > 0 and not seen.active
    if _indexed(job):
        return len(seen.indexes) >= job.spec.completions
    return seen.succeeded >= job.spec.completions


def _deadline_left(job: Job, status: JobStatus, now: datetime) -> float | None:
    if job.spec.active_deadline_seconds is None or not status.start_time or job.spec.suspend:
        return None
    due = later(parse_timestamp(status.start_time), job.spec.active_deadline_seconds)
    return (due - now).total_seconds()


def _conclude(status: JobStatus, outcome: _Outcome, seen: _Seen, now: datetime) -> None:
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


def _number(job: Job, status: JobStatus, seen: _Seen) -> None:
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


def _scale(job: Job, seen: _Seen, now: datetime) -> tuple[list[Action], float | None]:
    """What to start or end now; and in how many seconds, if it is to wait after failures."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # A queue of work: once one has succeeded, no other is started.
        wanted = len(seen.active) if seen.succeeded else parallelism
    else:
        done = len(seen.indexes) if _indexed(job) else seen.succeeded
        wanted = min(parallelism, job.spec.completions - done)
    occupied = len(seen.active)
    if job.spec.pod_replacement_policy == "Failed":
        occupied += sum(map(pods.terminating, seen.pods))
    if len(seen.active) > wanted:
        return _deletions(pods.deletion_order(seen.active)[: len(seen.active) - wanted]), None
    missing = min(wanted - occupied, _BURST)
    if missing <= 0:
        return [], None
    wait = _backoff(seen, now)
    if wait > 0:
        return [], wait
    if not _indexed(job):
        return [Create(_pod(job, None), "Created pod: {name}") for _ in range(missing)], None
    busy = {index_of(pod) for pod in seen.pods if not pods.finished(pod)}
    free = (index for index in range(job.spec.completions or 0) if index not in seen.indexes and index not in busy)
    return [Create(_pod(job, index), "Created pod: {name}") for index in islice(free, missing)], None


def _backoff(seen: _Seen, now: datetime) -> float:
    """Seconds still to wait after the failures since the last success, 10 s doubled with each, at most 10 min."""
    ends = sorted((_ended_at(pod), pod.status.phase == "Failed") for pod in seen.pods if pods.finished(pod))
    failures = 0
    for _, failed in reversed(ends):
        if not failed:
            break
        failures += 1
    if not failures or not ends[-1][0]:
        return 0.0
    delay = min(_BACKOFF_FIRST * 2.0 ** min(failures - 1, 10), _BACKOFF_MOST)
    return (later(parse_timestamp(ends[-1][0]), delay) - now).total_seconds()


def _ended_at(pod: Pod) -> str:
    """One that its node refused never began: then it is when it was made."""
    times = [
        item.state.terminated.finished_at or ""
        for item in pod.status.container_statuses
        if item.state and item.state.terminated
    ]
    return max(times, default="") or pod.metadata.creation_timestamp or ""


def _deletions(victims: Iterable[Pod]) -> list[Action]:
    return [Delete(pod, "Deleted pod: {name}") for pod in list(victims)[:_BURST]]


def _pod(job: Job, index: int | None) -> Pod:
    prefix = f"{job.metadata.name}-" if index is None else f"{job.metadata.name}-{index}-"
    pod = pods.from_template(job.spec.template, job, prefix=prefix)
    pod.metadata.finalizers.append(TRACKING)
    if index is not None:
        pod.metadata.annotations[INDEX] = str(index)
        pod.metadata.labels[INDEX] = str(index)
        pod.spec.hostname = f"{job.metadata.name}-{index}"
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if all(item.name != _INDEX_ENV for item in container.env):
                container.env.append(EnvVar(name=_INDEX_ENV, value=str(index)))
    return pod
