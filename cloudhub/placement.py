"""Which node a pod goes to: pure, from what nodes offer and what their pods hold.

The filters, their order and their words follow the reference scheduler (kube-scheduler 1.36: NodeUnschedulable,
TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity; framework.FitError),
because people and tools read those messages. Difference: a node whose Ready condition is not True counts as tainted at
once, even before the taint is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from cloudhub.placement_nodes import CORDONED, named, selected, tolerated
from cloudhub.placement_peers import Peers
from cloudhub.placement_room import Room, Stage, Wish
from cloudhub.placement_scores import best
from kubeapi.core import Node, Pod

NO_NODES = "no nodes available to schedule pods"
_ALL_OF = 100
"""Nodes of which all are compared."""
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Placement:
    node: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a node does not take a pod (empty: it does), and whether fewer pods there could change that."""

    reasons: tuple[str, ...] = ()
    room_would_help: bool = False


@dataclass(frozen=True, slots=True)
class Unschedulable:
    message: str
    """Without a word about preemption."""
    verdicts: Mapping[str, Verdict]
    """By node."""


FITS = Verdict()
_CORDONED = Verdict(("node(s) were unschedulable",))
_TAINTED = Verdict(("node(s) had untolerated taint(s)",))
_NOT_SELECTED = Verdict(("node(s) didn't match Pod's node affinity/selector",))
_NOT_NAMED = Verdict(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
_PORTS = Verdict(("node(s) didn't have free ports for the requested pod ports",), True)
_NO_TOPOLOGY = Verdict(("node(s) didn't match pod topology spread constraints (missing required label)",))
_SKEWED = Verdict(("node(s) didn't match pod topology spread constraints",), True)
_FAR = Verdict(("node(s) didn't match pod affinity rules",))
_SHUNS = Verdict(("node(s) didn't match pod anti-affinity rules",), True)
_SHUNNED = Verdict(("node(s) didn't satisfy existing pods anti-affinity rules",), True)


def place(pod: Pod, nodes: Sequence[Node], pods_by_node: Mapping[str, Sequence[Pod]]) -> Placement | Unschedulable:
    """`choose`, from the nodes and what counts against each: its pods that are not finished."""
    return choose(Wish.of(pod), Stage.of(nodes, pods_by_node))


def choose(wish: Wish, stage: Stage) -> Placement | Unschedulable:
    """The fitting node with the highest score; in a large cluster, of so many as are enough to choose from."""
    if not stage.rooms:
        return Unschedulable(NO_NODES, {})
    peers = Peers.of(wish, stage)
    only = named(wish.pod)
    enough = _enough(len(stage.rooms))
    fitting: list[Room] = []
    verdicts: dict[str, Verdict] = {}
    for name, room in _from_its_own(wish, stage.rooms):
        verdict = judge(wish, room, peers) if only is None or name in only else _NOT_NAMED
        if verdict.reasons:
            verdicts[name] = verdict
            continue
        fitting.append(room)
        if len(fitting) >= enough:
            break
    if fitting:
        return Placement(best(wish, fitting, peers).name)
    return Unschedulable(
        histogram(len(verdicts), (text for item in verdicts.values() for text in item.reasons)), verdicts
    )


def _enough(nodes: int) -> int:
    """How many nodes that fit are looked for (the reference's percentageOfNodesToScore, adaptive)."""
    return max(_ALL_OF, nodes * max(5, 50 - nodes // 125) // 100) if nodes > _ALL_OF else nodes


def _from_its_own(wish: Wish, rooms: Mapping[str, Room]) -> Iterator[tuple[str, Room]]:
    """All nodes, beginning where the pod's UID says: neither always at the first, nor by chance."""
    if len(rooms) <= _ALL_OF:
        yield from rooms.items()
        return
    start = int.from_bytes(blake2b(wish.uid.encode(), digest_size=4).digest()) % len(rooms)
    items = list(rooms.items())
    yield from items[start:]
    yield from items[:start]


def judge(wish: Wish, room: Room, peers: Peers) -> Verdict:
    """The first filter that objects decides, as in the reference; resources name all that is missing."""
    node, tolerations = room.node, wish.pod.spec.tolerations
    if node.spec.unschedulable and not tolerated(CORDONED, tolerations):
        return _CORDONED
    if room.taints and not all(tolerated(taint, tolerations) for taint in room.taints):
        return _TAINTED
    if not selected(wish.pod, node):
        return _NOT_SELECTED
    if wish.ports and room.clash(wish):
        return _PORTS
    short = room.short_of(wish)
    if short:
        return _too_little(wish, room, short)
    return _among(peers, node.metadata.labels)


def _too_little(wish: Wish, room: Room, short: Sequence[str]) -> Verdict:
    wanted = wish.on(room)
    return Verdict(
        tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in short),
        all(name == "pods" or wanted[name] <= room.allocatable.get(name, 0) for name in short),
    )


def _among(peers: Peers, labels: Mapping[str, str]) -> Verdict:
    if peers.hard:
        if peers.lacks_key(labels):
            return _NO_TOPOLOGY
        if peers.unbalances(labels):
            return _SKEWED
    if peers.wish.needs and peers.misses(labels):
        return _FAR
    if peers.shunned and peers.shuns(labels):
        return _SHUNS
    if peers.shunning and peers.is_shunned(labels):
        return _SHUNNED
    return FITS


def histogram(total: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{total} nodes are available: {', '.join(counted)}."
