"""Services, Endpoints, Ingresses and network policies: stored so that charts install; no network follows them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from kubeapi.core import ObjectReference
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import Condition, KubeModel, KubeObject
from kubeapi.workloads import IntOrString

NETWORKING = "networking.k8s.io"
DISCOVERY = "discovery.k8s.io"


class ServicePort(KubeModel):
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None
    port: int = 0
    target_port: IntOrString | None = None
    node_port: int | None = None


class ServiceSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"trafficDistribution"})
    ports: list[ServicePort] = Field(default_factory=list)
    selector: dict[str, str] = Field(default_factory=dict)
    cluster_ip: str | None = None
    cluster_ips: list[str] = Field(default_factory=list)
    type: str | None = None
    """`ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`."""
    external_ips: list[str] = Field(default_factory=list)
    session_affinity: str | None = None
    load_balancer_ip: str | None = None
    load_balancer_source_ranges: list[str] = Field(default_factory=list)
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    publish_not_ready_addresses: bool | None = None
    session_affinity_config: dict[str, Any] | None = None
    ip_families: list[str] = Field(default_factory=list)
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None


class LoadBalancerIngress(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"ipMode", "ports"})
    ip: str | None = None
    hostname: str | None = None


class LoadBalancerStatus(KubeModel):
    ingress: list[LoadBalancerIngress] = Field(default_factory=list)


class ServiceStatus(KubeModel):
    load_balancer: LoadBalancerStatus = Field(default_factory=LoadBalancerStatus)
    conditions: list[Condition] = Field(default_factory=list)


class Service(KubeObject):
    api_version: str = "v1"
    kind: str = "Service"
    spec: ServiceSpec = Field(default_factory=ServiceSpec)
    status: ServiceStatus = Field(default_factory=ServiceStatus)


class EndpointAddress(KubeModel):
    ip: str = ""
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(KubeModel):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointSubset(KubeModel):
    addresses: list[EndpointAddress] = Field(default_factory=list)
    not_ready_addresses: list[EndpointAddress] = Field(default_factory=list)
    ports: list[EndpointPort] = Field(default_factory=list)


class Endpoints(KubeObject):
    api_version: str = "v1"
    kind: str = "Endpoints"
    subsets: list[EndpointSubset] = Field(default_factory=list)


class Endpoint(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"deprecatedTopology"})
    addresses: list[str] = Field(default_factory=list)
    conditions: dict[str, Any] | None = None
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: dict[str, Any] | None = None


class EndpointSlice(KubeObject):
    api_version: str = f"{DISCOVERY}/v1"
    kind: str = "EndpointSlice"
    address_type: str = ""
    endpoints: list[Endpoint] = Field(default_factory=list)
    ports: list[EndpointPort] = Field(default_factory=list)


class IngressRule(KubeModel):
    host: str | None = None
    http: dict[str, Any] | None = None


class IngressTLS(KubeModel):
    hosts: list[str] = Field(default_factory=list)
    secret_name: str | None = None


class IngressSpec(KubeModel):
    ingress_class_name: str | None = None
    default_backend: dict[str, Any] | None = None
    tls: list[IngressTLS] = Field(default_factory=list)
    rules: list[IngressRule] = Field(default_factory=list)


class IngressStatus(KubeModel):
    load_balancer: LoadBalancerStatus = Field(default_factory=LoadBalancerStatus)


class Ingress(KubeObject):
    api_version: str = f"{NETWORKING}/v1"
    kind: str = "Ingress"
    spec: IngressSpec = Field(default_factory=IngressSpec)
    status: IngressStatus = Field(default_factory=IngressStatus)


class IngressClassSpec(KubeModel):
    controller: str = ""
    parameters: dict[str, Any] | None = None


class IngressClass(KubeObject):
    api_version: str = f"{NETWORKING}/v1"
    kind: str = "IngressClass"
    spec: IngressClassSpec = Field(default_factory=IngressClassSpec)


class NetworkPolicySpec(KubeModel):
    pod_selector: LabelSelector = Field(default_factory=LabelSelector)
    ingress: list[dict[str, Any]] = Field(default_factory=list)
    egress: list[dict[str, Any]] = Field(default_factory=list)
    policy_types: list[str] = Field(default_factory=list)


class NetworkPolicy(KubeObject):
    api_version: str = f"{NETWORKING}/v1"
    kind: str = "NetworkPolicy"
    spec: NetworkPolicySpec = Field(default_factory=NetworkPolicySpec)
