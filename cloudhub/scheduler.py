"""The scheduler's shell: watches pods and nodes, asks `placement`, binds, and says why it cannot.

Pods that name their node already, another scheduler, or a scheduling gate are left alone. Anything that changes may
have made room: every change wakes one pass over all pods that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from cloudhub.mirror import Mirror, each, level_loop
from cloudhub.placement import Placement, Room, Unschedulable, choose, counts_against_node
from cloudhub.recorder import Recorder
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Node, Pod, PodCondition
from kubeapi.errors import ApiError
from kubeapi.objects import Objects

NAME = "default-scheduler"
GATED = "Scheduling is blocked due to non-empty scheduling gates"

_log = logging.getLogger(__name__)


def waits(pod: Pod) -> bool:
    """Whether this scheduler should place the pod."""
    return (
        not pod.spec.node_name
        and not pod.metadata.deletion_timestamp
        and pod.status.phase not in ("Succeeded", "Failed")
        and (pod.spec.scheduler_name or NAME) == NAME
    )


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Higher priority first, then who waits longest."""
    return sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", _name(pod)))


def refused(pod: Pod, reason: str, message: str, now: str) -> Pod | None:
    """The pod with PodScheduled=False, or None when it says so already."""
    before = pod.status.condition("PodScheduled")
    if before and (before.status, before.reason, before.message) == ("False", reason, message):
        return None
    since = before.last_transition_time if before and before.status == "False" else now
    condition = PodCondition(
        type="PodScheduled", status="False", reason=reason, message=message, last_transition_time=since
    )
    pod = pod.copied()
    pod.status.conditions = [*(c for c in pod.status.conditions if c.type != "PodScheduled"), condition]
    return pod


class Scheduler:
    def __init__(self, objects: Objects, clock: Clock, pods: Mirror[Pod], nodes: Mirror[Node]) -> None:
        self._objects = objects
        self._clock = clock
        self._recorder = Recorder(objects, clock, NAME)
        self._wake = asyncio.Event()
        self._pods = pods
        self._nodes = nodes
        self._assumed: dict[str, Pod] = {}
        """Bound by us, by UID, but not yet seen bound in the mirror: they hold their room already."""
        pods.listen(self._pod_changed)
        nodes.listen(lambda _: self._wake.set())

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._nodes.synced.wait()
        await level_loop("scheduler", self._wake, self.schedule)

    def _pod_changed(self, pod: Pod) -> None:
        uid = pod.metadata.uid or ""
        current = self._pods.items.get((pod.metadata.namespace or "", pod.metadata.name))
        if uid in self._assumed and (pod.spec.node_name or not current or current.metadata.uid != uid):
            del self._assumed[uid]
        self._wake.set()

    async def schedule(self) -> None:
        """One pass over all that wait."""
        rooms = self._rooms()
        waiting = [pod for pod in self._pods.items.values() if waits(pod) and pod.metadata.uid not in self._assumed]
        await each(in_order(waiting), lambda pod: self._attempt(pod, rooms))

    async def _attempt(self, pod: Pod, rooms: Mapping[str, Room]) -> None:
        if pod.spec.scheduling_gates:
            await self._refuse(pod, "SchedulingGated", GATED)
            return
        match choose(pod, list(rooms.values())):
            case Placement(node):
                await self._bind(pod, node)
                rooms[node].take(pod)
            case Unschedulable(message):
                await self._refuse(pod, "Unschedulable", message)

    def _rooms(self) -> dict[str, Room]:
        held: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in (*self._pods.items.values(), *self._assumed.values()):
            if counts_against_node(pod):
                held[pod.spec.node_name or ""].append(pod)
        nodes = self._nodes.items.values()
        return {node.metadata.name: Room.of(node, held[node.metadata.name]) for node in nodes}

    async def _bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        bound = pod.copied()
        bound.spec.node_name = node
        self._assumed[meta.uid or ""] = bound
        try:
            await self._objects.bind(meta.namespace or "", meta.name, node, uid=meta.uid)
        except ApiError:
            self._assumed.pop(meta.uid or "", None)
            raise
        _log.info("bound %s to %s", _name(pod), node)
        await self._recorder.record(pod, "Normal", "Scheduled", f"Successfully assigned {_name(pod)} to {node}")

    async def _refuse(self, pod: Pod, reason: str, message: str) -> None:
        changed = refused(pod, reason, message, timestamp(self._clock.now()))
        if changed is None:
            return
        if reason == "Unschedulable":
            _log.info("%s: %s", _name(pod), message)
            # Before the condition, which says that this has been told: a crash between the two must not lose it.
            await self._recorder.record(pod, "Warning", "FailedScheduling", message)
        await self._objects.update_status(changed)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
