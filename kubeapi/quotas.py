"""What objects count for in a ResourceQuota, and whether one more fits (pkg/quota/v1/evaluator/core). Pure.

A pod counts as the scheduler counts it: the largest of what is wished, allocated and in force, so that neither a resize
that waits nor a shrink that is not done yet is used twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubeapi import podresources, qos, quantity
from kubeapi.core import Pod
from kubeapi.errors import ApiError, forbidden
from kubeapi.meta import KubeObject
from kubeapi.network import Service
from kubeapi.policies import ResourceQuota, ScopedSelectorRequirement
from kubeapi.quantity import Quantity
from kubeapi.resource import ResourceType
from kubeapi.storage import PersistentVolumeClaim

Usage = Mapping[str, Quantity]

_COUNTED = frozenset({"configmaps", "persistentvolumeclaims", "resourcequotas", "secrets", "services"})
"""Kinds that also count by their plain name, as pods do."""
_ZERO, _ONE = quantity.parse("0"), quantity.parse("1")
_COMPUTE = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_ENDED = ("Succeeded", "Failed")


def usage(resource: ResourceType[Any], obj: KubeObject) -> Usage:
    """By quota name. Everything counts as an object; what else, depends on the kind."""
    amounts = {f"count/{resource.key}": _ONE}
    if resource.key in _COUNTED:
        amounts[resource.plural] = _ONE
    if isinstance(obj, Pod):
        amounts |= _pod_usage(obj)
    elif isinstance(obj, PersistentVolumeClaim):
        amounts |= _claim_usage(obj)
    elif isinstance(obj, Service):
        ports = quantity.parse(str(len(obj.spec.ports)))
        if obj.spec.type in ("NodePort", "LoadBalancer"):
            amounts["services.nodeports"] = ports
        if obj.spec.type == "LoadBalancer":
            amounts["services.loadbalancers"] = _ONE
    return amounts


def _pod_usage(pod: Pod) -> dict[str, Quantity]:
    if pod.status.phase in _ENDED:
        return {}
    asked, most = podresources.scheduler_counted(pod), podresources.limits(pod)
    cpu, memory = quantity.parse(f"{asked.cpu}m"), _bytes(asked.memory)
    return {
        "pods": _ONE,
        "cpu": cpu,
        "requests.cpu": cpu,
        "memory": memory,
        "requests.memory": memory,
        "limits.cpu": quantity.parse(f"{most.cpu}m"),
        "limits.memory": _bytes(most.memory),
    }


def _bytes(amount: int) -> Quantity:
    """In binary units, where it is a whole number of them."""
    return quantity.parse(f"{amount // 1024}Ki" if amount % 1024 == 0 else str(amount))


def _claim_usage(claim: PersistentVolumeClaim) -> dict[str, Quantity]:
    size = quantity.parse(claim.spec.resources.requests.get("storage", "0"))
    found = {"requests.storage": size}
    if claim.spec.storage_class_name:
        prefix = f"{claim.spec.storage_class_name}.storageclass.storage.k8s.io"
        found |= {f"{prefix}/requests.storage": size, f"{prefix}/persistentvolumeclaims": _ONE}
    return found


def covers(quota: ResourceQuota, obj: KubeObject) -> bool:
    """Whether the quota's scopes take in the object. A quota with scopes takes in pods only."""
    wanted = [ScopedSelectorRequirement(scope_name=name, operator="Exists") for name in quota.spec.scopes]
    if quota.spec.scope_selector:
        wanted += quota.spec.scope_selector.match_expressions
    return not wanted or (isinstance(obj, Pod) and all(_in_scope(obj, item) for item in wanted))


def _in_scope(pod: Pod, item: ScopedSelectorRequirement) -> bool:
    match item.scope_name:
        case "Terminating":
            return pod.spec.active_deadline_seconds is not None
        case "NotTerminating":
            return pod.spec.active_deadline_seconds is None
        case "BestEffort":
            return qos.qos_class(pod) == qos.BEST_EFFORT
        case "NotBestEffort":
            return qos.qos_class(pod) != qos.BEST_EFFORT
        case "PriorityClass":
            name = pod.spec.priority_class_name or ""
            return {
                "In": name in item.values,
                "NotIn": name not in item.values,
                "Exists": bool(name),
                "DoesNotExist": not name,
            }.get(item.operator, False)
        case _:
            return False


def total(quota: ResourceQuota, resource: ResourceType[Any], objects: Iterable[KubeObject]) -> dict[str, Quantity]:
    """What the objects of one kind use of what the quota bounds."""
    used = dict.fromkeys(quota.spec.hard, _ZERO)
    for obj in objects:
        if covers(quota, obj):
            for name, amount in usage(resource, obj).items():
                if name in used:
                    used[name] += amount
    return used


def bounded(resource: ResourceType[Any], hard: Mapping[str, str]) -> bool:
    """Whether objects of that kind can count for anything in `hard`."""
    if f"count/{resource.key}" in hard or resource.plural in hard:
        return True
    if resource.key == "pods":
        return any(name in hard for name in _COMPUTE)
    if resource.key == "persistentvolumeclaims":
        return any(name.endswith(("requests.storage", "persistentvolumeclaims")) for name in hard)
    return resource.key == "services" and any(name.startswith("services.") for name in hard)


def check(
    quota: ResourceQuota, resource: ResourceType[Any], new: KubeObject, old: KubeObject | None, used: Usage
) -> None:
    """`used` counts `old`, not `new`. Raises ApiError 403."""
    if not covers(quota, new):
        return
    if old is None and isinstance(new, Pod):
        _must_specify(quota, new)
    before = usage(resource, old) if old is not None and covers(quota, old) else {}
    grown = {
        name: amount - before.get(name, _ZERO)
        for name, amount in usage(resource, new).items()
        if name in quota.spec.hard and amount > before.get(name, _ZERO)
    }
    over = [name for name in sorted(grown) if used[name] + grown[name] > quantity.parse(quota.spec.hard[name])]
    if over:
        requested = ",".join(f"{name}={grown[name]}" for name in over)
        held = ",".join(f"{name}={used[name]}" for name in over)
        limited = ",".join(f"{name}={quota.spec.hard[name]}" for name in over)
        message = f"exceeded quota: {quota.metadata.name}, requested: {requested}, used: {held}, limited: {limited}"
        raise _refused(resource, new, message)


def _must_specify(quota: ResourceQuota, pod: Pod) -> None:
    """A quota on CPU or memory makes every container say what it takes."""
    missing = []
    for name in sorted(set(quota.spec.hard) & set(_COMPUTE)):
        which, _, plain = name.rpartition(".")
        resources = pod.spec.resources
        level = (resources.limits if which == "limits" else resources.requests) if resources else {}
        lacking = sorted(
            container.name
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            if plain not in (container.limits if which == "limits" else container.requests)
        )
        if lacking and plain not in level:
            missing.append(f"{name} for: {','.join(lacking)}")
    if missing:
        message = f"failed quota: {quota.metadata.name}: must specify {'; '.join(missing)}"
        raise forbidden("pods", pod.metadata.name, message)


def _refused(resource: ResourceType[Any], obj: KubeObject, message: str) -> ApiError:
    return forbidden(resource.plural, obj.metadata.name, message, resource.group)
