"""Counting a Job's pods. Pure.

What a pod's end counted for is not forgotten with the pod: each carries a finalizer until its end is in the Job's
status. In order: the UID goes into `uncountedTerminatedPods`; the finalizer goes; the UID becomes a number. A crash
between any two of these counts nothing twice (KEP-2307).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloudhub.workloads import indexes, jobpolicies, pods
from cloudhub.workloads.actions import Action, Update
from cloudhub.workloads.jobpolicies import index_of, indexed
from kubeapi.core import Pod
from kubeapi.workloads import Job, JobStatus, UncountedTerminatedPods

TRACKING = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True, slots=True)
class Seen:
    """The Job's pods, and what their ends amount to, those not yet counted included."""

    pods: Sequence[Pod]
    active: list[Pod]
    succeeded: int
    failed: int
    indexes: frozenset[int]
    """Completed ones."""
    failed_indexes: frozenset[int]
    """Where each index fails by itself."""


def count(job: Job, mine: Sequence[Pod], status: JobStatus) -> tuple[bool, list[Action]]:
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
            releases.append(released(pod))
        elif pod.status.phase == "Succeeded":
            news = True
            index = index_of(pod)
            if not indexed(job):
                uncounted.succeeded.append(uid)
            elif index is not None and index not in done and index < (job.spec.completions or 0):
                done.add(index)
                uncounted.succeeded.append(uid)
            else:
                releases.append(released(pod))
        elif has_failed(job, pod):
            if pod.status.phase == "Failed" and not jobpolicies.counts(job, pod):
                releases.append(released(pod))
                continue
            news = True
            uncounted.failed.append(uid)
    if indexed(job):
        status.completed_indexes = indexes.format(done)
    if jobpolicies.per_index(job):
        failed = indexes.parse(status.failed_indexes) | _failing(job, mine)
        # Written even if there is none: it tells that each index fails by itself.
        status.failed_indexes = indexes.format(failed - done) or ""
    status.uncounted_terminated_pods = uncounted
    return news, releases


def _failing(job: Job, mine: Sequence[Pod]) -> set[int]:
    failed = (pod for pod in mine if has_failed(job, pod) and jobpolicies.fails_index(job, pod))
    found = {index for pod in failed if (index := index_of(pod)) is not None}
    return {index for index in found if index < (job.spec.completions or 0)}


def has_failed(job: Job, pod: Pod) -> bool:
    """A pod that is being deleted counts as failed at once, unless the Job waits for real failures."""
    if pod.status.phase == "Failed":
        return True
    return bool(pod.metadata.deletion_timestamp) and job.spec.pod_replacement_policy != "Failed"


def released(pod: Pod) -> Update:
    free = pod.copied()
    free.metadata.finalizers = [item for item in free.metadata.finalizers if item != TRACKING]
    return Update(free)


def seen(job: Job, mine: Sequence[Pod], status: JobStatus) -> Seen:
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return Seen(
        mine,
        [pod for pod in mine if pods.active(pod)],
        (status.succeeded or 0) + len(uncounted.succeeded),
        (status.failed or 0) + len(uncounted.failed),
        frozenset(indexes.parse(status.completed_indexes)),
        frozenset(indexes.parse(status.failed_indexes)),
    )
