"""All workload controllers as named pieces of work for the composition root."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from cloudhub.mirror import Mirror
from cloudhub.workloads.cluster import Cluster
from cloudhub.workloads.controller import Controller
from cloudhub.workloads.eviction import Eviction
from cloudhub.workloads.garbage import GarbageCollector
from cloudhub.workloads.kinds import KINDS, OWNED, WATCHED
from cloudhub.workloads.loose import LooseJobPods
from kubeapi.clock import Clock
from kubeapi.core import Node, Pod
from kubeapi.server.objects import StoreObjects


def workloads(
    objects: StoreObjects, clock: Clock, pods: Mirror[Pod], nodes: Mirror[Node]
) -> dict[str, Coroutine[Any, Any, None]]:
    """Name → what is to run for as long as the hub does."""
    mirrors: dict[type[Any], Mirror[Any]] = {model: Mirror(objects, model) for model in WATCHED}
    shared: dict[type[Any], Mirror[Any]] = {Pod: pods, Node: nodes}
    cluster = Cluster(shared | mirrors, OWNED)
    work: dict[str, Coroutine[Any, Any, None]] = {}
    for kind in KINDS:
        work[kind.component] = Controller(kind, cluster, objects, clock).run()
    work["loose-job-pods"] = LooseJobPods(objects, cluster).run()
    work["taint-eviction"] = Eviction(objects, clock, pods, nodes).run()
    work["garbage-collector"] = GarbageCollector(objects).run()
    for model, mirror in mirrors.items():
        work[f"mirror of {model.__name__}"] = mirror.run()
    return work
