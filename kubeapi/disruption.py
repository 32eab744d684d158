"""Disruption budgets: how many pods may be evicted now, and whether this one may (pkg/controller/disruption). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubeapi import labelselector
from kubeapi.core import Pod, PodCondition
from kubeapi.errors import ApiError, Cause, internal, too_many_requests
from kubeapi.meta import Condition, OwnerReference
from kubeapi.policies import PodDisruptionBudget, PodDisruptionBudgetStatus
from kubeapi.workloads import IntOrString

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
TARGET = "DisruptionTarget"
_ENDED = ("Succeeded", "Failed")

Replicas = Callable[[OwnerReference], int | None]
"""How many pods a controller wants; None where it says no number."""


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return labelselector.matches(budget.spec.selector, pod.metadata.labels)


def status(budget: PodDisruptionBudget, pods: Sequence[Pod], replicas: Replicas, now: str) -> PodDisruptionBudgetStatus:
    """`pods` are those of the budget's namespace."""
    chosen = [pod for pod in pods if selects(budget, pod) and pod.status.phase not in _ENDED]
    healthy = sum(_healthy(pod) for pod in chosen)
    spec = budget.spec
    expected = _expected(chosen, replicas) if _needs_expectation(spec.min_available) else len(chosen)
    if spec.max_unavailable is not None:
        expected = _expected(chosen, replicas)
        desired = max(0, expected - scaled(spec.max_unavailable, expected))
    else:
        desired = scaled(1 if spec.min_available is None else spec.min_available, expected)
    allowed = max(0, healthy - desired) if chosen else 0
    return PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=[_condition(budget, allowed, now)],
    )


def targeted(pod: Pod, reason: str, message: str, now: str) -> Pod:
    """The pod with the condition that tells whoever keeps it why it is made to go (KEP-3329)."""
    pod = pod.copied()
    before = pod.status.condition(TARGET)
    since = before.last_transition_time if before and before.status == "True" else now
    made = PodCondition(type=TARGET, status="True", reason=reason, message=message, last_transition_time=since)
    pod.status.conditions = [*(item for item in pod.status.conditions if item.type != TARGET), made]
    return pod


def scaled(value: IntOrString, of: int) -> int:
    """A percentage is rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.rstrip("%")) * of // 100)


def check(pod: Pod, budgets: Sequence[PodDisruptionBudget]) -> None:
    """`budgets` are those that select the pod, their status true now. Raises ApiError 429, 500."""
    if pod.status.phase in (*_ENDED, "Pending") or pod.metadata.deletion_timestamp or not budgets:
        return
    if len(budgets) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = budgets[0]
    held = budget.status
    if not _healthy(pod):
        always = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        if always or (held.current_healthy >= held.desired_healthy and held.desired_healthy > 0):
            return
    if held.disruptions_allowed > 0:
        return
    message = (
        f"The disruption budget {budget.metadata.name} needs {held.desired_healthy} healthy pods and has "
        f"{held.current_healthy} currently"
    )
    error: ApiError = too_many_requests(REFUSED, retry_after=0)
    error.details = {"causes": [Cause("DisruptionBudget", message).to_dict()]}
    raise error


def _healthy(pod: Pod) -> bool:
    ready = pod.status.condition("Ready")
    return ready is not None and ready.status == "True" and not pod.metadata.deletion_timestamp


def _needs_expectation(value: IntOrString | None) -> bool:
    return isinstance(value, str)


def _expected(pods: Sequence[Pod], replicas: Replicas) -> int:
    """What the pods' controllers want in sum; a pod without such a controller counts for itself."""
    owners: dict[str, OwnerReference] = {}
    alone = 0
    for pod in pods:
        owner = next((item for item in pod.metadata.owner_references if item.controller), None)
        if owner is None or replicas(owner) is None:
            alone += 1
        else:
            owners[owner.uid] = owner
    return alone + sum(replicas(owner) or 0 for owner in owners.values())


def _condition(budget: PodDisruptionBudget, allowed: int, now: str) -> Condition:
    state, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    before = next((item for item in budget.status.conditions if item.type == "DisruptionAllowed"), None)
    since = before.last_transition_time if before and before.status == state else now
    return Condition(
        type="DisruptionAllowed",
        status=state,
        reason=reason,
        message="",
        observed_generation=budget.metadata.generation,
        last_transition_time=since,
    )
