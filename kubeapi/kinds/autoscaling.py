"""HorizontalPodAutoscaler and ReplicationController: stored only, and every creation is warned of that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi.ages import age
from kubeapi.autoscaling import AUTOSCALING, HorizontalPodAutoscaler, ReplicationController
from kubeapi.errors import Cause
from kubeapi.fields import invalid, required
from kubeapi.kinds import templates
from kubeapi.kinds.common import STATUS, ObjectStrategy, non_negative
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table

_UNUSED = "this hub stores {}, and nothing acts upon them"


# HorizontalPodAutoscaler


def _default_autoscaler(obj: HorizontalPodAutoscaler) -> None:
    obj.spec.min_replicas = 1 if obj.spec.min_replicas is None else obj.spec.min_replicas


def _validate_autoscaler(obj: HorizontalPodAutoscaler) -> Sequence[Cause]:
    spec, causes = obj.spec, []
    least = spec.min_replicas or 0
    if least < 1:
        causes.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if spec.max_replicas < 1:
        causes.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than 0"))
    if spec.max_replicas < least:
        causes.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to `minReplicas`"))
    target = spec.scale_target_ref
    return [
        *causes,
        *(required(f"spec.scaleTargetRef.{name}") for name in ("kind", "name") if not getattr(target, name)),
    ]


def _autoscaler_cells(obj: HorizontalPodAutoscaler, now: datetime) -> Sequence[Cell]:
    target = obj.spec.scale_target_ref
    return (
        obj.metadata.name,
        f"{target.kind}/{target.name}",
        "<unknown>",
        str(obj.spec.min_replicas),
        obj.spec.max_replicas,
        obj.status.current_replicas or 0,
        age(obj.metadata.creation_timestamp, now),
    )


HORIZONTAL_POD_AUTOSCALERS: ResourceType[HorizontalPodAutoscaler] = ResourceType(
    model=HorizontalPodAutoscaler,
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    singular="horizontalpodautoscaler",
    group=AUTOSCALING,
    version="v2",
    short_names=("hpa",),
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Reference"),
            Column("Targets"),
            Column("MinPods"),
            Column("MaxPods", type="integer"),
            Column("Replicas", type="integer"),
            AGE_COLUMN,
        ),
        _autoscaler_cells,
    ),
    strategy=ObjectStrategy(validate=_validate_autoscaler, default=_default_autoscaler, generation=False),
    warning=_UNUSED.format("HorizontalPodAutoscalers"),
)


# ReplicationController


def _default_replication(obj: ReplicationController) -> None:
    spec = obj.spec
    spec.replicas = 1 if spec.replicas is None else spec.replicas
    if spec.template is not None:
        templates.default(spec.template)
        spec.selector = spec.selector or dict(spec.template.metadata.labels)


def _validate_replication(obj: ReplicationController) -> Sequence[Cause]:
    spec = obj.spec
    causes = [*non_negative("spec.replicas", spec.replicas)]
    if not spec.selector:
        causes.append(required("spec.selector"))
    return [*causes, *([required("spec.template")] if spec.template is None else ())]


def _replication_cells(obj: ReplicationController, now: datetime) -> Sequence[Cell]:
    status = obj.status
    return (
        obj.metadata.name,
        obj.spec.replicas or 0,
        status.replicas,
        status.ready_replicas or 0,
        age(obj.metadata.creation_timestamp, now),
    )


REPLICATION_CONTROLLERS: ResourceType[ReplicationController] = ResourceType(
    model=ReplicationController,
    kind="ReplicationController",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    short_names=("rc",),
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Desired", type="integer"),
            Column("Current", type="integer"),
            Column("Ready", type="integer"),
            AGE_COLUMN,
        ),
        _replication_cells,
    ),
    strategy=ObjectStrategy(validate=_validate_replication, default=_default_replication),
    warning=_UNUSED.format("ReplicationControllers"),
)

KINDS = (HORIZONTAL_POD_AUTOSCALERS, REPLICATION_CONTROLLERS)
