"""apps/v1: Deployment, ReplicaSet, DaemonSet, StatefulSet, ControllerRevision (pkg/apis/apps/{v1,validation})."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi import labelselector
from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, forbidden, invalid, required
from kubeapi.kinds import templates
from kubeapi.kinds.common import (
    SCALE,
    STATUS,
    ObjectStrategy,
    count_or_percent,
    is_zero,
    non_negative,
    one_of,
    pairs,
    template_cells,
    wide,
)
from kubeapi.meta import KubeObject
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.workloads import (
    APPS,
    ClaimRetentionPolicy,
    ControllerRevision,
    DaemonSet,
    Deployment,
    PodTemplateSpec,
    ReplicaSet,
    RollingUpdate,
    StatefulSet,
    StatefulSetRollingUpdate,
    StatefulSetSpec,
)

Selecting = Deployment | ReplicaSet | DaemonSet
_TEMPLATE_COLUMNS = (wide("Containers"), wide("Images"))


def _number(name: str) -> Column:
    return Column(name, type="integer")


def _age(obj: KubeObject, now: datetime) -> str:
    return age(obj.metadata.creation_timestamp, now)


def _immutable_selector(new: Selecting, old: Selecting) -> list[Cause]:
    if new.spec.selector == old.spec.selector:
        return []
    return [invalid("spec.selector", new.spec.selector.to_dict() if new.spec.selector else None, IMMUTABLE)]


# Deployment


def default_deployment(obj: Deployment) -> None:
    spec = obj.spec
    templates.default(spec.template)
    spec.replicas = 1 if spec.replicas is None else spec.replicas
    spec.strategy.type = spec.strategy.type or "RollingUpdate"
    if spec.strategy.type == "RollingUpdate":
        rolling = spec.strategy.rolling_update = spec.strategy.rolling_update or RollingUpdate()
        rolling.max_unavailable = "25%" if rolling.max_unavailable is None else rolling.max_unavailable
        rolling.max_surge = "25%" if rolling.max_surge is None else rolling.max_surge
    spec.revision_history_limit = 10 if spec.revision_history_limit is None else spec.revision_history_limit
    if spec.progress_deadline_seconds is None:
        spec.progress_deadline_seconds = 600


def validate_deployment(obj: Deployment) -> Sequence[Cause]:
    spec = obj.spec
    causes = non_negative("spec.replicas", spec.replicas)
    causes += templates.validate_selected(spec.template, spec.selector, "spec", "deployment", "ReplicaSet")
    causes += _deployment_strategy(obj)
    causes += non_negative("spec.minReadySeconds", spec.min_ready_seconds)
    causes += non_negative("spec.revisionHistoryLimit", spec.revision_history_limit)
    deadline = spec.progress_deadline_seconds
    causes += non_negative("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= (spec.min_ready_seconds or 0):
        causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _deployment_strategy(obj: Deployment) -> list[Cause]:
    strategy = obj.spec.strategy
    if strategy.type == "Recreate":
        if strategy.rolling_update is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden("spec.strategy.rollingUpdate", detail)]
    if strategy.type != "RollingUpdate":
        return one_of("spec.strategy.type", strategy.type, ("Recreate", "RollingUpdate"))
    rolling = strategy.rolling_update or RollingUpdate()
    path = "spec.strategy.rollingUpdate"
    causes = count_or_percent(f"{path}.maxUnavailable", rolling.max_unavailable, most_percent=100)
    causes += count_or_percent(f"{path}.maxSurge", rolling.max_surge)
    if not causes and is_zero(rolling.max_unavailable) and is_zero(rolling.max_surge):
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{path}.maxUnavailable", rolling.max_unavailable, detail))
    return causes


def _deployment_cells(obj: Deployment, now: datetime) -> Sequence[Cell]:
    status = obj.status
    return (
        obj.metadata.name,
        f"{status.ready_replicas or 0}/{obj.spec.replicas or 0}",
        status.updated_replicas or 0,
        status.available_replicas or 0,
        _age(obj, now),
        *template_cells(obj.spec.template),
        labelselector.to_text(obj.spec.selector),
    )


DEPLOYMENTS: ResourceType[Deployment] = ResourceType(
    model=Deployment,
    kind="Deployment",
    plural="deployments",
    singular="deployment",
    group=APPS,
    short_names=("deploy",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    table=Table(
        (
            NAME_COLUMN,
            Column("Ready"),
            _number("Up-to-date"),
            _number("Available"),
            AGE_COLUMN,
            *_TEMPLATE_COLUMNS,
            wide("Selector"),
        ),
        _deployment_cells,
    ),
    strategy=ObjectStrategy(validate=validate_deployment, compare=_immutable_selector, default=default_deployment),
)


# ReplicaSet


def default_replica_set(obj: ReplicaSet) -> None:
    templates.default(obj.spec.template)
    obj.spec.replicas = 1 if obj.spec.replicas is None else obj.spec.replicas


def validate_replica_set(obj: ReplicaSet) -> Sequence[Cause]:
    spec = obj.spec
    causes = non_negative("spec.replicas", spec.replicas)
    causes += non_negative("spec.minReadySeconds", spec.min_ready_seconds)
    return [*causes, *templates.validate_selected(spec.template, spec.selector, "spec", "deployment", "ReplicaSet")]


def _replica_set_cells(obj: ReplicaSet, now: datetime) -> Sequence[Cell]:
    return (
        obj.metadata.name,
        obj.spec.replicas or 0,
        obj.status.replicas,
        obj.status.ready_replicas or 0,
        _age(obj, now),
        *template_cells(obj.spec.template),
        labelselector.to_text(obj.spec.selector),
    )


REPLICA_SETS: ResourceType[ReplicaSet] = ResourceType(
    model=ReplicaSet,
    kind="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    group=APPS,
    short_names=("rs",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    table=Table(
        (
            NAME_COLUMN,
            _number("Desired"),
            _number("Current"),
            _number("Ready"),
            AGE_COLUMN,
            *_TEMPLATE_COLUMNS,
            wide("Selector"),
        ),
        _replica_set_cells,
    ),
    fields={
        "status.replicas": lambda obj: str(obj.status.replicas),
    },
    strategy=ObjectStrategy(validate=validate_replica_set, compare=_immutable_selector, default=default_replica_set),
)


# DaemonSet


def default_daemon_set(obj: DaemonSet) -> None:
    spec = obj.spec
    templates.default(spec.template)
    spec.update_strategy.type = spec.update_strategy.type or "RollingUpdate"
    if spec.update_strategy.type == "RollingUpdate":
        rolling = spec.update_strategy.rolling_update = spec.update_strategy.rolling_update or RollingUpdate()
        rolling.max_unavailable = 1 if rolling.max_unavailable is None else rolling.max_unavailable
        rolling.max_surge = 0 if rolling.max_surge is None else rolling.max_surge
    spec.revision_history_limit = 10 if spec.revision_history_limit is None else spec.revision_history_limit


def validate_daemon_set(obj: DaemonSet) -> Sequence[Cause]:
    spec = obj.spec
    causes = templates.validate_selected(spec.template, spec.selector, "spec", "daemonset", "DaemonSet")
    causes += non_negative("spec.minReadySeconds", spec.min_ready_seconds)
    causes += _daemon_strategy(obj)
    return [*causes, *non_negative("spec.revisionHistoryLimit", spec.revision_history_limit)]


def _daemon_strategy(obj: DaemonSet) -> list[Cause]:
    strategy = obj.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return one_of("spec.updateStrategy.type", strategy.type, ("RollingUpdate", "OnDelete"))
    path = "spec.updateStrategy.rollingUpdate"
    rolling = strategy.rolling_update
    if rolling is None:
        return [required(path)]
    causes = count_or_percent(f"{path}.maxUnavailable", rolling.max_unavailable, most_percent=100)
    causes += count_or_percent(f"{path}.maxSurge", rolling.max_surge, most_percent=100)
    surges, yields = not is_zero(rolling.max_surge), not is_zero(rolling.max_unavailable)
    if surges and yields:
        detail = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{path}.maxSurge", rolling.max_surge, detail))
    elif not surges and not yields:
        detail = "cannot be 0 when maxSurge is 0"
        causes.append(required(f"{path}.maxUnavailable", detail))
    return causes


def _daemon_set_cells(obj: DaemonSet, now: datetime) -> Sequence[Cell]:
    status = obj.status
    return (
        obj.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled or 0,
        status.number_available or 0,
        pairs(obj.spec.template.spec.node_selector),
        _age(obj, now),
        *template_cells(obj.spec.template),
        labelselector.to_text(obj.spec.selector),
    )


DAEMON_SETS: ResourceType[DaemonSet] = ResourceType(
    model=DaemonSet,
    kind="DaemonSet",
    plural="daemonsets",
    singular="daemonset",
    group=APPS,
    short_names=("ds",),
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            _number("Desired"),
            _number("Current"),
            _number("Ready"),
            _number("Up-to-date"),
            _number("Available"),
            Column("Node Selector"),
            AGE_COLUMN,
            *_TEMPLATE_COLUMNS,
            wide("Selector"),
        ),
        _daemon_set_cells,
    ),
    strategy=ObjectStrategy(validate=validate_daemon_set, compare=_immutable_selector, default=default_daemon_set),
)


# StatefulSet

_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def default_stateful_set(obj: StatefulSet) -> None:
    spec = obj.spec
    templates.default(spec.template)
    spec.pod_management_policy = spec.pod_management_policy or "OrderedReady"
    strategy = spec.update_strategy
    strategy.type = strategy.type or "RollingUpdate"
    if strategy.type == "RollingUpdate":
        rolling = strategy.rolling_update = strategy.rolling_update or StatefulSetRollingUpdate()
        rolling.partition = rolling.partition or 0
    for claim in spec.volume_claim_templates:
        claim.spec.volume_mode = claim.spec.volume_mode or "Filesystem"
        claim.status.phase = claim.status.phase or "Pending"
    policy = spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()
    policy.when_deleted = policy.when_deleted or "Retain"
    policy.when_scaled = policy.when_scaled or "Retain"
    spec.persistent_volume_claim_retention_policy = policy
    spec.replicas = 1 if spec.replicas is None else spec.replicas
    spec.revision_history_limit = 10 if spec.revision_history_limit is None else spec.revision_history_limit


def validate_stateful_set(obj: StatefulSet) -> Sequence[Cause]:
    spec = obj.spec
    causes = one_of("spec.podManagementPolicy", spec.pod_management_policy, ("OrderedReady", "Parallel"))
    strategy = spec.update_strategy
    causes += one_of("spec.updateStrategy.type", strategy.type, ("RollingUpdate", "OnDelete"))
    if strategy.rolling_update:
        path = "spec.updateStrategy.rollingUpdate"
        if strategy.type == "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            causes.append(invalid(path, strategy.rolling_update.to_dict(), detail))
        causes += non_negative(f"{path}.partition", strategy.rolling_update.partition)
        causes += count_or_percent(f"{path}.maxUnavailable", strategy.rolling_update.max_unavailable, most_percent=100)
    policy = spec.persistent_volume_claim_retention_policy
    if policy:
        path = "spec.persistentVolumeClaimRetentionPolicy"
        causes += one_of(f"{path}.whenDeleted", policy.when_deleted, ("Retain", "Delete"))
        causes += one_of(f"{path}.whenScaled", policy.when_scaled, ("Retain", "Delete"))
    causes += non_negative("spec.replicas", spec.replicas)
    causes += non_negative("spec.minReadySeconds", spec.min_ready_seconds)
    causes += non_negative("spec.ordinals.start", spec.ordinals.start if spec.ordinals else None)
    template = _with_claims(spec)
    return [*causes, *templates.validate_selected(template, spec.selector, "spec", "statefulset", "StatefulSet")]


def _with_claims(spec: StatefulSetSpec) -> PodTemplateSpec:
    """What its containers mount may be a claim that each pod gets of its own."""
    own = {volume.get("name") for volume in spec.template.spec.volumes}
    extra = [item.metadata.name for item in spec.volume_claim_templates if item.metadata.name not in own]
    if not extra:
        return spec.template
    template = spec.template.copied()
    template.spec.volumes += [{"name": name} for name in dict.fromkeys(extra)]
    return template


def _stateful_update(new: StatefulSet, old: StatefulSet) -> Sequence[Cause]:
    fixed = ("selector", "volume_claim_templates", "service_name", "pod_management_policy")
    if all(getattr(new.spec, name) == getattr(old.spec, name) for name in fixed):
        return []
    return [forbidden("spec", _STATEFUL_FIXED)]


def _stateful_set_cells(obj: StatefulSet, now: datetime) -> Sequence[Cell]:
    ready = f"{obj.status.ready_replicas or 0}/{obj.spec.replicas or 0}"
    return (obj.metadata.name, ready, _age(obj, now), *template_cells(obj.spec.template))


STATEFUL_SETS: ResourceType[StatefulSet] = ResourceType(
    model=StatefulSet,
    kind="StatefulSet",
    plural="statefulsets",
    singular="statefulset",
    group=APPS,
    short_names=("sts",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    table=Table((NAME_COLUMN, Column("Ready"), AGE_COLUMN, *_TEMPLATE_COLUMNS), _stateful_set_cells),
    strategy=ObjectStrategy(validate=validate_stateful_set, compare=_stateful_update, default=default_stateful_set),
)


# ControllerRevision


def _revision_cells(obj: ControllerRevision, now: datetime) -> Sequence[Cell]:
    owner = next((item for item in obj.metadata.owner_references if item.controller), None)
    group = owner.api_version.partition("/")[0] if owner and "/" in owner.api_version else ""
    kind = f"{owner.kind.lower()}.{group}" if owner and group else owner.kind.lower() if owner else ""
    named = f"{kind}/{owner.name}" if owner else "<none>"
    return (obj.metadata.name, named, obj.revision, _age(obj, now))


def _revision_update(new: ControllerRevision, old: ControllerRevision) -> Sequence[Cause]:
    return [] if new.data == old.data else [invalid("data", new.data, IMMUTABLE)]


CONTROLLER_REVISIONS: ResourceType[ControllerRevision] = ResourceType(
    model=ControllerRevision,
    kind="ControllerRevision",
    plural="controllerrevisions",
    singular="controllerrevision",
    group=APPS,
    table=Table((NAME_COLUMN, Column("Controller"), _number("Revision"), AGE_COLUMN), _revision_cells),
    strategy=ObjectStrategy(
        validate=lambda obj: non_negative("revision", obj.revision), compare=_revision_update, generation=False
    ),
)

KINDS = (CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
