"""The scheduler's shell: follows pods and nodes, asks `placement` and `preemption`, binds, and says why it cannot.

Pods that name their node already, another scheduler, or a scheduling gate are left alone. What nodes have left is kept
up change by change (`placement_room.Stage`), and only what may help wakes it: a pod is tried when it comes or its
spec changes, and all that wait are tried again when room is freed or a node, a pod's labels or place change. Status
reports, which are nearly all changes, cost one comparison.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from cloudhub.mirror import Identity, Mirror, each, level_loop
from cloudhub.placement import Placement, Unschedulable, choose
from cloudhub.placement_nodes import ready_status
from cloudhub.placement_room import OVERHEAD_ANNOTATION, Stage, Wish, counts_against_node
from cloudhub.preemption import BY_SCHEDULER, Hopeless, Ineligible, Preemption, preempt
from cloudhub.recorder import Recorder
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Namespace, Node, Pod, PodCondition
from kubeapi.disruption import targeted
from kubeapi.errors import ApiError
from kubeapi.objects import Objects
from kubeapi.policies import PodDisruptionBudget

NAME = "default-scheduler"
GATED = "Scheduling is blocked due to non-empty scheduling gates"

_TELL_AGAIN = 300.0
"""Seconds after which a pod that waits is tried again, whatever has happened (the reference's flush)."""

_ATTEMPTS = 5

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
    """Higher priority first; of equal ones who was promised a place, then who waits longest."""
    return sorted(
        pods,
        key=lambda pod: (
            -(pod.spec.priority or 0),
            not pod.status.nominated_node_name,
            pod.metadata.creation_timestamp or "",
            _name(pod),
        ),
    )


def refused(pod: Pod, reason: str, message: str, nominated: str | None, now: str) -> Pod | None:
    """The pod with PodScheduled=False and the node it was promised, or None when it says so already."""
    before = pod.status.condition("PodScheduled")
    same = before is not None and (before.status, before.reason, before.message) == ("False", reason, message)
    if same and (pod.status.nominated_node_name or None) == nominated:
        return None
    pod = pod.copied()
    pod.status.nominated_node_name = nominated
    since = before.last_transition_time if before and before.status == "False" else now
    made = PodCondition(type="PodScheduled", status="False", reason=reason, message=message, last_transition_time=since)
    pod.status.conditions = [*(item for item in pod.status.conditions if item.type != "PodScheduled"), made]
    return pod


class Scheduler:
    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        pods: Mirror[Pod],
        nodes: Mirror[Node],
        namespaces: Mirror[Namespace],
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._recorder = Recorder(objects, clock, NAME)
        self._wake = asyncio.Event()
        self._pods = pods
        self._nodes = nodes
        self._namespaces = namespaces
        self._stage = Stage()
        self._facts: dict[str, tuple[object, ...]] = {}
        """What placement looks at in each node."""
        self._waiting: dict[str, Identity] = {}
        """By UID: pods to be placed."""
        self._tried: dict[str, tuple[object, ...]] = {}
        """By UID: what a waiting pod was when it was tried last."""
        self._fresh: set[str] = set()
        """Waiting pods that have not been tried as they are."""
        self._minding: set[str] = set()
        """Waiting pods to which it matters where others are."""
        self._hope = False
        """Something has changed that may help any that waits."""
        self._told = 0.0
        """When all that wait were tried last, in the event loop's time."""
        self._assumed: set[str] = set()
        """Bound by us, by UID, but not yet seen bound in the mirror: they hold their room already."""
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)
        namespaces.listen(self._namespace_changed)

    async def run(self) -> None:
        for mirror in (self._pods, self._nodes, self._namespaces):
            await mirror.synced.wait()
        await level_loop("scheduler", self._wake, self.schedule)

    # What changes

    def _node_changed(self, node: Node) -> None:
        name = node.metadata.name
        current = self._nodes.items.get(("", name))
        facts = _facts(current) if current else None
        if facts == self._facts.get(name):
            return
        if current is None or facts is None:
            self._facts.pop(name, None)
            self._stage.drop_node(name)
        else:
            self._facts[name] = facts
            self._stage.set_node(current)
        self._give_hope()

    def _namespace_changed(self, namespace: Namespace) -> None:
        name = namespace.metadata.name
        current = self._namespaces.items.get(("", name))
        before = self._stage.spaces.pop(name, None)
        if current is not None:
            self._stage.spaces[name] = current.metadata.labels
        if before != self._stage.spaces.get(name):
            self._give_hope()

    def _pod_changed(self, pod: Pod) -> None:
        uid = pod.metadata.uid or ""
        identity = (pod.metadata.namespace or "", pod.metadata.name)
        current = self._pods.items.get(identity)
        if current is None or current.metadata.uid != uid:
            self._forget(uid)
            return
        if uid in self._assumed and waits(current):
            return
        self._assumed.discard(uid)
        if waits(current):
            self._expect(uid, identity, current)
            return
        self._stop_waiting(uid)
        if counts_against_node(current):
            self._hold(current)
        else:
            self._free(uid)

    def _hold(self, pod: Pod) -> None:
        wish, node = Wish.of(pod), pod.spec.node_name or ""
        before = self._stage.held(wish.uid)
        self._stage.put(wish, node)
        if before is None:
            self._freshen(self._minding)
        elif _helps(before[0], wish):
            self._give_hope()

    def _expect(self, uid: str, identity: Identity, pod: Pod) -> None:
        self._free(uid)
        self._waiting[uid] = identity
        if _minds_pods(pod):
            self._minding.add(uid)
        nominated = pod.status.nominated_node_name
        if nominated:
            self._stage.reserve(Wish.of(pod), nominated)
        elif self._stage.unreserve(uid):
            self._give_hope()
        if self._tried.get(uid) != _asked(pod):
            self._freshen((uid,))

    def _freshen(self, uids: Iterable[str]) -> None:
        self._fresh.update(uids)
        if self._fresh or self._hope:
            self._wake.set()

    def _stop_waiting(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._tried.pop(uid, None)
        self._fresh.discard(uid)
        self._minding.discard(uid)
        if self._stage.unreserve(uid):
            self._give_hope()

    def _free(self, uid: str) -> None:
        if self._stage.held(uid):
            self._stage.remove(uid)
            self._give_hope()

    def _forget(self, uid: str) -> None:
        self._assumed.discard(uid)
        self._stop_waiting(uid)
        self._free(uid)
        self._freshen(())

    def _give_hope(self) -> None:
        if self._waiting:
            self._hope = True
            self._wake.set()

    # What is done

    async def schedule(self) -> float | None:
        """One pass over those that may have a place now. Returns the seconds until all that wait are told anew why: by
        what others have taken meanwhile, the reasons have changed."""
        now = asyncio.get_running_loop().time()
        if self._hope or now >= self._told + _TELL_AGAIN:
            self._told = now
            chosen = list(self._waiting)
        else:
            chosen = [uid for uid in self._fresh if uid in self._waiting]
        self._hope = False
        self._fresh.clear()
        pods = [pod for uid in chosen if (pod := self._current(uid)) is not None]
        twins: dict[object, str] = {}
        await each(in_order(pods), lambda pod: self._try(pod, twins))
        left = self._told + _TELL_AGAIN - asyncio.get_running_loop().time()
        return max(left, 0.0) if self._waiting else None

    def _current(self, uid: str) -> Pod | None:
        pod = self._pods.items.get(self._waiting[uid])
        return pod if pod is not None and pod.metadata.uid == uid else None

    async def _try(self, pod: Pod, twins: dict[object, str]) -> None:
        uid = pod.metadata.uid or ""
        if uid not in self._waiting:
            return
        self._tried[uid] = _asked(pod)
        try:
            await self._attempt(pod, twins)
        except ApiError as error:
            self._tried.pop(uid, None)
            if error.code not in (404, 409) and uid in self._waiting:
                self._fresh.add(uid)  # those two mean that it has changed, and the change wakes
            raise
        except Exception:  # noqa: BLE001 (a worker's boundary: one pod's fault must not stop the others)
            _log.exception("%s cannot be scheduled", _name(pod))

    async def _attempt(self, pod: Pod, twins: dict[object, str]) -> None:
        """`twins` has what this pass has found out about pods like it, for which there is no place."""
        if pod.spec.scheduling_gates:
            await self._refuse(pod, "SchedulingGated", GATED)
            return
        kind = None if pod.status.nominated_node_name else _kind(pod)
        known = twins.get(kind) if kind else None
        if known is not None:
            await self._refuse(pod, "Unschedulable", known)
            return
        wish = Wish.of(pod)
        match choose(wish, self._stage):
            case Placement(node):
                await self._bind(pod, node)
            case Unschedulable() as failure:
                message = await self._make_room(pod, wish, failure)
                if message and kind:
                    twins[kind] = message

    async def _make_room(self, pod: Pod, wish: Wish, failure: Unschedulable) -> str:
        """Returns what was said, if nobody had to go."""
        budgets = (await self._objects.list(PodDisruptionBudget)).items if failure.verdicts else ()
        nominated = pod.status.nominated_node_name or None
        match preempt(wish, self._stage, failure, budgets) if failure.verdicts else Hopeless(""):
            case Preemption(node, victims):
                # The promise before the act: should the hub end in between, nobody else takes what is being freed.
                await self._refuse(pod, "Unschedulable", failure.message, node)
                self._stage.reserve(wish, node)
                await each(victims, lambda victim: self._end(victim, pod, node))
                return ""
            case Ineligible(text):
                pass
            case Hopeless(text):
                nominated = None
        message = f"{failure.message} preemption: {text}" if text else failure.message
        await self._refuse(pod, "Unschedulable", message, nominated)
        return message

    async def _end(self, victim: Pod, by: Pod, node: str) -> None:
        meta = victim.metadata
        if meta.deletion_timestamp:
            return
        await self._target(victim, by)
        await self._objects.delete(Pod, meta.namespace, meta.name, uid=meta.uid)
        _log.info("%s makes room on %s for %s", _name(victim), node, _name(by))
        message = f"Preempted by pod {by.metadata.uid} on node {node}"
        await self._recorder.record(victim, "Normal", "Preempted", message)

    async def _target(self, victim: Pod, by: Pod) -> None:
        """Its node writes its status all the time: whoever comes between is not to hold up its end."""
        meta = victim.metadata
        why = f"{by.spec.scheduler_name or NAME}: preempting to accommodate a higher priority pod"
        for _ in range(_ATTEMPTS):
            seen = await self._objects.get(Pod, meta.namespace, meta.name)
            try:
                seen.metadata.uid = meta.uid  # another one of its name is not meant: 409
                await self._objects.update_status(targeted(seen, BY_SCHEDULER, why, self._now()))
            except ApiError as error:
                if error.code != 409:
                    raise
            else:
                return

    async def _bind(self, pod: Pod, node: str) -> None:
        meta, uid = pod.metadata, pod.metadata.uid or ""
        bound = pod.copied()
        bound.spec.node_name = node
        self._assumed.add(uid)
        self._stop_waiting(uid)
        self._hold(bound)
        try:
            await self._objects.bind(meta.namespace or "", meta.name, node, uid=meta.uid)
        except ApiError:
            self._unbound(pod)
            raise
        _log.info("bound %s to %s", _name(pod), node)
        await self._recorder.record(pod, "Normal", "Scheduled", f"Successfully assigned {_name(pod)} to {node}")

    def _unbound(self, pod: Pod) -> None:
        """The binding was refused. Nothing is woken: to try again at once would fail again."""
        meta, uid = pod.metadata, pod.metadata.uid or ""
        self._assumed.discard(uid)
        self._stage.remove(uid)
        self._waiting[uid] = meta.namespace or "", meta.name
        self._tried[uid] = _asked(pod)
        self._hope = True

    async def _refuse(self, pod: Pod, reason: str, message: str, nominated: str | None = None) -> None:
        changed = refused(pod, reason, message, nominated, self._now())
        if changed is None:
            return
        if reason == "Unschedulable":
            _log.info("%s: %s", _name(pod), message)
            # Before the condition, which says that this has been told: a crash between the two must not lose it.
            await self._recorder.record(pod, "Warning", "FailedScheduling", message)
        await self._objects.update_status(changed)

    def _now(self) -> str:
        return timestamp(self._clock.now())


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _facts(node: Node) -> tuple[object, ...]:
    meta = node.metadata
    overhead = meta.annotations.get(OVERHEAD_ANNOTATION)
    return meta.uid, meta.labels, overhead, node.spec, node.status.allocatable, ready_status(node)


def _asked(pod: Pod) -> tuple[object, ...]:
    """What a waiting pod asks for: by this it is told whether it was tried as it is."""
    return pod.metadata.generation, pod.metadata.labels


def _kind(pod: Pod) -> tuple[object, ...]:
    """Pods of one kind (a ReplicaSet's) find the same answer. A place for one may make others find one: that change
    wakes for them."""
    return pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items())), pod.spec.to_json()


def _minds_pods(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints or (affinity and affinity.pod_affinity))


def _helps(before: Wish, after: Wish) -> bool:
    """Whether the change of a pod in its place may make room for others."""
    return (
        any(after.base.get(name, 0) < amount for name, amount in before.base.items())
        or before.pod.metadata.labels != after.pod.metadata.labels
        or bool(before.pod.metadata.deletion_timestamp) != bool(after.pod.metadata.deletion_timestamp)
    )
