"""ResourceQuota, PriorityClass, RuntimeClass, PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi import labelselector, names
from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, forbidden, invalid
from kubeapi.kinds.common import STATUS, ObjectStrategy, count_or_percent, one_of
from kubeapi.policies import (
    NODE,
    POLICY,
    SCHEDULING,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
    RuntimeClass,
)
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.validation import validate_amounts

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CRITICAL = 2 * HIGHEST_USER_PRIORITY
SYSTEM_CLASSES = {
    "system-node-critical": (
        SYSTEM_CRITICAL + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        SYSTEM_CRITICAL,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
"""Name to value and description."""
SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


# ResourceQuota


def _validate_quota(obj: ResourceQuota) -> Sequence[Cause]:
    causes = validate_amounts(obj.spec.hard, "spec.hard")
    for scope in obj.spec.scopes:
        if scope not in SCOPES:
            causes.append(invalid("spec.scopes", obj.spec.scopes, "unsupported scope"))
    for item in obj.spec.scope_selector.match_expressions if obj.spec.scope_selector else ():
        if item.scope_name not in SCOPES:
            where = "spec.scopeSelector.matchExpressions.scopeName"
            causes.append(invalid(where, item.scope_name, "unsupported scope"))
    return causes


def _quota_update(new: ResourceQuota, old: ResourceQuota) -> Sequence[Cause]:
    return [] if new.spec.scopes == old.spec.scopes else [invalid("spec.scopes", new.spec.scopes, IMMUTABLE)]


def _quota_cells(obj: ResourceQuota, now: datetime) -> Sequence[Cell]:
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(obj.status.hard):
        part = f"{name}: {obj.status.used.get(name, '0')}/{obj.status.hard[name]}"
        (limits if name.startswith("limits.") else requests).append(part)
    return (
        obj.metadata.name,
        ", ".join(requests),
        ", ".join(limits),
        age(obj.metadata.creation_timestamp, now),
    )


RESOURCE_QUOTAS: ResourceType[ResourceQuota] = ResourceType(
    model=ResourceQuota,
    kind="ResourceQuota",
    plural="resourcequotas",
    singular="resourcequota",
    short_names=("quota",),
    subresources=(STATUS,),
    table=Table((NAME_COLUMN, Column("Request"), Column("Limit"), AGE_COLUMN), _quota_cells),
    strategy=ObjectStrategy(validate=_validate_quota, compare=_quota_update, generation=False),
)


# PriorityClass


def _default_priority_class(obj: PriorityClass) -> None:
    obj.preemption_policy = obj.preemption_policy or "PreemptLowerPriority"


def _validate_priority_class(obj: PriorityClass) -> Sequence[Cause]:
    causes: list[Cause] = []
    known = SYSTEM_CLASSES.get(obj.metadata.name)
    if obj.metadata.name.startswith("system-"):
        problem = ""
        if known is None:
            problem = f"{obj.metadata.name} is not a known system priority class"
        elif obj.value != known[0]:
            problem = f"value of {obj.metadata.name} PriorityClass must be {known[0]}"
        if problem:
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            causes.append(forbidden("metadata.name", detail))
    elif obj.value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden("value", detail))
    return [*causes, *one_of("preemptionPolicy", obj.preemption_policy, ("PreemptLowerPriority", "Never"))]


def _priority_class_update(new: PriorityClass, old: PriorityClass) -> Sequence[Cause]:
    causes = []
    if new.value != old.value:
        causes.append(forbidden("value", "may not be changed in an update."))
    if new.preemption_policy != old.preemption_policy:
        causes.append(invalid("preemptionPolicy", new.preemption_policy, IMMUTABLE))
    return causes


def _priority_class_cells(obj: PriorityClass, now: datetime) -> Sequence[Cell]:
    return (
        obj.metadata.name,
        obj.value,
        bool(obj.global_default),
        age(obj.metadata.creation_timestamp, now),
        obj.preemption_policy or "",
    )


PRIORITY_CLASSES: ResourceType[PriorityClass] = ResourceType(
    model=PriorityClass,
    kind="PriorityClass",
    plural="priorityclasses",
    singular="priorityclass",
    group=SCHEDULING,
    namespaced=False,
    short_names=("pc",),
    table=Table(
        (
            NAME_COLUMN,
            Column("Value", type="integer"),
            Column("Global-Default", type="boolean"),
            AGE_COLUMN,
            Column("PreemptionPolicy"),
        ),
        _priority_class_cells,
    ),
    strategy=ObjectStrategy(
        namespaced=False,
        validate=_validate_priority_class,
        compare=_priority_class_update,
        default=_default_priority_class,
    ),
)


# RuntimeClass


def _validate_runtime_class(obj: RuntimeClass) -> Sequence[Cause]:
    causes = [invalid("handler", obj.handler, problem) for problem in names.dns_label(obj.handler)]
    if obj.overhead:
        causes += validate_amounts(obj.overhead.pod_fixed, "overhead.podFixed")
    return causes


def _runtime_class_update(new: RuntimeClass, old: RuntimeClass) -> Sequence[Cause]:
    return [] if new.handler == old.handler else [invalid("handler", new.handler, IMMUTABLE)]


def _runtime_class_cells(obj: RuntimeClass, now: datetime) -> Sequence[Cell]:
    return (obj.metadata.name, obj.handler, age(obj.metadata.creation_timestamp, now))


RUNTIME_CLASSES: ResourceType[RuntimeClass] = ResourceType(
    model=RuntimeClass,
    kind="RuntimeClass",
    plural="runtimeclasses",
    singular="runtimeclass",
    group=NODE,
    namespaced=False,
    table=Table((NAME_COLUMN, Column("Handler"), AGE_COLUMN), _runtime_class_cells),
    strategy=ObjectStrategy(
        namespaced=False, validate=_validate_runtime_class, compare=_runtime_class_update, generation=False
    ),
)


# PodDisruptionBudget


def _validate_budget(obj: PodDisruptionBudget) -> Sequence[Cause]:
    spec = obj.spec
    causes: list[Cause] = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        causes.append(invalid("spec", spec.to_dict(), "minAvailable and maxUnavailable cannot be both set"))
    causes += count_or_percent("spec.minAvailable", spec.min_available, most_percent=100)
    causes += count_or_percent("spec.maxUnavailable", spec.max_unavailable, most_percent=100)
    if spec.selector:
        causes += labelselector.validate(spec.selector, "spec.selector")
    if spec.unhealthy_pod_eviction_policy is not None:
        path = "spec.unhealthyPodEvictionPolicy"
        causes += one_of(path, spec.unhealthy_pod_eviction_policy, ("AlwaysAllow", "IfHealthyBudget"))
    return causes


def _default_budget(obj: PodDisruptionBudget) -> None:
    if obj.spec.min_available is None and obj.spec.max_unavailable is None:
        obj.spec.min_available = 1


def _budget_cells(obj: PodDisruptionBudget, now: datetime) -> Sequence[Cell]:
    spec = obj.spec
    return (
        obj.metadata.name,
        "N/A" if spec.min_available is None else str(spec.min_available),
        "N/A" if spec.max_unavailable is None else str(spec.max_unavailable),
        obj.status.disruptions_allowed,
        age(obj.metadata.creation_timestamp, now),
    )


POD_DISRUPTION_BUDGETS: ResourceType[PodDisruptionBudget] = ResourceType(
    model=PodDisruptionBudget,
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    group=POLICY,
    short_names=("pdb",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Min Available"),
            Column("Max Unavailable"),
            Column("Allowed Disruptions", type="integer"),
            AGE_COLUMN,
        ),
        _budget_cells,
    ),
    strategy=ObjectStrategy(validate=_validate_budget, default=_default_budget),
)

KINDS = (POD_DISRUPTION_BUDGETS, PRIORITY_CLASSES, RESOURCE_QUOTAS, RUNTIME_CLASSES)
