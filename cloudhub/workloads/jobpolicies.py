"""What a Job's policies say of a failed pod, and of the indexes that are done. Pure (pod_failure_policy.go,
success_policy.go, backoff_utils.go of the reference's job controller)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cloudhub.workloads import indexes
from kubeapi.core import ContainerStatus, Pod
from kubeapi.jobpolicies import FAIL_INDEX, FAIL_JOB, IGNORE, OnExitCodes, OnPodCondition
from kubeapi.numbers import decimal
from kubeapi.workloads import Job

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Of an index's pod: how many failed before it; counted ones, and those that the policy ignores."""


@dataclass(frozen=True, slots=True)
class Judgement:
    action: str = ""
    """Of the rule that matches; empty: none does, and it counts."""
    message: str = ""


def indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def per_index(job: Job) -> bool:
    """Whether each index fails by itself."""
    return indexed(job) and job.spec.backoff_limit_per_index is not None


def index_of(pod: Pod) -> int | None:
    return decimal(pod.metadata.annotations.get(INDEX, ""))


def failures_before(pod: Pod, which: str = FAILURES) -> int:
    return decimal(pod.metadata.annotations.get(which, "")) or 0


def judge(job: Job, pod: Pod) -> Judgement:
    """Of a pod that has failed."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        if rule.action == FAIL_INDEX and not per_index(job):
            continue
        if rule.on_exit_codes is not None:
            found = _exited(pod, rule.on_exit_codes)
            if found is not None:
                code = found.state.terminated.exit_code if found.state and found.state.terminated else 0
                what = f"Container {found.name} for pod {_name(pod)} failed with exit code {code}"
                return Judgement(rule.action, f"{what} matching {rule.action} rule at index {number}")
        else:
            condition = _has_condition(pod, rule.on_pod_conditions)
            if condition is not None:
                what = f"Pod {_name(pod)} has condition {condition.type}"
                return Judgement(rule.action, f"{what} matching {rule.action} rule at index {number}")
    return Judgement()


def counts(job: Job, pod: Pod) -> bool:
    """Whether that failed pod's end is one of `backoffLimit`."""
    return judge(job, pod).action != IGNORE


def fails_job(job: Job, failed: Iterable[Pod]) -> str | None:
    """The message of the first of these failed pods that ends the Job; None: none does."""
    if job.spec.pod_failure_policy is None:
        return None
    verdicts = (judge(job, pod) for pod in failed)
    return next((item.message for item in verdicts if item.action == FAIL_JOB), None)


def fails_index(job: Job, pod: Pod) -> bool:
    """Whether with that failed pod its index has failed."""
    action = judge(job, pod).action
    if action == FAIL_INDEX:
        return True
    return action != IGNORE and failures_before(pod) >= (job.spec.backoff_limit_per_index or 0)


def succeeds(job: Job, done: frozenset[int]) -> str | None:
    """The message of the first rule of its successPolicy that is met; None: none is."""
    policy = job.spec.success_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        spans = indexes.spans(rule.succeeded_indexes) if rule.succeeded_indexes is not None else None
        meant = done if spans is None else {index for index in done if any(index in span for span in spans)}
        if rule.succeeded_count is not None:
            needed = rule.succeeded_count
        else:
            needed = sum(map(len, spans or ())) or len(done) + 1
        if len(meant) >= needed:
            return f"Matched rules at index {number}"
    return None


def _exited(pod: Pod, wanted: OnExitCodes) -> ContainerStatus | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated if status.state else None
        if ended is None or ended.exit_code == 0 or wanted.container_name not in (None, status.name):
            continue
        if (ended.exit_code in wanted.values) is (wanted.operator == "In"):
            return status
    return None


def _has_condition(pod: Pod, wanted: Sequence[OnPodCondition]) -> OnPodCondition | None:
    has = {(item.type, item.status) for item in pod.status.conditions}
    return next((item for item in wanted if (item.type, item.status or "True") in has), None)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
