"""The apps/v1 and batch/v1 types, with Kubernetes 1.36's names. Undeclared fields are kept.

A count that the reference leaves out at zero is `int | None` here; one that it always writes is `int`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from kubeapi.core import ObjectReference, PodSpec
from kubeapi.jobpolicies import PodFailurePolicy, SuccessPolicy
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import Condition, KubeModel, KubeObject, ObjectMeta, Timestamp
from kubeapi.storage import PersistentVolumeClaim

APPS = "apps"
BATCH = "batch"

IntOrString = int | str
"""A count, or a percentage such as `25%`."""


class PodTemplateSpec(KubeModel):
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)


class WorkloadCondition(Condition):
    """Of Deployments, ReplicaSets, DaemonSets, StatefulSets and Jobs."""

    last_update_time: Timestamp | None = None
    last_probe_time: Timestamp | None = None


class RollingUpdate(KubeModel):
    """Of a Deployment or DaemonSet."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(KubeModel):
    type: str | None = None
    """`RollingUpdate` or `Recreate`."""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"rollbackTo"})
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)
    strategy: DeploymentStrategy = Field(default_factory=DeploymentStrategy)
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None


class DeploymentStatus(KubeModel):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    unavailable_replicas: int | None = None
    terminating_replicas: int | None = None
    conditions: list[WorkloadCondition] = Field(default_factory=list)
    collision_count: int | None = None


class Deployment(KubeObject):
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    spec: DeploymentSpec = Field(default_factory=DeploymentSpec)
    status: DeploymentStatus = Field(default_factory=DeploymentStatus)


class ReplicaSetSpec(KubeModel):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)


class ReplicaSetStatus(KubeModel):
    replicas: int = 0
    fully_labeled_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    terminating_replicas: int | None = None
    observed_generation: int | None = None
    conditions: list[WorkloadCondition] = Field(default_factory=list)


class ReplicaSet(KubeObject):
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    spec: ReplicaSetSpec = Field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = Field(default_factory=ReplicaSetStatus)


class DaemonSetUpdateStrategy(KubeModel):
    type: str | None = None
    """`RollingUpdate` or `OnDelete`."""
    rolling_update: RollingUpdate | None = None


class DaemonSetSpec(KubeModel):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = Field(default_factory=DaemonSetUpdateStrategy)
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None


class DaemonSetStatus(KubeModel):
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None
    number_available: int | None = None
    number_unavailable: int | None = None
    collision_count: int | None = None
    conditions: list[WorkloadCondition] = Field(default_factory=list)


class DaemonSet(KubeObject):
    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    spec: DaemonSetSpec = Field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = Field(default_factory=DaemonSetStatus)


class StatefulSetRollingUpdate(KubeModel):
    partition: int | None = None
    max_unavailable: IntOrString | None = None


class StatefulSetUpdateStrategy(KubeModel):
    type: str | None = None
    """`RollingUpdate` or `OnDelete`."""
    rolling_update: StatefulSetRollingUpdate | None = None


class ClaimRetentionPolicy(KubeModel):
    when_deleted: str | None = None
    """`Retain` or `Delete`."""
    when_scaled: str | None = None


class StatefulSetOrdinals(KubeModel):
    start: int = 0


class StatefulSetSpec(KubeModel):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)
    volume_claim_templates: list[PersistentVolumeClaim] = Field(default_factory=list)
    service_name: str = ""
    pod_management_policy: str | None = None
    """`OrderedReady` or `Parallel`."""
    update_strategy: StatefulSetUpdateStrategy = Field(default_factory=StatefulSetUpdateStrategy)
    revision_history_limit: int | None = None
    min_ready_seconds: int | None = None
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(KubeModel):
    observed_generation: int | None = None
    replicas: int = 0
    ready_replicas: int | None = None
    current_replicas: int | None = None
    updated_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: int | None = None
    conditions: list[WorkloadCondition] = Field(default_factory=list)
    available_replicas: int = 0


class StatefulSet(KubeObject):
    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    spec: StatefulSetSpec = Field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = Field(default_factory=StatefulSetStatus)


class ControllerRevision(KubeObject):
    api_version: str = "apps/v1"
    kind: str = "ControllerRevision"
    data: dict[str, Any] | None = None
    revision: int = 0


class JobSpec(KubeModel):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    """`NonIndexed` or `Indexed`."""
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    """`TerminatingOrFailed` or `Failed`."""
    managed_by: str | None = None


class UncountedTerminatedPods(KubeModel):
    succeeded: list[str] = Field(default_factory=list)
    failed: list[str] = Field(default_factory=list)


class JobStatus(KubeModel):
    conditions: list[WorkloadCondition] = Field(default_factory=list)
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(KubeObject):
    api_version: str = "batch/v1"
    kind: str = "Job"
    spec: JobSpec = Field(default_factory=JobSpec)
    status: JobStatus = Field(default_factory=JobStatus)


class JobTemplateSpec(KubeModel):
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: JobSpec = Field(default_factory=JobSpec)


class CronJobSpec(KubeModel):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    """`Allow`, `Forbid` or `Replace`."""
    suspend: bool | None = None
    job_template: JobTemplateSpec = Field(default_factory=JobTemplateSpec)
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(KubeModel):
    active: list[ObjectReference] = Field(default_factory=list)
    last_schedule_time: Timestamp | None = None
    last_successful_time: Timestamp | None = None


class CronJob(KubeObject):
    api_version: str = "batch/v1"
    kind: str = "CronJob"
    spec: CronJobSpec = Field(default_factory=CronJobSpec)
    status: CronJobStatus = Field(default_factory=CronJobStatus)
