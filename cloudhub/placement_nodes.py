"""Whether a node is one a pod may go to or prefers, whatever runs there: taints, selectors, node affinity. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubeapi.core import Node, Pod, Taint, Toleration
from kubeapi.scheduling import NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
CORDONED = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
BINDING_EFFECTS = ("NoSchedule", "NoExecute")
_NAME = "metadata.name"


def ready_status(node: Node) -> str:
    """`True`, `False` or `Unknown`: of a node that has never said anything as well."""
    ready = node.status.condition("Ready")
    return ready.status if ready else "Unknown"


def effective_taints(node: Node) -> list[Taint]:
    """The node's taints, and the one that its Ready condition will bring."""
    key = {"True": None, "False": NOT_READY}.get(ready_status(node), UNREACHABLE)
    return [*node.spec.taints, *([Taint(key=key, effect="NoSchedule")] if key else [])]


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration matches (core/v1 Toleration.ToleratesTaint)."""
    return any(tolerates(item, taint) for item in tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def selected(pod: Pod, node: Node) -> bool:
    """By nodeSelector and required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = _affinity(pod)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(_term_matches(term, node) for term in required.node_selector_terms)


def named(pod: Pod) -> frozenset[str] | None:
    """The only nodes that required affinity allows by their names; None: it does not go by names."""
    affinity = _affinity(pod)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return None
    found: set[str] = set()
    for term in required.node_selector_terms:
        values = [set(item.values) for item in term.match_fields if (item.key, item.operator) == (_NAME, "In")]
        if not values:
            return None
        found |= set.intersection(*values)
    return frozenset(found)


def preference(pod: Pod, node: Node) -> int:
    """The sum of the weights of the preferred terms that match."""
    affinity = _affinity(pod)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return sum(item.weight for item in preferred if _term_matches(item.preference, node))


def prefers_nodes(pod: Pod) -> bool:
    affinity = _affinity(pod)
    return bool(affinity and affinity.preferred_during_scheduling_ignored_during_execution)


def _affinity(pod: Pod) -> NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """A term without any requirement matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_matches(item, node.metadata.labels) for item in term.match_expressions) and all(
        _matches(item, {_NAME: node.metadata.name}) for item in term.match_fields
    )


def _matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    found = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return found in requirement.values
        case "NotIn":
            return found not in requirement.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(found, operator, requirement.values)
    return False


def _compares(found: str | None, operator: str, values: Sequence[str]) -> bool:
    try:
        left, right = int(found or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
