"""A Job's next pods: what they are like, and when they may come after failures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from cloudhub.workloads import pods
from cloudhub.workloads.jobcounts import TRACKING, has_failed
from cloudhub.workloads.jobpolicies import FAILURES, IGNORED_FAILURES, INDEX, counts, failures_before, per_index
from kubeapi.clock import later, parse_timestamp
from kubeapi.core import EnvVar, Pod
from kubeapi.workloads import Job

_INDEX_ENV = "JOB_COMPLETION_INDEX"
_BACKOFF_FIRST, _BACKOFF_MOST = 10.0, 600.0
"""Seconds to wait after failures that follow each other."""


def backoff(job: Job, mine: Iterable[Pod], now: datetime) -> float:
    """Seconds still to wait after the failures since the last success, 10 s doubled with each, at most 10 min."""
    counted = (pod for pod in mine if pods.finished(pod) and (pod.status.phase != "Failed" or counts(job, pod)))
    ends = sorted((_ended_at(pod), pod.status.phase == "Failed") for pod in counted)
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


def made(job: Job, index: int | None, before: Sequence[Pod] = ()) -> Pod:
    """`before`: the pods that this index has had."""
    prefix = f"{job.metadata.name}-" if index is None else f"{job.metadata.name}-{index}-"
    pod = pods.from_template(job.spec.template, job, prefix=prefix)
    pod.metadata.finalizers.append(TRACKING)
    if index is not None:
        pod.metadata.annotations[INDEX] = str(index)
        pod.metadata.labels[INDEX] = str(index)
        if per_index(job):
            pod.metadata.annotations |= _failures(job, before)
        pod.spec.hostname = f"{job.metadata.name}-{index}"
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if all(item.name != _INDEX_ENV for item in container.env):
                container.env.append(EnvVar(name=_INDEX_ENV, value=str(index)))
    return pod


def _failures(job: Job, before: Sequence[Pod]) -> dict[str, str]:
    """How many of an index's pods failed before this one; by the one that has come furthest."""
    counted = ignored = 0
    for pod in before:
        if has_failed(job, pod):
            own = counts(job, pod)
            counted = max(counted, failures_before(pod) + own)
            ignored = max(ignored, failures_before(pod, IGNORED_FAILURES) + (not own))
    return {FAILURES: str(counted)} | ({IGNORED_FAILURES: str(ignored)} if ignored else {})
