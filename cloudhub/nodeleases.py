"""Lease objects of nodes in kube-node-lease, for people and tools that look there (`kubectl describe node`).

The hub writes them from the signs of life that it hears; nodes send none of their own, and nothing here decides whether
a node is alive. So they may be late: a lease is renewed every 30 seconds in a small fleet, and with more than 600
nodes so much later that all nodes together cost the store 20 writes a second (5,000 nodes: every 250 seconds). A node
that is silent is not renewed, so `renewTime` is at most that much older than when it was last heard of.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping

from cloudhub.mirror import Mirror, each, level_loop
from kubeapi.clock import Clock, micro_timestamp
from kubeapi.core import Lease, LeaseSpec, Node
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta, OwnerReference
from kubeapi.objects import Objects

NAMESPACE = "kube-node-lease"
SHORTEST = 30.0
"""Seconds between two renewals of a lease."""
MOST_WRITES = 20.0
"""A second, of all leases."""
_TICK = 5.0


def period(nodes: int) -> float:
    """Seconds between two renewals of each of that many leases."""
    return max(SHORTEST, nodes / MOST_WRITES)


def due(nodes: int, heard: Iterable[str], renewed: Mapping[str, float], now: float) -> list[str]:
    """Whose lease to renew, longest ago first, at most a tick's share.

    `nodes` is the size of the fleet, `heard` who has given a sign of life since its last renewal, `renewed` when that
    was, in the event loop's seconds.
    """
    every = period(nodes)
    waiting = [name for name in heard if name not in renewed or now - renewed[name] >= every]
    return sorted(waiting, key=lambda name: (renewed.get(name, float("-inf")), name))[: int(MOST_WRITES * _TICK)]


class NodeLeases:
    def __init__(self, objects: Objects, clock: Clock, nodes: Mirror[Node], lease_timeout: float) -> None:
        self._objects = objects
        self._clock = clock
        self._nodes = nodes
        self._seconds = max(1, math.ceil(lease_timeout))
        self._renewed: dict[str, float] = {}
        self._heard: set[str] = set()

    def heard(self, node: str) -> None:
        """A sign of life."""
        self._heard.add(node)

    async def run(self) -> None:
        await self._nodes.synced.wait()
        await level_loop("node leases", asyncio.Event(), self.renew)

    async def renew(self) -> float:
        """Those that are due; what the store refuses is due again. Returns the seconds until the next look."""
        now = asyncio.get_running_loop().time()
        known = {name: node for (_, name), node in self._nodes.items.items()}
        self._heard &= known.keys()
        self._renewed = {name: at for name, at in self._renewed.items() if name in known}
        await each(due(len(known), self._heard, self._renewed, now), lambda name: self._renew(known[name], now))
        return _TICK

    async def _renew(self, node: Node, now: float) -> None:
        name = node.metadata.name
        moment = micro_timestamp(self._clock.now())
        try:
            lease = await self._objects.get(Lease, NAMESPACE, name)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._objects.create(_lease(node, self._seconds, moment))
        else:
            lease.spec = LeaseSpec(holder_identity=name, lease_duration_seconds=self._seconds, renew_time=moment)
            lease.metadata.owner_references = _owner(node)
            await self._objects.update(lease)
        self._renewed[name] = now
        self._heard.discard(name)


def _lease(node: Node, seconds: int, moment: str) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=node.metadata.name, namespace=NAMESPACE, owner_references=_owner(node)),
        spec=LeaseSpec(holder_identity=node.metadata.name, lease_duration_seconds=seconds, renew_time=moment),
    )


def _owner(node: Node) -> list[OwnerReference]:
    """The garbage collector removes the lease with its node."""
    return [OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid or "")]
