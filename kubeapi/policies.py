"""Kinds that bound or rank pods: ResourceQuota, PriorityClass, RuntimeClass, PodDisruptionBudget, Eviction's part."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeapi.core import ResourceList, Toleration
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import Condition, KubeModel, KubeObject
from kubeapi.workloads import IntOrString

POLICY = "policy"
SCHEDULING = "scheduling.k8s.io"
NODE = "node.k8s.io"


class ScopedSelectorRequirement(KubeModel):
    scope_name: str = ""
    operator: str = ""
    values: list[str] = Field(default_factory=list)


class ScopeSelector(KubeModel):
    match_expressions: list[ScopedSelectorRequirement] = Field(default_factory=list)


class ResourceQuotaSpec(KubeModel):
    hard: ResourceList = Field(default_factory=dict)
    scopes: list[str] = Field(default_factory=list)
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(KubeModel):
    hard: ResourceList = Field(default_factory=dict)
    used: ResourceList = Field(default_factory=dict)


class ResourceQuota(KubeObject):
    api_version: str = "v1"
    kind: str = "ResourceQuota"
    spec: ResourceQuotaSpec = Field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = Field(default_factory=ResourceQuotaStatus)


class PriorityClass(KubeObject):
    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    value: int = 0
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None
    """`PreemptLowerPriority` or `Never`."""


class Overhead(KubeModel):
    pod_fixed: ResourceList = Field(default_factory=dict)


class RuntimeScheduling(KubeModel):
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class RuntimeClass(KubeObject):
    api_version: str = "node.k8s.io/v1"
    kind: str = "RuntimeClass"
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None


class PodDisruptionBudgetSpec(KubeModel):
    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None
    """`IfHealthyBudget` (the default) or `AlwaysAllow`."""


class PodDisruptionBudgetStatus(KubeModel):
    observed_generation: int | None = None
    disrupted_pods: dict[str, Any] = Field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[Condition] = Field(default_factory=list)


class PodDisruptionBudget(KubeObject):
    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = Field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = Field(default_factory=PodDisruptionBudgetStatus)
