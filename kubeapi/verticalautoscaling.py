"""autoscaling.k8s.io/v1: VerticalPodAutoscaler, with the names of the Kubernetes autoscaler project's type."""

from __future__ import annotations

from pydantic import Field

from kubeapi.core import ResourceList
from kubeapi.meta import Condition, KubeModel, KubeObject

GROUP = "autoscaling.k8s.io"


class TargetReference(KubeModel):
    """Who makes the pods, in the autoscaler's own namespace."""

    api_version: str | None = None
    kind: str = ""
    name: str = ""


class EvictionRequirement(KubeModel):
    """When a pod may be evicted for another size."""

    resources: list[str] = Field(default_factory=list)
    change_requirement: str = ""
    """`TargetHigherThanRequests` or `TargetLowerThanRequests`."""


class UpdatePolicy(KubeModel):
    """How a recommendation becomes a pod's resources."""

    update_mode: str | None = None
    min_replicas: int | None = None
    """Fewer than that many replicas alive, and none is evicted."""
    eviction_requirements: list[EvictionRequirement] = Field(default_factory=list)


class ContainerResourcePolicy(KubeModel):
    """The bounds of a recommendation for the containers of that name; `*` is for all others."""

    container_name: str | None = None
    mode: str | None = None
    """`Auto` or `Off`."""
    min_allowed: ResourceList = Field(default_factory=dict)
    max_allowed: ResourceList = Field(default_factory=dict)
    controlled_resources: list[str] = Field(default_factory=list)
    controlled_values: str | None = None
    """`RequestsAndLimits` or `RequestsOnly`."""


class ResourcePolicy(KubeModel):
    container_policies: list[ContainerResourcePolicy] = Field(default_factory=list)


class RecommenderSelector(KubeModel):
    """By name, who is to recommend."""

    name: str = ""


class VerticalPodAutoscalerSpec(KubeModel):
    target_ref: TargetReference | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None
    recommenders: list[RecommenderSelector] = Field(default_factory=list)


class RecommendedContainerResources(KubeModel):
    container_name: str | None = None
    target: ResourceList = Field(default_factory=dict)
    lower_bound: ResourceList = Field(default_factory=dict)
    upper_bound: ResourceList = Field(default_factory=dict)
    uncapped_target: ResourceList = Field(default_factory=dict)


class RecommendedPodResources(KubeModel):
    container_recommendations: list[RecommendedContainerResources] = Field(default_factory=list)


class VerticalPodAutoscalerStatus(KubeModel):
    recommendation: RecommendedPodResources | None = None
    conditions: list[Condition] = Field(default_factory=list)


class VerticalPodAutoscaler(KubeObject):
    """Which pods should have their resources fitted to their use, and within which bounds."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "VerticalPodAutoscaler"
    spec: VerticalPodAutoscalerSpec = Field(default_factory=VerticalPodAutoscalerSpec)
    status: VerticalPodAutoscalerStatus = Field(default_factory=VerticalPodAutoscalerStatus)
