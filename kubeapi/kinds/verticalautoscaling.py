"""VerticalPodAutoscaler: validated and stored for whoever recommends and acts; nothing in the hub does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.fields import required
from kubeapi.kinds.common import STATUS, ObjectStrategy, non_negative, one_of
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.validation import validate_amounts
from kubeapi.verticalautoscaling import GROUP, VerticalPodAutoscaler

_MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto")


def validate(obj: VerticalPodAutoscaler) -> Sequence[Cause]:
    spec = obj.spec
    causes: list[Cause] = []
    if spec.target_ref is None:
        causes.append(required("spec.targetRef"))
    else:
        parts = (("kind", spec.target_ref.kind), ("name", spec.target_ref.name))
        causes += [required(f"spec.targetRef.{name}") for name, value in parts if not value]
    if spec.update_policy:
        if spec.update_policy.update_mode is not None:
            causes += one_of("spec.updatePolicy.updateMode", spec.update_policy.update_mode, _MODES)
        causes += non_negative("spec.updatePolicy.minReplicas", spec.update_policy.min_replicas)
    for index, policy in enumerate(spec.resource_policy.container_policies if spec.resource_policy else ()):
        path = f"spec.resourcePolicy.containerPolicies[{index}]"
        if policy.mode is not None:
            causes += one_of(f"{path}.mode", policy.mode, ("Auto", "Off"))
        if policy.controlled_values is not None:
            causes += one_of(
                f"{path}.controlledValues", policy.controlled_values, ("RequestsAndLimits", "RequestsOnly")
            )
        causes += validate_amounts(policy.min_allowed, f"{path}.minAllowed")
        causes += validate_amounts(policy.max_allowed, f"{path}.maxAllowed")
    return causes


def _cells(obj: VerticalPodAutoscaler, now: datetime) -> Sequence[Cell]:
    mode = obj.spec.update_policy.update_mode if obj.spec.update_policy else None
    found = obj.status.recommendation.container_recommendations if obj.status.recommendation else []
    target = found[0].target if found else {}
    provided = next((item.status for item in obj.status.conditions if item.type == "RecommendationProvided"), None)
    created = age(obj.metadata.creation_timestamp, now)
    return (obj.metadata.name, mode, target.get("cpu"), target.get("memory"), provided, created)


VERTICAL_POD_AUTOSCALERS: ResourceType[VerticalPodAutoscaler] = ResourceType(
    model=VerticalPodAutoscaler,
    kind="VerticalPodAutoscaler",
    plural="verticalpodautoscalers",
    singular="verticalpodautoscaler",
    group=GROUP,
    short_names=("vpa",),
    subresources=(STATUS,),
    table=Table(
        (NAME_COLUMN, Column("Mode"), Column("CPU"), Column("Mem"), Column("Provided"), AGE_COLUMN),
        _cells,
    ),
    strategy=ObjectStrategy(validate=validate),
    warning="this hub stores VerticalPodAutoscalers, and nothing acts upon them",
)

KINDS = (VERTICAL_POD_AUTOSCALERS,)
