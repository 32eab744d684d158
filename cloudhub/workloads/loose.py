"""Pods whose end no Job will count any more, because it is gone or has let them go: their finalizer is taken off."""

from __future__ import annotations

import asyncio

from cloudhub.mirror import each, level_loop
from cloudhub.workloads.cluster import Cluster, controller_of
from cloudhub.workloads.jobcounts import TRACKING
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.objects import Objects
from kubeapi.workloads import Job


class LooseJobPods:
    def __init__(self, objects: Objects, cluster: Cluster) -> None:
        self._objects = objects
        self._cluster = cluster
        self._wake = asyncio.Event()
        cluster.mirror(Pod).listen(self._pod_changed)
        cluster.mirror(Job).listen(lambda _: self._wake.set())

    async def run(self) -> None:
        await self._cluster.synced()
        await level_loop("pods of ended jobs", self._wake, self.check)

    def _pod_changed(self, pod: Pod) -> None:
        if TRACKING in pod.metadata.finalizers:
            self._wake.set()

    async def check(self) -> float | None:
        pods = self._cluster.mirror(Pod).items.values()
        jobs = {job.metadata.uid for job in self._cluster.mirror(Job).items.values()}
        tracked = [pod for pod in pods if TRACKING in pod.metadata.finalizers]
        loose = [pod for pod in tracked if (owner := controller_of(pod)) is None or owner.uid not in jobs]
        await each(loose, self._release)
        return None

    async def _release(self, pod: Pod) -> None:
        if await self._job_exists(pod):
            return  # the mirror is behind
        free = pod.copied()
        free.metadata.finalizers = [item for item in free.metadata.finalizers if item != TRACKING]
        await self._objects.update(free)

    async def _job_exists(self, pod: Pod) -> bool:
        owner = controller_of(pod)
        if owner is None or owner.kind != "Job":
            return False
        try:
            job = await self._objects.get(Job, pod.metadata.namespace, owner.name)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return job.metadata.uid == owner.uid
