"""Pods whose node does not exist any more: nobody will ever confirm their end, so the hub ends them itself.

Only a Node object that was *deleted* makes orphans; a node that is merely silent keeps its pods (S-84). A pod may be
bound before its node registers, hence the quarantine. As the reference's pod garbage collector does it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from cloudhub.mirror import Mirror, each, level_loop
from cloudhub.podindex import PodsByNode
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Node, Pod
from kubeapi.disruption import targeted
from kubeapi.objects import Objects

_log = logging.getLogger(__name__)


class Orphans:
    def __init__(
        self, objects: Objects, clock: Clock, pods: Mirror[Pod], nodes: Mirror[Node], quarantine: float
    ) -> None:
        """`quarantine` in seconds (of the event loop)."""
        self._objects = objects
        self._clock = clock
        self._pods = pods
        self._nodes = nodes
        self._quarantine = quarantine
        self._since: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._on_nodes = PodsByNode(pods)
        nodes.listen(self._node_changed)
        pods.listen(self._pod_changed)

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._nodes.synced.wait()
        await level_loop("orphaned pods", self._wake, self.check)

    def _node_changed(self, node: Node) -> None:
        if self._since or ("", node.metadata.name) not in self._nodes.items:
            self._wake.set()

    def _pod_changed(self, pod: Pod) -> None:
        if pod.spec.node_name and ("", pod.spec.node_name) not in self._nodes.items:
            self._wake.set()

    async def check(self) -> float | None:
        """One pass; returns the seconds until the next quarantine ends."""
        now = asyncio.get_running_loop().time()
        orphans = {pod.metadata.uid or "": pod for pod in self._orphans()}
        self._since = {uid: self._since.get(uid, now) for uid in orphans}
        due = [pod for uid, pod in orphans.items() if now - self._since[uid] >= self._quarantine]
        await each(due, self._remove)
        left = [self._quarantine - (now - since) for since in self._since.values()]
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _orphans(self) -> Iterable[Pod]:
        for name in self._on_nodes.nodes():
            if ("", name) not in self._nodes.items:
                yield from self._on_nodes.on(name)

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        _log.info("removing %s/%s: its node %s does not exist any more", meta.namespace, meta.name, pod.spec.node_name)
        if pod.status.phase not in ("Succeeded", "Failed"):
            # First, for whoever holds it by a finalizer until it has ended: its node will never say so.
            now = timestamp(self._clock.now())
            ended = targeted(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)
            ended.status.phase = "Failed"
            await self._objects.update_status(ended)
        await self._objects.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_seconds=0)
