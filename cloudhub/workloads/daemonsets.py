"""DaemonSet: one pod on every node that should have one. Pure. The edge's main tool, hence two differences from the
reference, both about nodes that are not heard from:

- Such a node still *should* run its pod, and counts as desired: the numbers tell how many are missing. But nothing is
  created for it nor deleted on it until it is back: its pod runs on behind the cut link.
- Its pod takes nothing of the update's budget (`maxUnavailable`). One box that is off must not stop a fleet's rollout;
  it is updated when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cloudhub.placement_nodes import NOT_READY, UNREACHABLE, UNSCHEDULABLE, selected, tolerated
from cloudhub.workloads import pods, revisions
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus
from cloudhub.workloads.revisions import HASH_LABEL
from kubeapi.core import Node, Pod, Toleration
from kubeapi.scheduling import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubeapi.workloads import ControllerRevision, DaemonSet, DaemonSetStatus

_EVICTING = (NOT_READY, UNREACHABLE)
_PASSING = (
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    UNSCHEDULABLE,
)
_BURST = 250


@dataclass(frozen=True, slots=True)
class _OnNode:
    """One node, and this DaemonSet's pods that are bound to it or meant for it. Youngest last."""

    node: Node | None
    """None: there is no such node (any more)."""
    pods: tuple[Pod, ...]
    wanted: bool
    """A pod should run here."""
    tolerated: bool
    """A pod that runs here already may stay."""

    @property
    def heard(self) -> bool:
        condition = self.node.status.condition("Ready") if self.node else None
        return condition is not None and condition.status == "True"

    @property
    def living(self) -> list[Pod]:
        return [pod for pod in self.pods if pods.active(pod)]


def plan(
    daemonset: DaemonSet,
    candidates: Sequence[Pod],
    nodes: Sequence[Node],
    owned: Sequence[ControllerRevision],
    taken: frozenset[str],
    now: datetime,
) -> Plan:
    """`candidates`: the namespace's pods that are its own, or nobody's; `owned`, `taken`: see `revisions.plan`."""
    claim = pods.claim(daemonset, daemonset.spec.selector, candidates)
    if claim.actions:
        return Plan(claim.actions)
    places = _places(daemonset, claim.mine, nodes)
    spec = daemonset.spec
    used = frozenset(f"{daemonset.metadata.name}-{pod.metadata.labels.get(HASH_LABEL)}" for pod in claim.mine)
    versions = revisions.plan(daemonset, spec.template, owned, taken, used, spec.revision_history_limit)
    actions: list[Action] = []
    short = revisions.short_hash(versions.current) if versions.current else ""
    status = _status(daemonset, places, short, now)
    if status != daemonset.status:
        changed = daemonset.copied()
        changed.status = status
        actions.append(SetStatus(changed))
    if not daemonset.metadata.deletion_timestamp:
        actions += versions.actions
        if versions.current is not None:
            actions += _manage(daemonset, places, short, now) or _update(daemonset, places, short, now)
    rests = [pods.rest_left([pod], now) or None for pod in claim.mine if pods.failed(pod)]
    return Plan(tuple(actions), pods.sooner(pods.next_available(claim.mine, spec.min_ready_seconds, now), *rests))


# Where


def _places(daemonset: DaemonSet, mine: Sequence[Pod], nodes: Sequence[Node]) -> list[_OnNode]:
    by_node: dict[str, list[Pod]] = {node.metadata.name: [] for node in nodes}
    for pod in sorted(mine, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
        by_node.setdefault(target(pod), []).append(pod)
    known = {node.metadata.name: node for node in nodes}
    sample = _pod(daemonset, "", "")
    places = []
    for name, here in by_node.items():
        node = known.get(name)
        wanted, tolerated = _should_run(daemonset, sample, node) if node else (False, False)
        places.append(_OnNode(node, tuple(here), wanted, tolerated))
    return places


def target(pod: Pod) -> str:
    """The node that a pod is bound to, or meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = _required(pod.spec.affinity)
    for term in required.node_selector_terms if required else ():
        for item in term.match_fields:
            if item.key == "metadata.name" and item.values:
                return item.values[0]
    return ""


def _required(affinity: Affinity | None) -> NodeSelector | None:
    nodes = affinity.node_affinity if affinity else None
    return nodes.required_during_scheduling_ignored_during_execution if nodes else None


def _should_run(daemonset: DaemonSet, sample: Pod, node: Node) -> tuple[bool, bool]:
    """Whether a pod should run there, and whether one that does may stay. That nobody hears the node is no reason."""
    template = daemonset.spec.template.spec
    if template.node_name and template.node_name != node.metadata.name:
        return False, False
    if not selected(sample, node):
        return False, False
    tolerations = sample.spec.tolerations
    repelling = [
        taint for taint in node.spec.taints if taint.key not in _EVICTING and not tolerated(taint, tolerations)
    ]
    stays = not any(taint.effect == "NoExecute" for taint in repelling)
    return stays and not any(taint.effect == "NoSchedule" for taint in repelling), stays


# What to do


def _manage(daemonset: DaemonSet, places: Sequence[_OnNode], short: str, now: datetime) -> list[Action]:
    actions: list[Action] = []
    for place in places:
        if place.node is None or not place.heard:
            continue
        ended = [pod for pod in place.pods if pods.finished(pod) and not pod.metadata.deletion_timestamp]
        if not place.tolerated:
            actions += [Delete(pod, "Deleted pod: {name}") for pod in (*place.living, *ended)]
            continue
        if any(pods.failed(pod) and pods.rest_left([pod], now) for pod in ended):
            continue
        actions += [Delete(pod, "Deleted pod: {name}") for pod in ended]
        living = place.living
        if len(living) > 1 and not _surges(daemonset):
            keep = next((pod for pod in living if pod.spec.node_name), living[0])
            actions += [Delete(pod, "Deleted pod: {name}") for pod in living if pod is not keep]
        if place.wanted and not living and not any(map(pods.terminating, place.pods)):
            actions.append(Create(_pod(daemonset, place.node.metadata.name, short), "Created pod: {name}"))
    return actions[:_BURST]


def _surges(daemonset: DaemonSet) -> bool:
    return _budget(daemonset, 100)[1] > 0


def _budget(daemonset: DaemonSet, desired: int) -> tuple[int, int]:
    """Pods that may be unavailable, and that may be surplus, during an update. The reference rounds both up."""
    strategy = daemonset.spec.update_strategy
    if strategy.type == "OnDelete":
        return 0, 0
    update = strategy.rolling_update
    surge = pods.amount(update.max_surge if update else None, desired, up=True)
    unavailable = pods.amount(update.max_unavailable if update else 1, desired, up=True)
    return (1, 0) if not surge and not unavailable else (unavailable, surge)


def _update(daemonset: DaemonSet, places: Sequence[_OnNode], short: str, now: datetime) -> list[Action]:
    if daemonset.spec.update_strategy.type == "OnDelete":
        return []
    heard = [place for place in places if place.wanted and place.heard]
    unavailable, surge = _budget(daemonset, len([place for place in places if place.wanted]))
    if surge:
        return _surge(daemonset, heard, short, surge, now)
    seconds = daemonset.spec.min_ready_seconds
    free: list[Action] = []
    costly: list[Action] = []
    missing = 0
    for place in heard:
        pod = place.living[0] if place.living else None
        if pod is None or not pods.available(pod, seconds, now):
            missing += 1
        if pod is not None and _version(pod) != short:
            # What serves nobody can go at once; it is counted as missing already.
            (costly if pods.available(pod, seconds, now) else free).append(Delete(pod, "Deleted pod: {name}"))
    return [*free, *costly[: max(unavailable - missing, 0)]][:_BURST]


def _surge(daemonset: DaemonSet, heard: Sequence[_OnNode], short: str, surge: int, now: datetime) -> list[Action]:
    """The new pod first, beside the old one; the old one goes when the new one is available."""
    seconds = daemonset.spec.min_ready_seconds
    actions: list[Action] = []
    doubled = 0
    waiting: list[_OnNode] = []
    for place in heard:
        old = [pod for pod in place.living if _version(pod) != short]
        new = [pod for pod in place.living if _version(pod) == short]
        if old and (any(pods.available(pod, seconds, now) for pod in new)):
            actions += [Delete(pod, "Deleted pod: {name}") for pod in old]
        elif old and new:
            doubled += 1
        elif old and not any(map(pods.terminating, place.pods)):
            waiting.append(place)
    for place in waiting[: max(surge - doubled, 0)]:
        if place.node is not None:
            actions.append(Create(_pod(daemonset, place.node.metadata.name, short), "Created pod: {name}"))
    return actions[:_BURST]


def _version(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


# A pod for one node


def _pod(daemonset: DaemonSet, node: str, short: str) -> Pod:
    pod = pods.from_template(daemonset.spec.template, daemonset)
    if short:
        pod.metadata.labels[HASH_LABEL] = short
    if node:
        pod.spec.affinity = _pinned(pod.spec.affinity, node)
    wanted = [(key, "NoExecute") for key in _EVICTING] + [(key, "NoSchedule") for key in _PASSING]
    if pod.spec.host_network:
        wanted.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    for key, effect in wanted:
        if not any(item.key == key and item.effect == effect for item in pod.spec.tolerations):
            pod.spec.tolerations.append(Toleration(key=key, operator="Exists", effect=effect))
    return pod


def _pinned(affinity: Affinity | None, node: str) -> Affinity:
    """The template's affinity, with this node alone (util.ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    here = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[here])])
    result = affinity.copied() if affinity else Affinity()
    result.node_affinity = result.node_affinity or NodeAffinity()
    result.node_affinity.required_during_scheduling_ignored_during_execution = selector
    return result


# Status


def _status(daemonset: DaemonSet, places: Sequence[_OnNode], short: str, now: datetime) -> DaemonSetStatus:
    seconds = daemonset.spec.min_ready_seconds
    wanted = [place for place in places if place.wanted]
    scheduled = [place for place in wanted if place.living]
    # In a surge the node counts by its best pod, and as updated by its newest.
    ready = sum(any(map(pods.ready, place.living)) for place in scheduled)
    available = sum(any(pods.available(pod, seconds, now) for pod in place.living) for place in scheduled)
    updated = sum(any(_version(pod) == short for pod in place.living) for place in scheduled) if short else 0
    status = daemonset.status.copied()
    status.desired_number_scheduled = len(wanted)
    status.current_number_scheduled = len(scheduled)
    status.number_misscheduled = sum(bool(place.living) and not place.wanted for place in places)
    status.number_ready = ready
    status.updated_number_scheduled = updated or None
    status.number_available = available or None
    status.number_unavailable = (len(wanted) - available) or None
    status.observed_generation = daemonset.metadata.generation
    return status
