"""Pods that their node's taints drive away (NoExecute), and those that asked to be given up when their node is silent.

The difference to the reference is the default. There, a pod without a word about it is evicted five minutes after its
node fell silent. Here it is kept for as long as it takes: behind a cut link its VM runs on, and autonomy is what an
edge box is for. A pod that does want to be replaced elsewhere says so in the usual way, with a toleration of
`node.kubernetes.io/unreachable` (or `not-ready`), effect NoExecute, that names `tolerationSeconds`. For pods that say
nothing themselves the node may be annotated (`copepod.dev/give-up-after`: seconds).

Time is the event loop's, from when this hub first saw the reason: a hub that was away itself evicts nobody early
(S-12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cloudhub.mirror import Mirror, each, level_loop
from cloudhub.placement_nodes import NOT_READY, UNREACHABLE, tolerates
from cloudhub.podindex import PodsByNode
from cloudhub.recorder import Recorder
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Node, Pod, Taint, Toleration
from kubeapi.disruption import targeted
from kubeapi.objects import Objects
from kubeapi.validation import GIVE_UP_AFTER

_EFFECT = "NoExecute"


def driving(node: Node) -> list[Taint]:
    """The taints that drive pods away, the one that silence stands for among them."""
    own = [taint for taint in node.spec.taints if taint.effect == _EFFECT and taint.key not in (NOT_READY, UNREACHABLE)]
    ready = node.status.condition("Ready")
    status = ready.status if ready else "Unknown"
    implied = {"True": None, "False": NOT_READY}.get(status, UNREACHABLE)
    return own + ([Taint(key=implied, effect=_EFFECT)] if implied else [])


def granted(node: Node) -> float | None:
    """Seconds of silence that the node grants its pods; None: as many as it takes."""
    text = node.metadata.annotations.get(GIVE_UP_AFTER, "")
    return float(text) if text.isdecimal() else None


def patience(taint: Taint, tolerations: Iterable[Toleration], silence: float | None = None) -> float | None:
    """Seconds that a pod with these tolerations stays; None: for ever. `silence`: what the node grants those that say
    nothing about its silence."""
    matching = [item for item in tolerations if tolerates(item, taint)]
    if not matching:
        return silence if taint.key in (NOT_READY, UNREACHABLE) else 0.0
    limits = [max(item.toleration_seconds, 0) for item in matching if item.toleration_seconds is not None]
    return float(min(limits)) if limits else None


class Eviction:
    def __init__(self, objects: Objects, clock: Clock, pods: Mirror[Pod], nodes: Mirror[Node]) -> None:
        self._objects = objects
        self._clock = clock
        self._pods = pods
        self._nodes = nodes
        self._on_nodes = PodsByNode(pods)
        self._driving: dict[str, tuple[list[Taint], float | None]] = {}
        """Nodes that drive pods away: by what, and what they grant those that say nothing."""
        self._recorder = Recorder(objects, clock, "taint-eviction-controller")
        self._since: dict[tuple[str, str, str], float] = {}
        """(pod's UID, taint's key, its value) → loop time from which it counts."""
        self._wake = asyncio.Event()
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._nodes.synced.wait()
        await level_loop("taint eviction", self._wake, self.check)

    def _pod_changed(self, pod: Pod) -> None:
        if pod.spec.node_name in self._driving:
            self._wake.set()

    def _node_changed(self, node: Node) -> None:
        name = node.metadata.name
        current = self._nodes.items.get(("", name))
        drives = (taints, granted(current)) if current and (taints := driving(current)) else None
        if drives == self._driving.get(name):
            return
        self._driving.pop(name, None)
        if drives:
            self._driving[name] = drives
        self._wake.set()

    async def check(self) -> float | None:
        """One pass; returns the seconds until the next pod's patience ends."""
        now = asyncio.get_running_loop().time()
        before, self._since = self._since, {}
        due: list[Pod] = []
        waits: list[float] = []
        for name, (taints, silence) in list(self._driving.items()):
            for pod in self._on_nodes.on(name):
                left = self._left(pod, taints, silence, before, now)
                if left is not None:
                    due += [pod] if left <= 0 else []
                    waits += [left] if left > 0 else []
        await each(due, self._evict)
        return min(waits, default=None)

    def _left(
        self,
        pod: Pod,
        taints: Iterable[Taint],
        silence: float | None,
        before: dict[tuple[str, str, str], float],
        now: float,
    ) -> float | None:
        """Seconds that the pod may stay; None: as long as it likes, or it is going already."""
        if pod.metadata.deletion_timestamp or pod.status.phase in ("Succeeded", "Failed"):
            return None
        left: list[float] = []
        for taint in taints:
            key = (pod.metadata.uid or "", taint.key, taint.value or "")
            since = self._since[key] = before.get(key, now)
            seconds = patience(taint, pod.spec.tolerations, silence)
            if seconds is not None:
                left.append(since + seconds - now)
        return min(left, default=None)

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        message = f"Marking for deletion Pod {meta.namespace}/{meta.name}"
        await self._recorder.record(pod, "Normal", "TaintManagerEviction", message)
        why = "Taint manager: deleting due to NoExecute taint"
        await self._objects.update_status(targeted(pod, "DeletionByTaintManager", why, timestamp(self._clock.now())))
        await self._objects.delete(Pod, meta.namespace, meta.name, uid=meta.uid)
