"""Eviction: a deletion that asks the disruption budgets first."""

from __future__ import annotations

from kubeapi import disruption
from kubeapi.clock import timestamp
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.meta import OwnerReference
from kubeapi.policies import PodDisruptionBudget, PodDisruptionBudgetStatus
from kubeapi.server.deletion import DeleteOptions
from kubeapi.server.objects import StoreObjects
from kubeapi.workloads import ReplicaSet, StatefulSet


async def evict(objects: StoreObjects, namespace: str, name: str, options: DeleteOptions) -> None:
    """Raises ApiError 404, 409, 429."""
    resource, now = objects.registry.of(Pod), timestamp(objects.clock.now())
    # One at a time: two evictions must not both take the last disruption that is allowed.
    async with objects.admission.locked(namespace):
        pod = (await objects.read(resource, namespace, name)).obj
        listed = (await objects.list(PodDisruptionBudget, namespace)).items
        budgets = [budget for budget in listed if disruption.selects(budget, pod)]
        for budget in budgets:
            budget.status = await budget_status(objects, budget)
        disruption.check(pod, budgets)
        if not options.dry_run and options.resource_version is None:  # else it would be another one by this write
            await objects.change(resource, namespace, name, lambda seen: _told(seen, options, now), "status")
        await objects.delete_object(resource, namespace, name, options)


def _told(pod: Pod, options: DeleteOptions, now: str) -> Pod:
    """Not another one of its name, and not one that its node has ended already."""
    if options.uid not in (None, pod.metadata.uid) or pod.status.phase in ("Succeeded", "Failed"):
        return pod
    return disruption.targeted(pod, "EvictionByEvictionAPI", "Eviction API: evicting", now)


async def budget_status(objects: StoreObjects, budget: PodDisruptionBudget) -> PodDisruptionBudgetStatus:
    """As it is now."""
    namespace = budget.metadata.namespace or ""
    pods = (await objects.list(Pod, namespace)).items
    wanted: dict[str, int | None] = {}
    for pod in pods:
        for owner in pod.metadata.owner_references:
            if owner.controller and owner.uid not in wanted and disruption.selects(budget, pod):
                wanted[owner.uid] = await _replicas(objects, namespace, owner)
    now = timestamp(objects.clock.now())
    return disruption.status(budget, pods, lambda owner: wanted.get(owner.uid), now)


async def _replicas(objects: StoreObjects, namespace: str, owner: OwnerReference) -> int | None:
    try:
        if owner.kind == "ReplicaSet":
            return (await objects.get(ReplicaSet, namespace, owner.name)).spec.replicas
        if owner.kind == "StatefulSet":
            return (await objects.get(StatefulSet, namespace, owner.name)).spec.replicas
    except ApiError as error:
        if error.code != 404:
            raise
    return None
