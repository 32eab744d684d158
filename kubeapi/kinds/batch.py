"""batch/v1: Job and CronJob (pkg/apis/batch/{v1,validation})."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import available_timezones

from kubeapi import labelselector
from kubeapi.ages import age, human
from kubeapi.clock import parse_timestamp
from kubeapi.columns import NONE
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, invalid, not_supported, required
from kubeapi.kinds import cron, jobpolicies, templates
from kubeapi.kinds.common import STATUS, ObjectStrategy, non_negative, one_of, template_cells, wide
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import KubeModel
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.workloads import BATCH, CronJob, Job, JobSpec

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_OLD_LABELS = {"controller-uid": CONTROLLER_UID, "job-name": JOB_NAME}
_MAX_INT32 = 2**31 - 1
_JOB_NAME_LIMIT = 52
"""Of a CronJob: its jobs' names are 11 characters longer."""
_WIDE = (wide("Containers"), wide("Images"), wide("Selector"))


def default_job_spec(spec: JobSpec) -> None:
    templates.default(spec.template)
    if spec.completions is None and spec.parallelism is None:
        spec.completions = spec.parallelism = 1
    spec.parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.backoff_limit is None:
        spec.backoff_limit = 6 if spec.backoff_limit_per_index is None else _MAX_INT32
    spec.completion_mode = spec.completion_mode or "NonIndexed"
    spec.suspend = bool(spec.suspend)
    if spec.pod_replacement_policy is None:
        spec.pod_replacement_policy = "Failed" if spec.pod_failure_policy else "TerminatingOrFailed"


def default_job(obj: Job) -> None:
    default_job_spec(obj.spec)


def prepare_job(obj: Job) -> None:
    """The selector that is its own, unless asked otherwise."""
    spec = obj.spec
    if spec.manual_selector:
        return
    labels = spec.template.metadata.labels
    labels[CONTROLLER_UID], labels[JOB_NAME] = obj.metadata.uid or "", obj.metadata.name
    for old, new in _OLD_LABELS.items():
        labels[old] = labels[new]
    spec.selector = spec.selector or LabelSelector()
    spec.selector.match_labels.setdefault(CONTROLLER_UID, obj.metadata.uid or "")


def validate_job(obj: Job) -> Sequence[Cause]:
    spec = obj.spec
    causes = validate_job_spec(spec, "spec")
    if spec.selector is None:
        return [*causes, required("spec.selector")]
    causes += labelselector.validate(spec.selector, "spec.selector")
    if not labelselector.matches(spec.selector, spec.template.metadata.labels):
        detail = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", spec.template.metadata.labels, detail))
    return causes


def validate_job_spec(spec: JobSpec, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        causes += non_negative(f"{path}.{name}", value)
    causes += one_of(f"{path}.completionMode", spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    causes += jobpolicies.validate(spec, path)
    policies = ("Failed", "TerminatingOrFailed")
    causes += one_of(f"{path}.podReplacementPolicy", spec.pod_replacement_policy, policies)
    causes += templates.validate(spec.template, f"{path}.template")
    where, policy = f"{path}.template.spec.restartPolicy", spec.template.spec.restart_policy
    if policy in (None, "", "Always"):
        causes.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        causes.append(not_supported(where, policy, ("OnFailure", "Never")))
    return causes


def _job_update(new: Job, old: Job) -> Sequence[Cause]:
    """A suspended job that has not started may still change what its pods are given."""
    causes: list[Cause] = []
    indexed_may_scale = new.spec.completion_mode == "Indexed" and new.spec.completions == new.spec.parallelism
    fixed = ["selector", "template", "completion_mode", "pod_failure_policy", "success_policy"]
    fixed += ["backoff_limit_per_index", "managed_by"]
    if old.spec.suspend and not old.status.start_time:
        fixed.remove("template")
    if not indexed_may_scale:
        fixed.insert(0, "completions")
    for name in fixed:
        value = getattr(new.spec, name)
        if value != getattr(old.spec, name):
            alias = JobSpec.model_fields[name].alias or name
            shown = value.to_dict() if isinstance(value, KubeModel) else value
            causes.append(invalid(f"spec.{alias}", shown, IMMUTABLE))
    return causes


def _job_status(obj: Job) -> str:
    true = {item.type for item in obj.status.conditions if item.status == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in true:
            return word
    if obj.metadata.deletion_timestamp:
        return "Terminating"
    for kind, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return word
    return "Running"


def _completions(obj: Job) -> str:
    done = obj.status.succeeded or 0
    if obj.spec.completions is not None:
        return f"{done}/{obj.spec.completions}"
    parallelism = obj.spec.parallelism or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(obj: Job, now: datetime) -> str:
    start, end = obj.status.start_time, obj.status.completion_time
    if not start:
        return ""
    until = parse_timestamp(end) if end else now
    return human(int((until - parse_timestamp(start)).total_seconds()))


def _job_cells(obj: Job, now: datetime) -> Sequence[Cell]:
    return (
        obj.metadata.name,
        _job_status(obj),
        _completions(obj),
        _duration(obj, now),
        age(obj.metadata.creation_timestamp, now),
        *template_cells(obj.spec.template),
        labelselector.to_text(obj.spec.selector),
    )


JOBS: ResourceType[Job] = ResourceType(
    model=Job,
    kind="Job",
    plural="jobs",
    singular="job",
    group=BATCH,
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (NAME_COLUMN, Column("Status"), Column("Completions"), Column("Duration"), AGE_COLUMN, *_WIDE), _job_cells
    ),
    fields={"status.successful": lambda obj: str(obj.status.succeeded or 0)},
    strategy=ObjectStrategy(validate=validate_job, compare=_job_update, default=default_job, prepare=prepare_job),
)


# CronJob


def default_cron_job(obj: CronJob) -> None:
    spec = obj.spec
    templates.default(spec.job_template.spec.template)  # the job's own defaults come when it is made
    spec.concurrency_policy = spec.concurrency_policy or "Allow"
    spec.suspend = bool(spec.suspend)
    if spec.successful_jobs_history_limit is None:
        spec.successful_jobs_history_limit = 3
    spec.failed_jobs_history_limit = 1 if spec.failed_jobs_history_limit is None else spec.failed_jobs_history_limit


def validate_cron_job(obj: CronJob) -> Sequence[Cause]:
    spec = obj.spec
    causes: list[Cause] = []
    if len(obj.metadata.name) > _JOB_NAME_LIMIT:
        causes.append(invalid("metadata.name", obj.metadata.name, f"must be no more than {_JOB_NAME_LIMIT} characters"))
    causes += _schedule(spec.schedule, spec.time_zone)
    causes += non_negative("spec.startingDeadlineSeconds", spec.starting_deadline_seconds)
    causes += one_of("spec.concurrencyPolicy", spec.concurrency_policy, ("Allow", "Forbid", "Replace"))
    job = spec.job_template.spec.copied()
    default_job_spec(job)
    causes += validate_job_spec(job, "spec.jobTemplate.spec")
    causes += non_negative("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit)
    return [*causes, *non_negative("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit)]


def _schedule(schedule: str, zone: str | None) -> list[Cause]:
    if not schedule:
        return [required("spec.schedule")]
    causes = []
    try:
        cron.check(schedule)
    except cron.CronError as error:
        causes.append(invalid("spec.schedule", schedule, str(error)))
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid("spec.schedule", schedule, detail))
    if zone == "":
        causes.append(invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
    elif zone is not None and zone not in available_timezones():
        causes.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    return causes


def _cron_job_cells(obj: CronJob, now: datetime) -> Sequence[Cell]:
    last = obj.status.last_schedule_time
    return (
        obj.metadata.name,
        obj.spec.schedule,
        obj.spec.time_zone or NONE,
        "True" if obj.spec.suspend else "False",
        len(obj.status.active),
        age(last, now) if last else NONE,
        age(obj.metadata.creation_timestamp, now),
        *template_cells(obj.spec.job_template.spec.template),
        labelselector.to_text(obj.spec.job_template.spec.selector),
    )


CRON_JOBS: ResourceType[CronJob] = ResourceType(
    model=CronJob,
    kind="CronJob",
    plural="cronjobs",
    singular="cronjob",
    group=BATCH,
    short_names=("cj",),
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Schedule"),
            Column("Timezone"),
            Column("Suspend", type="boolean"),
            Column("Active", type="integer"),
            Column("Last Schedule"),
            AGE_COLUMN,
            *_WIDE,
        ),
        _cron_job_cells,
    ),
    strategy=ObjectStrategy(validate=validate_cron_job, default=default_cron_job),
)

KINDS = (CRON_JOBS, JOBS)
