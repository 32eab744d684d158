"""Which of the nodes that take a pod is best: pure, and the same answer to the same question every time.

Weights are the reference's (TaintToleration 3, NodeAffinity 2, PodTopologySpread 2, InterPodAffinity 2,
NodeResourcesFit 1, least allocated first). Not considered: balance between resources, images that a node has already,
and spreading for pods that do not ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloudhub.placement_nodes import preference, prefers_nodes, tolerated
from cloudhub.placement_peers import Peers
from cloudhub.placement_room import Room, Wish

_MOST = 100.0


def best(wish: Wish, fitting: Sequence[Room], peers: Peers) -> Room:
    """The highest sum of scores; then the first by name."""
    totals = [_share_left(wish, room) for room in fitting]
    if any(room.soft_taints for room in fitting):
        _add(totals, 3, _fewest([_resented(wish, room) for room in fitting]))
    if prefers_nodes(wish.pod):
        _add(totals, 2, _most([preference(wish.pod, room.node) for room in fitting]))
    if peers.soft:
        _add(totals, 2, _least_crowded([peers.crowd(room.node.metadata.labels) for room in fitting]))
    if peers.liking:
        _add(totals, 2, _between([peers.likes(room.node.metadata.labels) for room in fitting]))
    ranked = zip(totals, fitting, strict=True)
    return min(ranked, key=lambda item: (-round(item[0], 4), item[1].name))[1]


def _add(totals: list[float], weight: int, scores: Sequence[float]) -> None:
    for index, score in enumerate(scores):
        totals[index] += weight * score


def _share_left(wish: Wish, room: Room) -> float:
    """The mean of the shares of CPU and memory that stay free (the reference's LeastAllocated), in percent."""
    wanted = wish.on(room)
    totals = [(name, room.allocatable.get(name, 0)) for name in ("cpu", "memory")]
    shares = [max(total - room.used[name] - wanted[name], 0) / total for name, total in totals if total > 0]
    return _MOST * sum(shares) / len(shares) if shares else 0.0


def _resented(wish: Wish, room: Room) -> int:
    return sum(not tolerated(taint, wish.pod.spec.tolerations) for taint in room.soft_taints)


def _most(values: Sequence[float]) -> list[float]:
    top = max(values)
    return [_MOST * value / top if top > 0 else 0.0 for value in values]


def _fewest(values: Sequence[float]) -> list[float]:
    return [_MOST - score for score in _most(values)]


def _between(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [_MOST * (value - low) / (high - low) if high > low else 0.0 for value in values]


def _least_crowded(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [0.0 if value is None else _MOST * (high + low - value) / high if high > 0 else _MOST for value in values]
