"""What this node and its VMs use, measured when the hub asks (`kubectl top`): nothing is measured, stored or sent
while nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from edgecore.spec import vm_uuid
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Pod
from vmruntime.api import Runtime, VmError

SHORTEST_WINDOW = 1.0
"""Seconds between two samples that a rate is taken over: less, and a guest's short burst looks like its use."""
LONGEST_WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class HostUse:
    """Of the whole machine."""

    cpu_seconds: float
    """Of all its CPUs together, since any moment in the past."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Used:
    cpu_seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    """Loop time."""
    host: HostUse
    containers: Mapping[tuple[str, str], Used]
    """(pod UID, container) → what its VM has used. VMs that are off, or went off meanwhile, are not in it."""


class UsageMeter:
    """One for a node. Samples are kept for as long as they make a good beginning for the next one's window."""

    def __init__(self, runtime: Runtime, clock: Clock, host_use: Callable[[], HostUse]) -> None:
        self._runtime, self._clock, self._host_use = runtime, clock, host_use
        self._last: Sample | None = None
        self._measuring = asyncio.Lock()

    async def report(self, pods: Mapping[str, Pod]) -> bytes:
        """Of these pods (by UID), as JSON: see `document`. Takes a second unless it was asked not long ago."""
        async with self._measuring:
            now = asyncio.get_running_loop().time()
            first = self._last
            if first is None or not SHORTEST_WINDOW <= now - first.at <= LONGEST_WINDOW:
                first = await self._sample(pods)
                await asyncio.sleep(SHORTEST_WINDOW)
            self._last = await self._sample(pods)
            return orjson.dumps(document(first, self._last, timestamp(self._clock.now())))

    async def _sample(self, pods: Mapping[str, Pod]) -> Sample:
        names = [(uid, container.name) for uid, pod in pods.items() for container in pod.spec.containers]
        at = asyncio.get_running_loop().time()
        found = await asyncio.gather(*(self._used(*name) for name in names))
        containers = {name: used for name, used in zip(names, found, strict=True) if used is not None}
        return Sample(at, self._host_use(), containers)

    async def _used(self, uid: str, container: str) -> Used | None:
        try:
            usage = await self._runtime.usage(vm_uuid(uid, container))
        except VmError:
            return None
        return Used(usage.cpu_seconds, usage.memory_bytes)


def document(first: Sample, last: Sample, now: str) -> dict[str, object]:
    """The rates between two samples, in nanocores, and the memory at the second, in bytes. Pure.

    A VM that was restarted in between has used what it used since its start.
    """
    window = max(last.at - first.at, 0.001)

    def rate(before: float, after: float) -> int:
        return round((after - before if after >= before else after) / window * 1e9)

    containers = []
    for (uid, name), used in last.containers.items():
        before = first.containers.get((uid, name))
        if before is not None:
            cpu = rate(before.cpu_seconds, used.cpu_seconds)
            containers.append({"uid": uid, "name": name, "cpu": cpu, "memory": used.memory_bytes})
    host = {"cpu": rate(first.host.cpu_seconds, last.host.cpu_seconds), "memory": last.host.memory_bytes}
    return {"timestamp": now, "window": window, "host": host, "containers": containers}
