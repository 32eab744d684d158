"""Pods whose end no Job will count any more, because it is gone or has let them go: their finalizer is taken off."""

from __future__ import annotations

import asyncio

from cloudhub.mirror import Identity, each, level_loop
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
        self._tracked: set[Identity] = set()
        """Pods with the finalizer."""
        self._wake = asyncio.Event()
        cluster.mirror(Pod).listen(self._pod_changed)
        cluster.mirror(Job).listen(self._job_changed)

    async def run(self) -> None:
        await self._cluster.synced()
        await level_loop("pods of ended jobs", self._wake, self.check)

    def _pod_changed(self, pod: Pod) -> None:
        identity = (pod.metadata.namespace or "", pod.metadata.name)
        current = self._cluster.find(Pod, identity)
        if current is None or TRACKING not in current.metadata.finalizers:
            self._tracked.discard(identity)
            return
        self._tracked.add(identity)
        if self._is_loose(current):
            self._wake.set()

    def _job_changed(self, job: Job) -> None:
        current = self._cluster.find(Job, (job.metadata.namespace or "", job.metadata.name))
        if current is None or current.metadata.uid != job.metadata.uid:
            self._wake.set()

    def _is_loose(self, pod: Pod) -> bool:
        owner = controller_of(pod)
        job = self._cluster.find(Job, (pod.metadata.namespace or "", owner.name)) if owner else None
        return owner is None or job is None or job.metadata.uid != owner.uid

    async def check(self) -> float | None:
        tracked = (self._cluster.find(Pod, identity) for identity in sorted(self._tracked))
        loose = [pod for pod in tracked if pod is not None and self._is_loose(pod)]
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
