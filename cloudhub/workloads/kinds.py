"""Which controllers there are: for each, what its planner is given, and what wakes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudhub.mirror import Identity
from cloudhub.placement_nodes import ready_status
from cloudhub.workloads import cronjobs, daemonsets, deployments, jobs, pods, replicasets, statefulsets
from cloudhub.workloads.actions import Plan
from cloudhub.workloads.cluster import Cluster, controller_of
from cloudhub.workloads.controller import Context, Kind
from kubeapi.core import Node, Pod
from kubeapi.meta import KubeObject
from kubeapi.storage import PersistentVolumeClaim
from kubeapi.workloads import ControllerRevision, CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet

WATCHED: tuple[type[Any], ...] = (
    Deployment,
    ReplicaSet,
    DaemonSet,
    StatefulSet,
    ControllerRevision,
    Job,
    CronJob,
    PersistentVolumeClaim,
)
"""Beside pods and nodes."""
OWNED: tuple[type[Any], ...] = (Pod, ReplicaSet, ControllerRevision, Job)


def _replicaset(replicaset: ReplicaSet, context: Context) -> Plan:
    return replicasets.plan(replicaset, context.cluster.claimable(Pod, replicaset), context.now, context.trouble)


def _deployment(deployment: Deployment, context: Context) -> Plan:
    cluster = context.cluster
    candidates = cluster.claimable(ReplicaSet, deployment)
    old_pods = {item.metadata.name: cluster.owned(Pod, item) for item in candidates}
    taken = _names(cluster, ReplicaSet, deployment)
    return deployments.plan(deployment, candidates, taken, old_pods, context.now, context.trouble)


def _daemonset(daemonset: DaemonSet, context: Context) -> Plan:
    cluster = context.cluster
    return daemonsets.plan(
        daemonset,
        cluster.claimable(Pod, daemonset),
        cluster.all(Node),
        cluster.owned(ControllerRevision, daemonset),
        _names(cluster, ControllerRevision, daemonset),
        context.now,
    )


def _statefulset(statefulset: StatefulSet, context: Context) -> Plan:
    cluster = context.cluster
    return statefulsets.plan(
        statefulset,
        cluster.claimable(Pod, statefulset),
        cluster.owned(ControllerRevision, statefulset),
        _names(cluster, ControllerRevision, statefulset),
        context.now,
        _claims(cluster, statefulset),
    )


def _claims(cluster: Cluster, statefulset: StatefulSet) -> dict[str, PersistentVolumeClaim]:
    if not statefulset.spec.volume_claim_templates:
        return {}
    namespace = statefulset.metadata.namespace or ""
    items = cluster.mirror(PersistentVolumeClaim).items
    return {name: claim for (space, name), claim in items.items() if space == namespace}


def _set_of_claim(cluster: Cluster, claim: PersistentVolumeClaim) -> Sequence[Identity]:
    """By its name: template, set, number."""
    namespace, name = claim.metadata.namespace or "", claim.metadata.name
    sets = cluster.mirror(StatefulSet).items
    return [
        key
        for key, item in sets.items()
        if key[0] == namespace
        and any(name.startswith(f"{t.metadata.name}-{key[1]}-") for t in item.spec.volume_claim_templates)
    ]


def _job(job: Job, context: Context) -> Plan:
    return jobs.plan(job, context.cluster.claimable(Pod, job), context.now)


def _cronjob(cronjob: CronJob, context: Context) -> Plan:
    return cronjobs.plan(cronjob, context.cluster.owned(Job, cronjob), context.now)


def _names(cluster: Cluster, model: type[Any], owner: KubeObject) -> frozenset[str]:
    namespace = owner.metadata.namespace or ""
    return frozenset(name for space, name in cluster.mirror(model).items if space == namespace)


def _every_daemonset(cluster: Cluster, node: Node) -> Sequence[Identity]:
    return list(cluster.mirror(DaemonSet).items)


def _of_node(node: Node) -> object:
    """What decides whether a daemon runs there, and whether it is to be waited for."""
    return node.metadata.uid, node.metadata.labels, node.spec, ready_status(node)


def _deployment_of(cluster: Cluster, pod: Pod) -> Sequence[Identity]:
    """Recreate waits for the end of pods, which are two steps away."""
    owner = controller_of(pod)
    if owner is None or owner.kind != "ReplicaSet":
        return ()
    namespace = pod.metadata.namespace or ""
    replicaset = cluster.find(ReplicaSet, (namespace, owner.name))
    above = controller_of(replicaset) if replicaset is not None else None
    return [(namespace, above.name)] if above is not None else ()


def _selects(obj: Any, child: KubeObject) -> bool:
    return pods.selects(obj.spec.selector, child.metadata.labels)


KINDS: tuple[Kind[Any], ...] = (
    Kind(Deployment, "deployment-controller", _deployment, (ReplicaSet,), _selects, {Pod: _deployment_of}),
    Kind(ReplicaSet, "replicaset-controller", _replicaset, (Pod,), _selects),
    Kind(
        DaemonSet,
        "daemonset-controller",
        _daemonset,
        (Pod, ControllerRevision),
        _selects,
        {Node: _every_daemonset},
        {Node: _of_node},
    ),
    Kind(
        StatefulSet,
        "statefulset-controller",
        _statefulset,
        (Pod, ControllerRevision),
        _selects,
        {PersistentVolumeClaim: _set_of_claim},
    ),
    Kind(Job, "job-controller", _job, (Pod,), _selects),
    Kind(CronJob, "cronjob-controller", _cronjob, (Job,)),
)
