"""Whom a pod that finds no place may make go: pure (the reference's DefaultPreemption, in its words).

Only pods of lower priority, as few and as unimportant as possible, budgets broken last. One thing is the edge's own: on
a node that does not speak to the hub nobody is made to go. Such a deletion frees nothing until the node is back and
says that the pod has ended: the room it promises may not come for days, and meanwhile nothing else would be sought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cloudhub.placement import NOT_HELPFUL, Unschedulable, Verdict, histogram, judge
from cloudhub.placement_peers import Peers
from cloudhub.placement_room import Room, Stage, Wish
from kubeapi import labelselector
from kubeapi.clock import parse_timestamp
from kubeapi.core import Pod
from kubeapi.disruption import TARGET
from kubeapi.policies import PodDisruptionBudget

BY_SCHEDULER = "PreemptionByScheduler"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NEVER = "not eligible due to preemptionPolicy=Never."
_ENDING = "not eligible due to a terminating pod on the nominated node."
_LEAST_CANDIDATES, _SHARE_OF_NODES = 100, 10
"""So many nodes are weighed against each other at least, and one in so many."""


@dataclass(frozen=True, slots=True)
class Preemption:
    node: str
    victims: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Ineligible:
    """The pod may not make others go, or has done so and waits: what it has been promised stays."""

    message: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    """No node could be emptied for it."""

    message: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    room: Room
    victims: tuple[Wish, ...]
    """The most important first."""
    violations: int
    """How many of the victims break a budget."""


def preempt(
    wish: Wish, stage: Stage, failure: Unschedulable, budgets: Sequence[PodDisruptionBudget]
) -> Preemption | Ineligible | Hopeless:
    """`failure` is what `choose` has just said of the same stage."""
    if wish.pod.spec.preemption_policy == "Never":
        return Ineligible(_NEVER)
    if _waits_for_victims(wish, stage, failure):
        return Ineligible(_ENDING)
    found = _candidates(wish, stage, failure.verdicts, budgets)
    if isinstance(found, Hopeless):
        return found
    best = min(found, key=_cost)
    return Preemption(best.room.name, tuple(victim.pod for victim in best.victims))


def preempted(pod: Pod) -> bool:
    condition = pod.status.condition(TARGET)
    return condition is not None and condition.status == "True" and condition.reason == BY_SCHEDULER


def _waits_for_victims(wish: Wish, stage: Stage, failure: Unschedulable) -> bool:
    """Not if its node can never be its again, or has fallen silent: then it looks elsewhere."""
    name = wish.pod.status.nominated_node_name or ""
    room = stage.rooms.get(name)
    if room is None or not room.heard or not failure.verdicts.get(name, Verdict()).room_would_help:
        return False
    return any(
        item.priority < wish.priority and item.pod.metadata.deletion_timestamp and preempted(item.pod)
        for item in room.held.values()
    )


def _candidates(
    wish: Wish, stage: Stage, verdicts: Mapping[str, Verdict], budgets: Sequence[PodDisruptionBudget]
) -> list[_Candidate] | Hopeless:
    peers = Peers.of(wish, stage)
    enough = max(_LEAST_CANDIDATES, len(verdicts) // _SHARE_OF_NODES)
    found: list[_Candidate] = []
    reasons: list[str] = []
    for name in sorted(verdicts):
        room = stage.rooms.get(name)
        if room is None or not verdicts[name].room_would_help or not room.heard:
            reasons.append(NOT_HELPFUL)
            continue
        outcome = _emptied(wish, room, peers, budgets)
        if isinstance(outcome, _Candidate):
            found.append(outcome)
            if len(found) >= enough:
                break
        else:
            reasons += outcome
    return found or Hopeless(histogram(len(verdicts), reasons))


def _emptied(
    wish: Wish, room: Room, peers: Peers, budgets: Sequence[PodDisruptionBudget]
) -> _Candidate | Sequence[str]:
    """Take all lower ones away, then let as many stay as can; or why even an empty node would not do."""
    lower = sorted((item for item in room.held.values() if item.priority < wish.priority), key=_importance)
    if not lower:
        return (_NO_VICTIMS,)
    trial = room.without(lower)
    for item in lower:
        peers.shift(item, room, -1)
    victims: list[Wish] = []
    try:
        verdict = judge(wish, trial, peers)
        if verdict.reasons:
            victims = lower
            return verdict.reasons
        breaking = _breaking(lower, budgets)
        for item in sorted(lower, key=lambda item: (item.uid not in breaking, _importance(item))):
            trial.put(item)
            peers.shift(item, room, 1)
            if judge(wish, trial, peers).reasons:
                trial.remove(item.uid)
                peers.shift(item, room, -1)
                victims.append(item)
        victims.sort(key=_importance)
        return _Candidate(room, tuple(victims), sum(item.uid in breaking for item in victims))
    finally:
        for item in victims:
            peers.shift(item, room, 1)


def _breaking(pods: Sequence[Wish], budgets: Sequence[PodDisruptionBudget]) -> frozenset[str]:
    """Those whose end no budget has room for, if all of them went in this order."""
    left = {id(budget): budget.status.disruptions_allowed for budget in budgets}
    found = set()
    for item in pods:
        for budget in budgets:
            if not _guards(budget, item.pod):
                continue
            left[id(budget)] -= 1
            if left[id(budget)] < 0:
                found.add(item.uid)
    return frozenset(found)


def _guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether its end would be one more disruption: one that is under way is counted already."""
    selector = budget.spec.selector
    if budget.metadata.namespace != pod.metadata.namespace or selector is None or selector.empty:
        return False
    return not pod.metadata.deletion_timestamp and labelselector.matches(selector, pod.metadata.labels)


def _started(wish: Wish) -> float:
    """When; never, for one that has not yet."""
    since = wish.pod.status.start_time
    return parse_timestamp(since).timestamp() if since else float("inf")


def _importance(wish: Wish) -> tuple[int, float, str]:
    """The most important is the smallest: higher priority, then longer running."""
    return -wish.priority, _started(wish), wish.uid


def _cost(candidate: _Candidate) -> tuple[int, int, int, int, float, str]:
    """What is least: budgets broken, the highest priority that goes, the sum of priorities, how many go, how long the
    most important has run; then the name."""
    top = max((item.priority for item in candidate.victims), default=-(2**31))
    oldest = min((_started(item) for item in candidate.victims if item.priority == top), default=0.0)
    summed = sum(item.priority + 2**31 for item in candidate.victims)
    return candidate.violations, top, summed, len(candidate.victims), -oldest, candidate.room.name
