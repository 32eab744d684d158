"""Whether nodes are alive: leases by the event loop's monotonic time, and what follows from them.

A node that says nothing for `lease_timeout` becomes Ready=Unknown and gets the unreachable taint, so that nothing new
is bound to it; its pods become not Ready. Nothing is evicted: behind a cut link its VMs run on. The first sign of life
takes all of that back. Wall-clock time decides nothing here (S-12); it only fills in timestamps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from cloudhub.mirror import Identity, Mirror, each, level_loop
from cloudhub.placement_nodes import NOT_READY, UNREACHABLE
from cloudhub.podindex import PodsByNode
from cloudhub.recorder import Recorder
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Node, NodeCondition, Pod, Taint
from kubeapi.errors import ApiError
from kubeapi.objects import Objects

STATUS_UNKNOWN = "NodeStatusUnknown"
NEVER_UPDATED = "NodeStatusNeverUpdated"
LAST_REPORTED = "copepod.dev/LastReportedReady"
"""Condition that keeps the node's own word about Ready for as long as the hub says Unknown."""
POD_NOT_READY = "NodeNotReady"

_log = logging.getLogger(__name__)


class Leases:
    """When each node was last heard of, in the event loop's seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._heard: dict[str, float] = {}

    def heard(self, node: str, now: float) -> None:
        self._heard[node] = now

    def track(self, nodes: Iterable[str], now: float) -> None:
        """Follow exactly these. One not known before has a whole timeout to say something: also all of them when the
        hub starts, since it cannot know what it did not hear while it was down."""
        self._heard = {node: self._heard.get(node, now) for node in nodes}

    def alive(self, node: str, now: float) -> bool:
        return now - self._heard.get(node, now) < self.timeout

    def silence(self, node: str, now: float) -> float:
        """Seconds since the last sign of life."""
        return now - self._heard.get(node, now)

    def next_expiry(self, now: float) -> float | None:
        """Seconds until the next lease runs out, of those that have not."""
        left = [self.timeout - (now - heard) for heard in self._heard.values()]
        return min((seconds for seconds in left if seconds > 0), default=None)

    def forgive(self, seconds: float) -> None:
        """The hub itself stood still that long: what nodes said meanwhile still waits to be read."""
        self._heard = {node: heard + seconds for node, heard in self._heard.items()}


def silenced(node: Node, now: str) -> Node | None:
    """`node` with Ready=Unknown, or None when it says so already. The node's own word is kept beside it."""
    ready = node.status.condition("Ready")
    if ready and ready.status == "Unknown" and ready.reason in (STATUS_UNKNOWN, NEVER_UPDATED):
        return None
    node = node.copied()
    unknown = NodeCondition(
        type="Ready",
        status="Unknown",
        reason=STATUS_UNKNOWN if ready else NEVER_UPDATED,
        message=f"Node agent {'stopped posting' if ready else 'never posted'} node status.",
        last_heartbeat_time=ready.last_heartbeat_time if ready else None,
        last_transition_time=now,
    )
    kept = [ready.model_copy(update={"type": LAST_REPORTED})] if ready else []
    node.status.conditions = [*_others(node), unknown, *kept]
    return node


def heard_again(node: Node, now: str) -> Node | None:
    """`node` with Ready as it last said itself, or None when the hub has not overridden it."""
    reported = node.status.condition(LAST_REPORTED)
    if reported is None:
        return None
    node = node.copied()
    restored = reported.model_copy(update={"type": "Ready", "last_transition_time": now})
    node.status.conditions = [*_others(node), restored]
    return node


def _others(node: Node) -> list[NodeCondition]:
    return [item for item in node.status.conditions if item.type not in ("Ready", LAST_REPORTED)]


def tainted(node: Node) -> Node | None:
    """`node` with the taint its Ready condition asks for, or None when it has just that one already."""
    ready = node.status.condition("Ready")
    status = ready.status if ready else "Unknown"
    wanted = {"True": None, "False": NOT_READY}.get(status, UNREACHABLE)
    present = {item.key for item in node.spec.taints if item.key in (NOT_READY, UNREACHABLE)}
    if present == ({wanted} if wanted else set()):
        return None
    node = node.copied()
    others = [item for item in node.spec.taints if item.key not in (NOT_READY, UNREACHABLE)]
    node.spec.taints = [*others, Taint(key=wanted, effect="NoSchedule")] if wanted else others
    return node


def pod_silenced(pod: Pod, now: str) -> Pod | None:
    """A Ready pod of a silent node as not Ready; nothing else of its status is touched. None: it is not Ready."""
    ready = pod.status.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    return _with_ready(pod, "False", POD_NOT_READY, "Node is not ready", now)


def pod_heard_again(pod: Pod, now: str) -> Pod | None:
    """The reverse: only a True was overridden, so True it was."""
    ready = pod.status.condition("Ready")
    if ready is None or (ready.status, ready.reason) != ("False", POD_NOT_READY):
        return None
    return _with_ready(pod, "True", None, None, now)


def _with_ready(pod: Pod, status: str, reason: str | None, message: str | None, now: str) -> Pod:
    pod = pod.copied()
    changed = {"status": status, "reason": reason, "message": message, "last_transition_time": now}
    pod.status.conditions = [
        item.model_copy(update=changed) if item.type == "Ready" else item for item in pod.status.conditions
    ]
    return pod


class NodeLifecycle:
    """A level-triggered pass over the nodes that may need a word, run when one changes or a lease runs out; over the
    pods of a node only when it falls silent or is heard again, and over single pods that say otherwise."""

    def __init__(
        self, objects: Objects, clock: Clock, pods: Mirror[Pod], nodes: Mirror[Node], lease_timeout: float
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._pods = pods
        self._nodes = nodes
        self._recorder = Recorder(objects, clock, "node-controller")
        self._leases = Leases(lease_timeout)
        self._on_nodes = PodsByNode(pods)
        self._marked_nodes: set[str] = set()
        self._marked_pods: set[Identity] = set()
        self._alive: dict[str, bool] = {}
        """As of the last pass."""
        self._wake = asyncio.Event()
        self._due: float | None = None
        nodes.listen(self._node_changed)
        pods.listen(self._pod_changed)

    def heard(self, node: str) -> None:
        """A sign of life: a lease or anything else that came from the node."""
        now = asyncio.get_running_loop().time()
        returned = not self._leases.alive(node, now)
        self._leases.heard(node, now)
        known = self._nodes.items.get(("", node))
        if returned or known is None or known.status.condition(LAST_REPORTED):
            self._mark(node)

    def silence(self, node: str) -> float:
        """Seconds since the node was last heard of."""
        return self._leases.silence(node, asyncio.get_running_loop().time())

    async def run(self) -> None:
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        await level_loop("node lifecycle", self._wake, self.check)

    def _mark(self, node: str) -> None:
        self._marked_nodes.add(node)
        self._wake.set()

    def _node_changed(self, node: Node) -> None:
        name = node.metadata.name
        current = self._nodes.items.get(("", name))
        if current is None or name not in self._alive or _node_with_word(current, self._alive[name], "") is not None:
            self._mark(name)

    def _pod_changed(self, pod: Pod) -> None:
        if _pod_with_word(pod, self._alive.get(pod.spec.node_name or "", True), "") is not None:
            self._marked_pods.add((pod.metadata.namespace or "", pod.metadata.name))
            self._wake.set()

    async def check(self) -> float | None:
        """One pass; returns the seconds until the next lease runs out."""
        now = asyncio.get_running_loop().time()
        if self._due is not None and now - self._due > self._leases.timeout / 4:
            _log.warning("the hub stood still for %.0f s: leases are extended by that", now - self._due)
            self._leases.forgive(now - self._due)
        names = [name for _, name in self._nodes.items]
        self._leases.track(names, now)
        before, self._alive = self._alive, {name: self._leases.alive(name, now) for name in names}
        turned = [name for name, alive in self._alive.items() if before.get(name) != alive]
        marked, self._marked_nodes = self._marked_nodes, set()
        pods, self._marked_pods = self._marked_pods, set()
        for name in turned:
            pods.update(_identity(pod) for pod in self._on_nodes.on(name))
        try:
            await each(sorted(marked.union(turned)), lambda name: self._check_node(name, now))
        finally:
            await each(sorted(pods), self._check_pod)
        after = asyncio.get_running_loop().time()
        left = self._leases.next_expiry(after)
        self._due = None if left is None else after + left
        return left

    async def _check_node(self, name: str, now: float) -> None:
        node = self._nodes.items.get(("", name))
        if node is None:
            return
        alive, moment = self._alive[name], timestamp(self._clock.now())
        try:
            changed = heard_again(node, moment) if alive else silenced(node, moment)
            if changed:
                node = await self._objects.update_status(changed)
                await self._tell(node, alive, now)
            marked = tainted(node)
            if marked:
                await self._objects.update(marked)
        except ApiError:
            self._marked_nodes.add(name)
            raise

    async def _tell(self, node: Node, alive: bool, now: float) -> None:
        name = node.metadata.name
        ready = node.status.condition("Ready")
        state = "NodeReady" if ready and ready.status == "True" else "NodeNotReady"
        if alive:
            _log.info("node %s is heard again", name)
        else:
            _log.warning("node %s has said nothing for %.0f s: Ready is Unknown", name, self._leases.silence(name, now))
        await self._recorder.record(node, "Normal", state, f"Node {name} status is now: {state}")

    async def _check_pod(self, identity: Identity) -> None:
        pod = self._pods.items.get(identity)
        alive = self._alive.get(pod.spec.node_name or "") if pod else None
        if pod is None or alive is None:
            return
        changed = _pod_with_word(pod, alive, timestamp(self._clock.now()))
        if changed is None:
            return
        try:
            await self._objects.update_status(changed)
        except ApiError:
            self._marked_pods.add(identity)
            raise
        if not alive:
            await self._recorder.record(pod, "Warning", POD_NOT_READY, "Node is not ready")


def _node_with_word(node: Node, alive: bool, now: str) -> Node | None:
    """None: it says of itself what there is to say."""
    return (heard_again(node, now) if alive else silenced(node, now)) or tainted(node)


def _pod_with_word(pod: Pod, alive: bool, now: str) -> Pod | None:
    if not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return None
    return pod_heard_again(pod, now) if alive else pod_silenced(pod, now)


def _identity(pod: Pod) -> Identity:
    return pod.metadata.namespace or "", pod.metadata.name
