"""Which node a pod goes to: pure, from what nodes offer and what their pods hold.

The filters, their order and their words follow the reference scheduler (kube-scheduler 1.36: NodeUnschedulable,
TaintToleration, NodeAffinity, NodeResourcesFit; framework.FitError), because people and tools read those messages.
Differences: a node whose Ready condition is not True counts as tainted at once, even before the taint is written; there
is no preemption; pod affinity and topology spread are not considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeapi import quantity
from kubeapi.core import Container, Node, Pod, Taint, Toleration
from kubeapi.podresources import is_sidecar, scheduler_counted
from kubeapi.quantity import QuantityError

OVERHEAD_ANNOTATION = "copepod.dev/vm-overhead-memory"
"""On a Node: what each VM costs the host beyond the guest's memory, as a quantity."""
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NO_NODES = "no nodes available to schedule pods"

Demand = dict[str, int]
"""By resource name: CPU in millicores, everything else in whole units (memory in bytes)."""

_BINDING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Placement:
    node: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    message: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why a node does not take a pod (empty: it does), and whether fewer pods there could change that."""

    reasons: tuple[str, ...] = ()
    room_would_help: bool = False


@dataclass(slots=True)
class Room:
    """What a node has left. Lasts for one pass: each pod placed takes its part."""

    node: Node
    free: Demand
    pods: int

    @classmethod
    def of(cls, node: Node, pods: Iterable[Pod]) -> Room:
        room = cls(node, _units(node.status.allocatable), 0)
        for pod in pods:
            room.take(pod)
        return room

    def take(self, pod: Pod) -> None:
        self.pods += 1
        for name, amount in demand(pod, self.node).items():
            self.free[name] = self.free.get(name, 0) - amount


def place(pod: Pod, nodes: Sequence[Node], pods_by_node: Mapping[str, Sequence[Pod]]) -> Placement | Unschedulable:
    """`choose`, from the nodes and what counts against each: its pods that are not finished."""
    return choose(pod, [Room.of(node, pods_by_node.get(node.metadata.name, ())) for node in nodes])


def choose(pod: Pod, rooms: Sequence[Room]) -> Placement | Unschedulable:
    """The fitting node with the largest share left free afterwards (then the first by name)."""
    if not rooms:
        return Unschedulable(NO_NODES)
    verdicts = [_judge(pod, room) for room in rooms]
    fitting = [room for room, verdict in zip(rooms, verdicts, strict=True) if not verdict.reasons]
    if not fitting:
        return Unschedulable(_fit_error(pod, verdicts))
    best = min(fitting, key=lambda room: (-_share_left(pod, room), room.node.metadata.name))
    return Placement(best.node.metadata.name)


def counts_against_node(pod: Pod) -> bool:
    """A finished pod holds nothing any more."""
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def demand(pod: Pod, node: Node) -> Demand:
    """What a pod takes from that node: the largest of wished, allocated and actual, and its overhead."""
    counted = scheduler_counted(pod)
    memory = counted.memory
    if not pod.spec.overhead:
        memory += _vm_overhead(node) * _vms(pod)
    return {"cpu": counted.cpu, "memory": memory} | _others(pod)


def _others(pod: Pod) -> Demand:
    """Resources that cannot be resized (devices, ephemeral-storage): init containers run one at a time, before the
    rest, and sidecars beside it."""
    together: Counter[str] = Counter()
    for container in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)):
        together.update(_other_requests(container))
    for container in pod.spec.init_containers:
        if not is_sidecar(container):
            together |= Counter(_other_requests(container))
    return dict(together)


def _other_requests(container: Container) -> Demand:
    return _units({name: text for name, text in container.requests.items() if name not in ("cpu", "memory")})


def _units(resources: Mapping[str, str]) -> Demand:
    return {
        name: quantity.cpu_millis(text) if name == "cpu" else quantity.memory_bytes(text)
        for name, text in resources.items()
    }


def _vms(pod: Pod) -> int:
    """Every container is one VM; init containers but sidecars run before the others and never beside them all."""
    return len(pod.spec.containers) + sum(map(is_sidecar, pod.spec.init_containers))


def _vm_overhead(node: Node) -> int:
    """Bytes for each VM."""
    text = node.metadata.annotations.get(OVERHEAD_ANNOTATION)
    try:
        return quantity.memory_bytes(text) if text else 0
    except QuantityError:
        return 0  # a node's own mistake must not stop scheduling elsewhere


def _judge(pod: Pod, room: Room) -> _Verdict:
    """The first filter that objects decides, as in the reference; resources name all that is missing."""
    node = room.node
    if node.spec.unschedulable and not tolerated(_taint(UNSCHEDULABLE), pod.spec.tolerations):
        return _Verdict(("node(s) were unschedulable",))
    taints = (taint for taint in _effective_taints(node) if taint.effect in _BINDING_EFFECTS)
    if not all(tolerated(taint, pod.spec.tolerations) for taint in taints):
        return _Verdict(("node(s) had untolerated taint(s)",))
    if not selected(pod, node):
        return _Verdict(("node(s) didn't match Pod's node affinity/selector",))
    return _fit(pod, room)


def _fit(pod: Pod, room: Room) -> _Verdict:
    allocatable = _units(room.node.status.allocatable)
    reasons = []
    resolvable = True
    if "pods" in allocatable and room.pods + 1 > allocatable["pods"]:
        reasons.append("Too many pods")
    for name, amount in demand(pod, room.node).items():
        if amount > 0 and amount > room.free.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= allocatable.get(name, 0)
    return _Verdict(tuple(reasons), room_would_help=resolvable)


def _share_left(pod: Pod, room: Room) -> float:
    """The mean of the shares of CPU and memory that stay free (the reference's LeastAllocated)."""
    wanted = demand(pod, room.node)
    allocatable = _units(room.node.status.allocatable)
    totals = [(name, allocatable.get(name, 0)) for name in ("cpu", "memory")]
    shares = [(room.free[name] - wanted[name]) / total for name, total in totals if total > 0]
    return round(sum(shares) / len(shares), 6) if shares else 0.0


def _fit_error(pod: Pod, verdicts: Sequence[_Verdict]) -> str:
    total = len(verdicts)
    text = _histogram(total, (reason for verdict in verdicts for reason in verdict.reasons))
    if pod.spec.preemption_policy == "Never":
        return f"{text} preemption: not eligible due to preemptionPolicy=Never."
    hopes = (
        "No preemption victims found for incoming pod"
        if verdict.room_would_help
        else "Preemption is not helpful for scheduling"
        for verdict in verdicts
    )
    return f"{text} preemption: {_histogram(total, hopes)}"


def _histogram(total: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{total} nodes are available: {', '.join(counted)}."


def _taint(key: str) -> Taint:
    return Taint(key=key, effect="NoSchedule")


def _effective_taints(node: Node) -> list[Taint]:
    """The node's taints, and the one that its Ready condition will bring."""
    ready = node.status.condition("Ready")
    status = ready.status if ready else "Unknown"
    implied = {"True": (), "False": (_taint(NOT_READY),)}.get(status, (_taint(UNREACHABLE),))
    return [*node.spec.taints, *implied]


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
    affinity = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    """A term without any requirement matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_matches(item, node.metadata.labels) for item in expressions) and all(
        _matches(item, {"metadata.name": node.metadata.name}) for item in fields
    )


def _matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    found = labels.get(requirement.get("key", ""))
    values = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(found, operator, values)
    return False


def _compares(found: str | None, operator: str, values: Sequence[str]) -> bool:
    try:
        left, right = int(found or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
