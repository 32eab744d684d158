"""What pods take and what nodes have left: CPU, memory, devices, host ports. Pure arithmetic over a `Stage`, which is
kept up change by change: with thousands of nodes nobody adds up all pods for each decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from cloudhub.placement_nodes import BINDING_EFFECTS, effective_taints, ready_status
from cloudhub.placement_terms import Term, antipathies, needs, wishes
from kubeapi import quantity
from kubeapi.core import Container, Node, Pod, Taint
from kubeapi.podresources import is_sidecar, scheduler_counted
from kubeapi.quantity import QuantityError

OVERHEAD_ANNOTATION = "copepod.dev/vm-overhead-memory"
"""On a Node: what each VM costs the host beyond the guest's memory, as a quantity."""

Demand = dict[str, int]
"""By resource name: CPU in millicores, everything else in whole units (memory in bytes)."""
Port = tuple[str, str, int]
"""(protocol, host IP, number)."""
_EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod as placement sees it: worked out once, looked at for many nodes."""

    pod: Pod
    uid: str
    priority: int
    base: Mapping[str, int]
    """What it takes anywhere: the largest of wished, allocated and actual."""
    vms: int
    """For how many VMs the node's own overhead comes on top; none where the pod says its overhead itself."""
    ports: frozenset[Port]
    needs: tuple[Term, ...]
    """Required affinity to other pods."""
    antipathies: tuple[Term, ...]
    """Required anti-affinity."""
    wishes: tuple[Term, ...]
    """Preferred affinity and, with a negative weight, anti-affinity."""
    minds_pods: bool
    """Whether any of these three says anything."""

    @classmethod
    def of(cls, pod: Pod) -> Wish:
        counted = scheduler_counted(pod)
        terms = needs(pod), antipathies(pod), wishes(pod)
        return cls(
            pod,
            pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}",
            pod.spec.priority or 0,
            {"cpu": counted.cpu, "memory": counted.memory} | _others(pod),
            0 if pod.spec.overhead else _vms(pod),
            frozenset(_ports(pod)),
            *terms,
            any(terms),
        )

    def on(self, room: Room) -> Mapping[str, int]:
        if not self.vms or not room.overhead:
            return self.base
        return {**self.base, "memory": self.base["memory"] + self.vms * room.overhead}


@dataclass(slots=True)
class Room:
    """A node, what it offers, and what is taken of it."""

    node: Node
    allocatable: Demand
    overhead: int
    """Bytes for each VM of a pod that names no overhead."""
    taints: Sequence[Taint]
    """Those that keep pods away."""
    soft_taints: Sequence[Taint]
    heard: bool
    """Whether the node speaks to the hub: what is deleted on one that does not is not known to have ended."""
    held: dict[str, Wish] = field(default_factory=dict)
    reserved: dict[str, Wish] = field(default_factory=dict)
    """Pods that have made others go here (nominated), and wait for their end."""
    used: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, node: Node, held: Iterable[Wish] = (), reserved: Iterable[Wish] = ()) -> Room:
        taints = effective_taints(node)
        room = cls(
            node,
            _offered(node),
            _vm_overhead(node),
            [item for item in taints if item.effect in BINDING_EFFECTS],
            [item for item in taints if item.effect == "PreferNoSchedule"],
            ready_status(node) != "Unknown",
        )
        for wish in held:
            room.put(wish)
        room.reserved = {wish.uid: wish for wish in reserved}
        return room

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def put(self, wish: Wish) -> None:
        self.remove(wish.uid)
        self.held[wish.uid] = wish
        self.used.update(wish.on(self))

    def remove(self, uid: str) -> None:
        wish = self.held.pop(uid, None)
        if wish is not None:
            self.used.subtract(wish.on(self))

    def without(self, victims: Iterable[Wish]) -> Room:
        """As it would be: a copy."""
        room = Room.of(self.node, self.held.values(), self.reserved.values())
        for wish in victims:
            room.remove(wish.uid)
        return room

    def ahead_of(self, wish: Wish) -> list[Wish]:
        """Reservations that this pod must not take away: those of its priority or a higher one."""
        if not self.reserved:
            return []
        waiting = self.reserved.values()
        return [item for item in waiting if item.priority >= wish.priority and item.uid not in (wish.uid, *self.held)]

    def clash(self, wish: Wish) -> bool:
        """Whether a host port it wants is taken."""
        others = [*self.held.values(), *self.ahead_of(wish)] if wish.ports else ()
        return any(_same_port(mine, theirs) for item in others for theirs in item.ports for mine in wish.ports)

    def short_of(self, wish: Wish) -> list[str]:
        """Names of the resources that do not suffice; `pods` among them."""
        taken: Mapping[str, int] = self.used
        ahead = self.ahead_of(wish)
        if ahead:
            taken = Counter(self.used)
            for item in ahead:
                taken.update(item.on(self))
        short = []
        most = self.allocatable.get("pods")
        if most is not None and len(self.held) + len(ahead) + 1 > most:
            short.append("pods")
        for name, amount in wish.on(self).items():
            if amount > 0 and amount > self.allocatable.get(name, 0) - taken.get(name, 0):
                short.append(name)
        return short


class Stage:
    """All rooms, and where each pod is held or has reserved: a pod is in one place at a time."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.minded: dict[str, tuple[Wish, str]] = {}
        """Pods in their places that mind who is near them, with their node."""
        self.spaces: dict[str, Mapping[str, str]] = {}
        """Labels of the namespaces."""
        self._held: defaultdict[str, dict[str, Wish]] = defaultdict(dict)
        self._reserved: defaultdict[str, dict[str, Wish]] = defaultdict(dict)
        self._places: dict[str, str] = {}
        self._nominated: dict[str, str] = {}

    @classmethod
    def of(cls, nodes: Iterable[Node], pods_by_node: Mapping[str, Iterable[Pod]]) -> Stage:
        stage = cls()
        for node in nodes:
            stage.set_node(node)
        for name, pods in pods_by_node.items():
            for pod in pods:
                stage.put(Wish.of(pod), name)
        return stage

    def set_node(self, node: Node) -> None:
        name = node.metadata.name
        self.rooms[name] = Room.of(node, self._held[name].values(), self._reserved[name].values())

    def drop_node(self, name: str) -> None:
        self.rooms.pop(name, None)

    def held(self, uid: str) -> tuple[Wish, str] | None:
        """What is counted for that pod, and where."""
        node = self._places.get(uid)
        return None if node is None else (self._held[node][uid], node)

    def put(self, wish: Wish, node: str) -> None:
        self.remove(wish.uid)
        self.unreserve(wish.uid)
        self._places[wish.uid] = node
        self._held[node][wish.uid] = wish
        if wish.minds_pods:
            self.minded[wish.uid] = wish, node
        if node in self.rooms:
            self.rooms[node].put(wish)

    def remove(self, uid: str) -> None:
        node = self._places.pop(uid, None)
        if node is None:
            return
        _drop(self._held, node, uid)
        self.minded.pop(uid, None)
        if node in self.rooms:
            self.rooms[node].remove(uid)

    def reserve(self, wish: Wish, node: str) -> None:
        self.unreserve(wish.uid)
        self._nominated[wish.uid] = node
        self._reserved[node][wish.uid] = wish
        if node in self.rooms:
            self.rooms[node].reserved[wish.uid] = wish

    def unreserve(self, uid: str) -> bool:
        """Whether there was a reservation."""
        node = self._nominated.pop(uid, None)
        if node is None:
            return False
        _drop(self._reserved, node, uid)
        if node in self.rooms:
            self.rooms[node].reserved.pop(uid, None)
        return True


def _drop(table: defaultdict[str, dict[str, Wish]], node: str, uid: str) -> None:
    table[node].pop(uid, None)
    if not table[node]:
        del table[node]


def counts_against_node(pod: Pod) -> bool:
    """A finished pod holds nothing any more; one being deleted holds its place until its node says it has ended."""
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


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


def _offered(node: Node) -> Demand:
    """What cannot be read is not offered: a node's own mistake must not stop scheduling elsewhere."""
    offered: Demand = {}
    for name, text in node.status.allocatable.items():
        with suppress(QuantityError):
            offered |= _units({name: text})
    return offered


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
        return 0


def _ports(pod: Pod) -> Iterator[Port]:
    """In the host's network every port is the host's."""
    for container in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number > 0:
                yield port.protocol or "TCP", port.host_ip or _EVERYWHERE, number


def _same_port(one: Port, other: Port) -> bool:
    if (one[0], one[2]) != (other[0], other[2]):
        return False
    return one[1] == other[1] or _EVERYWHERE in (one[1], other[1])
