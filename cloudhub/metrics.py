"""`kubectl top`: nodes are asked through the link when somebody asks the hub. An idle fleet costs nothing, and nobody
sees old figures: a node that is offline has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, cast

from pydantic import ValidationError

from cloudhub.link import Session
from cloudhub.mirror import Mirror
from edgelink.api import NodeOffline, StreamRefused, StreamRequest
from kubeapi.core import Node, Pod
from kubeapi.kinds.metrics import NODE_METRICS, POD_METRICS, ContainerMetrics, NodeMetrics, PodMetrics
from kubeapi.meta import KubeModel, ObjectMeta
from kubeapi.server.computed import Sources

FRESH_SECONDS = 5.0
"""An answer is given again for so long: several clients cost a node no more than one."""
PATIENCE = 4.0
"""Seconds that one node may take; the others do not wait for it any longer."""
AT_ONCE = 64
"""Nodes asked at the same time."""
_LARGEST = 1 << 20

_log = logging.getLogger(__name__)


class Streams(Protocol):
    """The link, as far as it is needed here."""

    async def open_stream(self, node: str, request: StreamRequest) -> AsyncIterator[bytes]: ...


class Use(KubeModel):
    cpu: int
    """Nanocores."""
    memory: int
    """Bytes."""


class ContainerUse(Use):
    uid: str
    """The pod's."""
    name: str


class Report(KubeModel):
    """What a node answers (edgecore/usage.py)."""

    timestamp: str
    window: float
    """Seconds."""
    host: Use
    containers: list[ContainerUse]


@dataclass(frozen=True, slots=True)
class _Answer:
    until: float
    report: asyncio.Task[Report | None]


class LinkMetrics:
    def __init__(
        self, streams: Streams, sessions: Mapping[str, Session], pods: Mirror[Pod], nodes: Mirror[Node]
    ) -> None:
        self._streams, self._sessions, self._pods, self._nodes = streams, sessions, pods, nodes
        self._answers: dict[str, _Answer] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    def sources(self) -> Sources:
        return {NODE_METRICS.key: self.nodes, POD_METRICS.key: self.pods}

    async def nodes(self, _namespace: str, name: str) -> Sequence[NodeMetrics]:
        names = [node for _, node in self._nodes.items if name in ("", node)]
        found = await self._reports(names)
        return [
            NodeMetrics(
                metadata=_metadata(self._nodes.items.get(("", node)), node, report),
                timestamp=report.timestamp,
                window=_duration(report.window),
                usage=_usage(report.host),
            )
            for node, report in found.items()
        ]

    async def pods(self, namespace: str, name: str) -> Sequence[PodMetrics]:
        wanted = {
            pod.metadata.uid: pod
            for (place, pod_name), pod in self._pods.items.items()
            if namespace in ("", place) and name in ("", pod_name) and pod.spec.node_name
        }
        reports = await self._reports({pod.spec.node_name or "" for pod in wanted.values()})
        found = []
        for node, report in reports.items():
            by_pod: dict[str, list[ContainerUse]] = {}
            for use in report.containers:
                by_pod.setdefault(use.uid, []).append(use)
            for uid, uses in by_pod.items():
                pod = wanted.get(uid)
                if pod is not None and pod.spec.node_name == node:
                    found.append(_of_pod(pod, report, uses))
        return found

    async def _reports(self, nodes: Sequence[str] | set[str]) -> dict[str, Report]:
        online = [node for node in nodes if (session := self._sessions.get(node)) and session.connected]
        # Shielded: the answer is also for others who wait for it.
        found = await asyncio.gather(*(asyncio.shield(self._ask(node)) for node in online))
        return {node: report for node, report in zip(online, found, strict=True) if report is not None}

    def _ask(self, node: str) -> asyncio.Task[Report | None]:
        now = asyncio.get_running_loop().time()
        known = self._answers.get(node)
        if known is not None and (now < known.until or not known.report.done()):
            return known.report
        task = asyncio.create_task(self._fetch(node), name=f"usage of {node}")
        self._answers[node] = _Answer(now + FRESH_SECONDS, task)
        return task

    async def _fetch(self, node: str) -> Report | None:
        """None where the node cannot say: offline, too slow, or an agent that does not know how."""
        try:
            async with self._turns, asyncio.timeout(PATIENCE):
                return Report.from_json(await self._read(node))
        except (NodeOffline, StreamRefused, TimeoutError, ValidationError, ValueError) as error:
            _log.info("node %s does not say what it uses: %s", node, error or type(error).__name__)
            return None

    async def _read(self, node: str) -> bytes:
        chunks = await self._streams.open_stream(node, StreamRequest("usage", "", ""))
        body = bytearray()
        async with aclosing(cast("AsyncGenerator[bytes, None]", chunks)):
            async for chunk in chunks:
                body += chunk
                if len(body) > _LARGEST:
                    raise StreamRefused(f"its answer is longer than {_LARGEST} bytes")
        return bytes(body)


def _of_pod(pod: Pod, report: Report, uses: Sequence[ContainerUse]) -> PodMetrics:
    return PodMetrics(
        metadata=_metadata(pod, pod.metadata.name, report),
        timestamp=report.timestamp,
        window=_duration(report.window),
        containers=[ContainerMetrics(name=use.name, usage=_usage(use)) for use in uses],
    )


def _metadata(of: Pod | Node | None, name: str, report: Report) -> ObjectMeta:
    meta = of.metadata if of is not None else ObjectMeta()
    return ObjectMeta(name=name, namespace=meta.namespace, labels=meta.labels, creation_timestamp=report.timestamp)


def _usage(use: Use) -> dict[str, str]:
    return {"cpu": f"{use.cpu}n" if use.cpu else "0", "memory": f"{use.memory // 1024}Ki"}


def _duration(seconds: float) -> str:
    """As Go writes one, to the millisecond."""
    return f"{round(seconds, 3):g}s"
