"""HorizontalPodAutoscaler (autoscaling/v2) and ReplicationController: known, so that charts and `kubectl apply --prune`
find them; nothing here acts upon them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeapi.meta import KubeModel, KubeObject, Timestamp
from kubeapi.workloads import PodTemplateSpec, ReplicaSetStatus, WorkloadCondition

AUTOSCALING = "autoscaling"


class CrossVersionObjectReference(KubeModel):
    kind: str = ""
    name: str = ""
    api_version: str | None = None


class HorizontalPodAutoscalerSpec(KubeModel):
    scale_target_ref: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: list[dict[str, Any]] = Field(default_factory=list)
    behavior: dict[str, Any] | None = None


class HorizontalPodAutoscalerStatus(KubeModel):
    current_replicas: int | None = None
    desired_replicas: int = 0
    observed_generation: int | None = None
    last_scale_time: Timestamp | None = None
    current_metrics: list[dict[str, Any]] = Field(default_factory=list)
    conditions: list[WorkloadCondition] = Field(default_factory=list)


class HorizontalPodAutoscaler(KubeObject):
    api_version: str = f"{AUTOSCALING}/v2"
    kind: str = "HorizontalPodAutoscaler"
    spec: HorizontalPodAutoscalerSpec = Field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = Field(default_factory=HorizontalPodAutoscalerStatus)


class ReplicationControllerSpec(KubeModel):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: dict[str, str] = Field(default_factory=dict)
    template: PodTemplateSpec | None = None


class ReplicationController(KubeObject):
    api_version: str = "v1"
    kind: str = "ReplicationController"
    spec: ReplicationControllerSpec = Field(default_factory=ReplicationControllerSpec)
    status: ReplicaSetStatus = Field(default_factory=ReplicaSetStatus)
