"""All kinds that the API serves. Adding one is adding a declaration here."""

from __future__ import annotations

from typing import Any

from kubeapi import columns, schemarules, strategies
from kubeapi.core import (
    ConfigMap,
    Event,
    Lease,
    LimitRange,
    Namespace,
    Node,
    Pod,
    Secret,
    ServiceAccount,
)
from kubeapi.kinds import (
    admissionpolicies,
    apiextensions,
    apps,
    autoscaling,
    batch,
    metrics,
    network,
    policies,
    rbac,
    storage,
    verticalautoscaling,
    webhooks,
)
from kubeapi.resource import VERBS, Registry, ResourceType, Subresource

_OBJECT_VERBS = ("get", "patch", "update")
_STATUS = Subresource("status", _OBJECT_VERBS)


def _host_network(pod: Pod) -> str:
    return "true" if pod.spec.host_network else "false"


PODS: ResourceType[Pod] = ResourceType(
    model=Pod,
    kind="Pod",
    plural="pods",
    singular="pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", ("create", "get"), kind="PodAttachOptions"),
        Subresource("binding", ("create",), kind="Binding"),
        Subresource("eviction", ("create",), kind="Eviction", group="policy", version="v1"),
        Subresource("exec", ("create", "get"), kind="PodExecOptions"),
        Subresource("log", ("get",)),
        Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions"),
        Subresource("resize", _OBJECT_VERBS),
        _STATUS,
    ),
    table=columns.PODS,
    fields={
        "spec.nodeName": lambda pod: pod.spec.node_name or "",
        "spec.restartPolicy": lambda pod: pod.spec.restart_policy or "",
        "spec.schedulerName": lambda pod: pod.spec.scheduler_name or "",
        "spec.serviceAccountName": lambda pod: pod.spec.service_account_name or "",
        "spec.hostNetwork": _host_network,
        "status.phase": lambda pod: pod.status.phase or "",
        "status.podIP": lambda pod: pod.status.pod_ip or "",
        "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name or "",
    },
    strategy=strategies.PodStrategy(),
)

NODES: ResourceType[Node] = ResourceType(
    model=Node,
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    short_names=("no",),
    subresources=(_STATUS,),
    table=columns.NODES,
    fields={"spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false"},
    strategy=strategies.NodeStrategy(),
)

NAMESPACES: ResourceType[Namespace] = ResourceType(
    model=Namespace,
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    subresources=(Subresource("finalize", ("update",)), _STATUS),
    table=columns.NAMESPACES,
    fields={"status.phase": lambda namespace: namespace.status.phase or ""},
    strategy=strategies.NamespaceStrategy(),
)

EVENTS: ResourceType[Event] = ResourceType(
    model=Event,
    kind="Event",
    plural="events",
    singular="event",
    short_names=("ev",),
    table=columns.EVENTS,
    fields={
        "involvedObject.kind": lambda event: event.involved_object.kind or "",
        "involvedObject.namespace": lambda event: event.involved_object.namespace or "",
        "involvedObject.name": lambda event: event.involved_object.name or "",
        "involvedObject.uid": lambda event: event.involved_object.uid or "",
        "involvedObject.apiVersion": lambda event: event.involved_object.api_version or "",
        "involvedObject.resourceVersion": lambda event: event.involved_object.resource_version or "",
        "involvedObject.fieldPath": lambda event: event.involved_object.field_path or "",
        "reason": lambda event: event.reason or "",
        "reportingComponent": lambda event: event.reporting_component or "",
        "source": lambda event: (event.source.component if event.source else None) or "",
        "type": lambda event: event.type or "",
    },
    strategy=strategies.EVENT,
)

CONFIGMAPS: ResourceType[ConfigMap] = ResourceType(
    model=ConfigMap,
    kind="ConfigMap",
    plural="configmaps",
    singular="configmap",
    short_names=("cm",),
    table=columns.CONFIGMAPS,
    strategy=strategies.CONFIGMAP,
)

SECRETS: ResourceType[Secret] = ResourceType(
    model=Secret,
    kind="Secret",
    plural="secrets",
    singular="secret",
    table=columns.SECRETS,
    fields={"type": lambda secret: secret.type or ""},
    strategy=strategies.SECRET,
)

SERVICE_ACCOUNTS: ResourceType[ServiceAccount] = ResourceType(
    model=ServiceAccount,
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    short_names=("sa",),
    subresources=(Subresource("token", ("create",), kind="TokenRequest", group="authentication.k8s.io", version="v1"),),
    table=columns.SERVICE_ACCOUNTS,
    strategy=strategies.PlainStrategy(strategies.namespaced),
)

LIMIT_RANGES: ResourceType[LimitRange] = ResourceType(
    model=LimitRange,
    kind="LimitRange",
    plural="limitranges",
    singular="limitrange",
    short_names=("limits",),
    table=columns.LIMIT_RANGES,
    strategy=strategies.LIMIT_RANGE,
)

LEASES: ResourceType[Lease] = ResourceType(
    model=Lease,
    kind="Lease",
    plural="leases",
    singular="lease",
    group="coordination.k8s.io",
    table=columns.LEASES,
    strategy=strategies.LEASE,
)

_BUILT_IN: tuple[ResourceType[Any], ...] = (
    CONFIGMAPS,
    EVENTS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    *admissionpolicies.KINDS,
    *apps.KINDS,
    *autoscaling.KINDS,
    *batch.KINDS,
    *metrics.KINDS,
    *network.KINDS,
    *policies.KINDS,
    *rbac.KINDS,
    *storage.KINDS,
    *verticalautoscaling.KINDS,
    *webhooks.KINDS,
)

CUSTOM_RESOURCE_DEFINITIONS = apiextensions.declaration(frozenset(item.key for item in _BUILT_IN), schemarules.check)

ALL: tuple[ResourceType[Any], ...] = (*_BUILT_IN, CUSTOM_RESOURCE_DEFINITIONS)

REGISTRY = Registry(*ALL)
