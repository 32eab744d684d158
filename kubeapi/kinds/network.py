"""Service, Endpoints, EndpointSlice, Ingress, IngressClass, NetworkPolicy: stored so that charts install."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi import labelselector, names
from kubeapi.ages import age
from kubeapi.columns import NONE
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, duplicate, in_range, invalid, required
from kubeapi.kinds.common import STATUS, ObjectStrategy, one_of, pairs, wide
from kubeapi.network import (
    DISCOVERY,
    NETWORKING,
    Endpoints,
    EndpointSlice,
    Ingress,
    IngressClass,
    LoadBalancerStatus,
    NetworkPolicy,
    Service,
    ServicePort,
)
from kubeapi.podvalidation import PROTOCOLS
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_MAX_ENDPOINTS_SHOWN = 3


# Service


def _default_service(obj: Service) -> None:
    """There is no service network, so a service that asks for no address gets none: `clusterIP: None` (headless)."""
    spec = obj.spec
    spec.type = spec.type or "ClusterIP"
    spec.session_affinity = spec.session_affinity or "None"
    for port in spec.ports:
        port.protocol = port.protocol or "TCP"
        port.target_port = port.port if port.target_port is None else port.target_port
    if spec.type == "ExternalName":
        return
    spec.cluster_ip = spec.cluster_ip or "None"
    spec.cluster_ips = spec.cluster_ips or [spec.cluster_ip]
    spec.internal_traffic_policy = spec.internal_traffic_policy or "Cluster"
    if spec.type in ("LoadBalancer", "NodePort"):
        spec.external_traffic_policy = spec.external_traffic_policy or "Cluster"


def _validate_service(obj: Service) -> Sequence[Cause]:
    spec = obj.spec
    causes = one_of("spec.type", spec.type, _SERVICE_TYPES)
    headless = spec.cluster_ip == "None"
    if not spec.ports and not headless and spec.type != "ExternalName":
        causes.append(required("spec.ports"))
    if spec.type == "ExternalName":
        name = (spec.external_name or "").removesuffix(".")
        if not name:
            causes.append(required("spec.externalName"))
        causes += [invalid("spec.externalName", name, problem) for problem in names.dns_subdomain(name) if name]
    seen: set[str] = set()
    for index, port in enumerate(spec.ports):
        causes += _validate_port(port, f"spec.ports[{index}]", len(spec.ports) > 1, seen)
    return [*causes, *one_of("spec.sessionAffinity", spec.session_affinity, ("ClientIP", "None"))]


def _validate_port(port: ServicePort, path: str, named: bool, seen: set[str]) -> Sequence[Cause]:
    causes = []
    if not port.name:
        if named:
            causes.append(required(f"{path}.name"))
    else:
        causes += [invalid(f"{path}.name", port.name, problem) for problem in names.dns_label(port.name)]
        if port.name in seen:
            causes.append(duplicate(f"{path}.name", port.name))
        seen.add(port.name)
    if not 1 <= port.port <= 65535:
        causes.append(invalid(f"{path}.port", port.port, in_range(1, 65535)))
    causes += one_of(f"{path}.protocol", port.protocol, PROTOCOLS)
    target = port.target_port
    if isinstance(target, int) and not 1 <= target <= 65535:
        causes.append(invalid(f"{path}.targetPort", target, in_range(1, 65535)))
    return causes


def _external(obj: Service) -> str:
    addresses = [item.ip or item.hostname or "" for item in obj.status.load_balancer.ingress]
    listed = ",".join([*addresses, *obj.spec.external_ips])
    match obj.spec.type:
        case "ExternalName":
            return obj.spec.external_name or NONE
        case "LoadBalancer":
            return listed or "<pending>"
        case _:
            return ",".join(obj.spec.external_ips) or NONE


def _service_cells(obj: Service, now: datetime) -> Sequence[Cell]:
    ports = [
        f"{port.port}:{port.node_port}/{port.protocol}" if port.node_port else f"{port.port}/{port.protocol}"
        for port in obj.spec.ports
    ]
    return (
        obj.metadata.name,
        obj.spec.type or "",
        obj.spec.cluster_ip or NONE,
        _external(obj),
        ",".join(ports) or NONE,
        age(obj.metadata.creation_timestamp, now),
        pairs(obj.spec.selector),
    )


SERVICES: ResourceType[Service] = ResourceType(
    model=Service,
    kind="Service",
    plural="services",
    singular="service",
    short_names=("svc",),
    categories=("all",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Type"),
            Column("Cluster-IP"),
            Column("External-IP"),
            Column("Port(s)"),
            AGE_COLUMN,
            wide("Selector"),
        ),
        _service_cells,
    ),
    fields={
        "spec.clusterIP": lambda obj: obj.spec.cluster_ip or "",
        "spec.type": lambda obj: obj.spec.type or "",
    },
    strategy=ObjectStrategy(validate=_validate_service, default=_default_service, generation=False),
)


# Endpoints, EndpointSlice


def _shortened(items: Sequence[str]) -> str:
    more = len(items) - _MAX_ENDPOINTS_SHOWN
    listed = ",".join(items[:_MAX_ENDPOINTS_SHOWN])
    return f"{listed} + {more} more..." if more > 0 else listed or NONE


def _endpoints_cells(obj: Endpoints, now: datetime) -> Sequence[Cell]:
    listed = []
    for subset in obj.subsets:
        ports = [f":{port.port}" for port in subset.ports] or [""]
        listed += [f"{address.ip}{port}" for port in ports for address in subset.addresses]
    return (obj.metadata.name, _shortened(listed), age(obj.metadata.creation_timestamp, now))


ENDPOINTS: ResourceType[Endpoints] = ResourceType(
    model=Endpoints,
    kind="Endpoints",
    plural="endpoints",
    singular="endpoints",
    short_names=("ep",),
    table=Table((NAME_COLUMN, Column("Endpoints"), AGE_COLUMN), _endpoints_cells),
    strategy=ObjectStrategy(generation=False),
)


def _validate_slice(obj: EndpointSlice) -> Sequence[Cause]:
    if not obj.address_type:
        return [required("addressType")]
    return one_of("addressType", obj.address_type, ("FQDN", "IPv4", "IPv6"))


def _slice_update(new: EndpointSlice, old: EndpointSlice) -> Sequence[Cause]:
    return [] if new.address_type == old.address_type else [invalid("addressType", new.address_type, IMMUTABLE)]


def _slice_cells(obj: EndpointSlice, now: datetime) -> Sequence[Cell]:
    ports = ["*" if port.port is None else str(port.port) for port in obj.ports]
    addresses = [address for endpoint in obj.endpoints for address in endpoint.addresses]
    return (
        obj.metadata.name,
        obj.address_type,
        _shortened(ports) if ports else "<unset>",
        _shortened(addresses) if addresses else "<unset>",
        age(obj.metadata.creation_timestamp, now),
    )


ENDPOINT_SLICES: ResourceType[EndpointSlice] = ResourceType(
    model=EndpointSlice,
    kind="EndpointSlice",
    plural="endpointslices",
    singular="endpointslice",
    group=DISCOVERY,
    table=Table((NAME_COLUMN, Column("AddressType"), Column("Ports"), Column("Endpoints"), AGE_COLUMN), _slice_cells),
    strategy=ObjectStrategy(validate=_validate_slice, compare=_slice_update),
)


# Ingress


def _validate_ingress(obj: Ingress) -> Sequence[Cause]:
    spec = obj.spec
    if not spec.rules and spec.default_backend is None:
        return [invalid("spec", spec.to_dict(), "either `defaultBackend` or `rules` must be specified")]
    causes: list[Cause] = []
    for index, rule in enumerate(spec.rules):
        path = f"spec.rules[{index}]"
        name = (rule.host or "").removeprefix("*.")
        causes += [invalid(f"{path}.host", rule.host, problem) for problem in names.dns_subdomain(name) if name]
        given = (rule.http or {}).get("paths")
        if rule.http is not None and not given:
            causes.append(required(f"{path}.http.paths"))
        for at, item in enumerate(given if isinstance(given, list) else ()):
            if isinstance(item, dict) and not item.get("pathType"):
                where = f"{path}.http.paths[{at}].pathType"
                causes.append(required(where, "pathType must be specified"))
    return causes


def _balancer(status: LoadBalancerStatus) -> str:
    return ",".join(item.ip or item.hostname or "" for item in status.ingress)


def _ingress_cells(obj: Ingress, now: datetime) -> Sequence[Cell]:
    hosts = [rule.host for rule in obj.spec.rules if rule.host]
    more = len(hosts) - _MAX_ENDPOINTS_SHOWN
    listed = ",".join(hosts[:_MAX_ENDPOINTS_SHOWN]) or "*"
    return (
        obj.metadata.name,
        obj.spec.ingress_class_name or NONE,
        f"{listed} + {more} more..." if more > 0 else listed,
        _balancer(obj.status.load_balancer),
        "80, 443" if obj.spec.tls else "80",
        age(obj.metadata.creation_timestamp, now),
    )


INGRESSES: ResourceType[Ingress] = ResourceType(
    model=Ingress,
    kind="Ingress",
    plural="ingresses",
    singular="ingress",
    group=NETWORKING,
    short_names=("ing",),
    subresources=(STATUS,),
    table=Table(
        (NAME_COLUMN, Column("Class"), Column("Hosts"), Column("Address"), Column("Ports"), AGE_COLUMN), _ingress_cells
    ),
    strategy=ObjectStrategy(validate=_validate_ingress),
)


def _ingress_class_cells(obj: IngressClass, now: datetime) -> Sequence[Cell]:
    default = obj.metadata.annotations.get(_DEFAULT_INGRESS_CLASS) == "true"
    given = obj.spec.parameters
    parameters = f"{given.get('kind')}.{given.get('apiGroup')}/{given.get('name')}" if given else NONE
    return (
        f"{obj.metadata.name} (default)" if default else obj.metadata.name,
        obj.spec.controller,
        parameters,
        age(obj.metadata.creation_timestamp, now),
    )


INGRESS_CLASSES: ResourceType[IngressClass] = ResourceType(
    model=IngressClass,
    kind="IngressClass",
    plural="ingressclasses",
    singular="ingressclass",
    group=NETWORKING,
    namespaced=False,
    table=Table((NAME_COLUMN, Column("Controller"), Column("Parameters"), AGE_COLUMN), _ingress_class_cells),
    strategy=ObjectStrategy(namespaced=False),
)


# NetworkPolicy


def _default_policy(obj: NetworkPolicy) -> None:
    if not obj.spec.policy_types:
        obj.spec.policy_types = ["Ingress", "Egress"] if obj.spec.egress else ["Ingress"]


def _validate_policy(obj: NetworkPolicy) -> Sequence[Cause]:
    causes = labelselector.validate(obj.spec.pod_selector, "spec.podSelector")
    for index, kind in enumerate(obj.spec.policy_types):
        causes += one_of(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
    return causes


def _policy_cells(obj: NetworkPolicy, now: datetime) -> Sequence[Cell]:
    selector = labelselector.to_text(obj.spec.pod_selector)
    return (obj.metadata.name, selector, age(obj.metadata.creation_timestamp, now))


NETWORK_POLICIES: ResourceType[NetworkPolicy] = ResourceType(
    model=NetworkPolicy,
    kind="NetworkPolicy",
    plural="networkpolicies",
    singular="networkpolicy",
    group=NETWORKING,
    short_names=("netpol",),
    table=Table((NAME_COLUMN, Column("Pod-Selector"), AGE_COLUMN), _policy_cells),
    strategy=ObjectStrategy(validate=_validate_policy, default=_default_policy),
)

KINDS = (ENDPOINT_SLICES, ENDPOINTS, INGRESS_CLASSES, INGRESSES, NETWORK_POLICIES, SERVICES)
