"""What the pods that have their places mean for one that has not: pod affinity, anti-affinity, topology spread. Pure.

All is counted once per decision, by topology key and value; then each node is judged by its labels alone. For
preemption pods can be taken out of the counts and put back. The rules are those of the reference's plugins
InterPodAffinity and PodTopologySpread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cloudhub.placement_nodes import selected, tolerated
from cloudhub.placement_room import Room, Stage, Wish
from cloudhub.placement_terms import Spaces, Term, with_label_keys
from kubeapi.core import Pod
from kubeapi.labelselector import LabelSelector, matches
from kubeapi.scheduling import DO_NOT_SCHEDULE, TopologySpreadConstraint

Tally = dict[str, Counter[str]]
"""By topology key, then by the node label's value."""


@dataclass(slots=True)
class Spread:
    """One constraint, and how many of the pods it is about are in each place."""

    constraint: TopologySpreadConstraint
    selector: LabelSelector | None
    keys: Sequence[str]
    """A node without all of them (those of the pod's constraints of the same strength) is no place."""
    counts: Counter[str] = field(default_factory=Counter)
    _least: int | None = None

    def add(self, place: str, by: int) -> None:
        self.counts[place] += by
        self._least = None

    def least(self) -> int:
        """Of all places; none at all while there are fewer of them than asked for."""
        if self._least is None:
            enough = len(self.counts) >= (self.constraint.min_domains or 1)
            self._least = min(self.counts.values(), default=0) if enough else 0
        return self._least

    def covers(self, pod: Pod, room: Room) -> bool:
        labels = room.node.metadata.labels
        if any(key not in labels for key in self.keys):
            return False
        if self.constraint.node_affinity_policy != "Ignore" and not selected(pod, room.node):
            return False
        if self.constraint.node_taints_policy != "Honor":
            return True
        return all(tolerated(taint, pod.spec.tolerations) for taint in room.taints)

    def means(self, pod: Pod, other: Pod) -> bool:
        """A pod that is being deleted counts no more."""
        meta = other.metadata
        same = meta.namespace == pod.metadata.namespace and not meta.deletion_timestamp
        return same and matches(self.selector, meta.labels)

    def skew(self, pod: Pod, place: str) -> int:
        """How far that place would be ahead of the emptiest with the pod in it."""
        own = matches(self.selector, pod.metadata.labels)
        return self.counts[place] + own - self.least() if place in self.counts else own


@dataclass(slots=True)
class Peers:
    """Of one pod that is to be placed."""

    wish: Wish
    spaces: Spaces
    hard: list[Spread]
    soft: list[Spread]
    near: Tally = field(default_factory=dict)
    """Pods that all of its required affinity means."""
    shunned: Tally = field(default_factory=dict)
    """Pods that its required anti-affinity means."""
    shunning: Tally = field(default_factory=dict)
    """Pods whose required anti-affinity means it."""
    liking: Tally = field(default_factory=dict)
    """The sum of weights, its own and others'."""

    @classmethod
    def of(cls, wish: Wish, stage: Stage) -> Peers:
        hard, soft = _spreads(wish.pod)
        peers = cls(wish, stage.spaces, hard, soft)
        if hard or soft:
            for room in stage.rooms.values():
                peers._open(room)
        if hard or soft or wish.minds_pods:
            for room in stage.rooms.values():
                for other in room.held.values():
                    peers.shift(other, room, 1)
        else:
            for other, node in stage.minded.values():
                if node in stage.rooms:
                    peers.shift(other, stage.rooms[node], 1)
        return peers

    def _open(self, room: Room) -> None:
        """A place without any such pod is a place too."""
        for spread in (*self.hard, *self.soft):
            if spread.covers(self.wish.pod, room):
                spread.add(room.node.metadata.labels[spread.constraint.topology_key], 0)

    def shift(self, other: Wish, room: Room, sign: int) -> None:
        """Count a pod that is held there, or (-1) take it out."""
        labels = room.node.metadata.labels
        if self.wish.minds_pods or other.minds_pods:
            self._shift_terms(other, labels, sign)
        for spreads in (self.hard, self.soft):
            for spread in spreads:
                if spread.means(self.wish.pod, other.pod) and spread.covers(self.wish.pod, room):
                    spread.add(labels[spread.constraint.topology_key], sign)

    def _shift_terms(self, other: Wish, labels: Mapping[str, str], sign: int) -> None:
        mine, spaces = self.wish, self.spaces
        if mine.needs and all(term.means(other.pod, spaces) for term in mine.needs):
            _count(self.near, mine.needs, labels, sign)
        if mine.antipathies:
            _count(self.shunned, _meaning(mine.antipathies, other.pod, spaces), labels, sign)
        if other.antipathies:
            _count(self.shunning, _meaning(other.antipathies, mine.pod, spaces), labels, sign)
        for terms, about in ((mine.wishes, other.pod), (other.wishes, mine.pod)):
            for term in _meaning(terms, about, spaces):
                _count(self.liking, (term,), labels, sign * term.weight)
        # Who must be near such pods is glad of one more (the reference's hardPodAffinityWeight, 1).
        _count(self.liking, _meaning(other.needs, mine.pod, spaces), labels, sign)

    # Asked for each node

    def lacks_key(self, labels: Mapping[str, str]) -> bool:
        return any(spread.constraint.topology_key not in labels for spread in self.hard)

    def unbalances(self, labels: Mapping[str, str]) -> bool:
        return any(
            spread.skew(self.wish.pod, labels[spread.constraint.topology_key]) > spread.constraint.max_skew
            for spread in self.hard
        )

    def misses(self, labels: Mapping[str, str]) -> bool:
        """Required affinity. The first of pods that want each other may go where the label is at all."""
        needs = self.wish.needs
        if any(term.key not in labels for term in needs):
            return True
        if all(_at(self.near, term.key, labels) > 0 for term in needs):
            return False
        none = not any(any(counts.values()) for counts in self.near.values())
        return not (none and all(term.means(self.wish.pod, self.spaces) for term in needs))

    def shuns(self, labels: Mapping[str, str]) -> bool:
        return any(_at(self.shunned, key, labels) > 0 for key in self.shunned)

    def is_shunned(self, labels: Mapping[str, str]) -> bool:
        return any(_at(self.shunning, key, labels) > 0 for key in self.shunning)

    def likes(self, labels: Mapping[str, str]) -> int:
        return sum(_at(self.liking, key, labels) for key in self.liking)

    def crowd(self, labels: Mapping[str, str]) -> float | None:
        """How full its soft constraints find a node's places, few places weighing less; None: the node is none."""
        total = 0.0
        for spread in self.soft:
            place = labels.get(spread.constraint.topology_key)
            if place is None or place not in spread.counts:
                return None
            total += spread.counts[place] * math.log(len(spread.counts) + 2) + spread.constraint.max_skew - 1
        return round(total, 6)


def _spreads(pod: Pod) -> tuple[list[Spread], list[Spread]]:
    constraints = pod.spec.topology_spread_constraints
    hard = [item for item in constraints if item.when_unsatisfiable == DO_NOT_SCHEDULE]
    soft = [item for item in constraints if item.when_unsatisfiable != DO_NOT_SCHEDULE]
    return _of(hard, pod.metadata.labels), _of(soft, pod.metadata.labels)


def _of(constraints: Sequence[TopologySpreadConstraint], labels: Mapping[str, str]) -> list[Spread]:
    keys = [item.topology_key for item in constraints]
    return [
        Spread(item, with_label_keys(item.label_selector, labels, item.match_label_keys), keys) for item in constraints
    ]


def _meaning(terms: Iterable[Term], pod: Pod, spaces: Spaces) -> list[Term]:
    return [term for term in terms if term.means(pod, spaces)]


def _count(counts: Tally, terms: Iterable[Term], labels: Mapping[str, str], by: int) -> None:
    for term in terms:
        if term.key in labels:
            counts.setdefault(term.key, Counter())[labels[term.key]] += by


def _at(counts: Tally, key: str, labels: Mapping[str, str]) -> int:
    return counts[key][labels[key]] if key in counts and key in labels else 0
