"""Objects as nobody would write them, after the OpenAPI schemas of our own kinds: mostly the right shape, often an odd
value, sometimes the wrong type."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from kubeapi.resource import ResourceType
from kubeapi.resources import REGISTRY
from kubeapi.server.openapi import Documents

Json = Any
Strategy = st.SearchStrategy[Json]

_DOCUMENTS = Documents(REGISTRY)
_MOST_NESTED = 7

NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 3, 100, 65536, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 2**64 - 1]
)
ODD_NUMBERS = NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-10, 10)
_NAMES = (
    "a",
    "web",
    "c1",
    "default",
    "x" * 64,
    "x" * 254,
    "A",
    "-",
    "..",
    "a/b",
    "a.b/c",
    "http",
    "²",
    "\0",
    "\n",
    "%s",
)
_AMOUNTS = (
    "1",
    "100m",
    "1Gi",
    "-1",
    "0",
    "1e9999",
    "1e-9999",
    "9" * 40,
    "1Ki1",
    ".5",
    "1e3",
    "²",
    "",
    "1 ",
    "1.0000000001n",
)
_MOMENTS = (
    "2026-11-30T21:59:26Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-11-30T21:59:26.999999Z",
)
_CHOICES = (
    "Always", "Never", "OnFailure", "RollingUpdate", "Recreate", "OnDelete", "Guaranteed", "True", "False", "Unknown",
    "Exists", "In", "NotIn", "Gt", "NoExecute", "NoSchedule", "TCP", "UDP", "ClusterIP", "None", "Indexed", "Parallel",
    "Running", "Failed", "Succeeded", "Pending", "Orphan", "Foreground", "*/5 * * * *", "@every 1h", "0 0 31 2 *",
    "25%", "0%", "101%", "99999999999%", "10.0.0.1", "::1", "10.0.0.0/8", "Pod", "v1", "apps/v1", "*", "cpu", "memory",
)  # fmt: skip
TEXTS = st.sampled_from((*_NAMES, *_AMOUNTS, *_MOMENTS, *_CHOICES)) | st.text(max_size=6)
KEYS = st.sampled_from(("cpu", "memory", "pods", "a", "a.b/c", "limits.cpu", "", "²", "kubernetes.io/x", "x" * 64))
SCALARS = st.none() | st.booleans() | ODD_NUMBERS | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


def rarely(odd: Strategy, usual: Strategy) -> Strategy:
    """Once in a hundred values: an object has dozens, and one that does not fit its type is refused before anything
    else looks at it."""
    return st.integers(0, 99).flatmap(lambda chance: odd if chance == 99 else usual)


@cache
def schemas(group_version: str) -> dict[str, Any]:
    group, _, version = group_version.rpartition("/")
    document = _DOCUMENTS.document(f"apis/{group}/{version}" if group else f"api/{version}")
    assert document is not None
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def like(schema: Any, named: dict[str, Any], depth: int = 0) -> Strategy:
    """Values of a schema; its references are looked up in `named`."""
    return rarely(ANYTHING, _like(schema, named, depth))


def _like(schema: Any, named: dict[str, Any], depth: int) -> Strategy:
    for part in schema.get("allOf", ()):
        schema = {**schema, **part}
    if "$ref" in schema:
        schema = named[schema["$ref"].rpartition("/")[2]]
    if depth > _MOST_NESTED:
        return SCALARS
    match schema.get("type"):
        case "string":
            return st.sampled_from(_MOMENTS) if schema.get("format") == "date-time" else TEXTS
        case "integer" | "number":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(st.deferred(lambda: like(schema.get("items", {}), named, depth + 1)), max_size=2)
    return _object(schema, named, depth)


def _object(schema: Any, named: dict[str, Any], depth: int) -> Strategy:
    fields = schema.get("properties", {})
    if not fields:
        values = schema.get("additionalProperties")
        inner = like(values, named, depth + 1) if isinstance(values, dict) else SCALARS
        return st.dictionaries(KEYS, inner, max_size=2)
    most = 4 if depth < 2 else 2
    chosen = st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True)

    def made(names: list[str]) -> Strategy:
        return st.fixed_dictionaries({name: like(fields[name], named, depth + 1) for name in names})

    return chosen.flatmap(made)


LABELS = {"app": "web"}
_POD = {"containers": [{"name": "c1", "image": "tiny"}]}
_TEMPLATE = {"metadata": {"labels": LABELS}, "spec": _POD}
_WORKLOAD = {"selector": {"matchLabels": LABELS}, "template": _TEMPLATE}
_JOB = {"template": {"spec": _POD | {"restartPolicy": "Never"}}}
_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CRD = {
    "group": "b.example",
    "names": {"plural": "web", "kind": "Web"},
    "scope": "Namespaced",
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
}
_BODIES: dict[str, dict[str, Any]] = {
    "pods": {"spec": _POD},
    "replicationcontrollers": {"spec": {"selector": LABELS, "template": _TEMPLATE}},
    "deployments": {"spec": _WORKLOAD},
    "replicasets": {"spec": _WORKLOAD},
    "daemonsets": {"spec": _WORKLOAD},
    "statefulsets": {"spec": _WORKLOAD | {"serviceName": "web"}},
    "controllerrevisions": {"revision": 1, "data": {}},
    "jobs": {"spec": _JOB},
    "cronjobs": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": _JOB}}},
    "horizontalpodautoscalers": {
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 3}
    },
    "services": {"spec": {"ports": [{"port": 80}]}},
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    "networkpolicies": {"spec": {"podSelector": {}}},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "persistentvolumes": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    },
    "storageclasses": {"provisioner": "a.b/c"},
    "runtimeclasses": {"handler": "a"},
    "priorityclasses": {"value": 1},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
    "rolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}},
    "clusterrolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}},
    "verticalpodautoscalers": {"spec": {"targetRef": {"kind": "Pod", "name": "web", "apiVersion": "v1"}}},
    "customresourcedefinitions": {"spec": _CRD},
    "events": {"involvedObject": {"kind": "Pod", "name": "web", "namespace": "demo"}},
}


def name_of(resource: ResourceType[Any]) -> str:
    return "web.b.example" if resource.plural == "customresourcedefinitions" else "web"


def plain(resource: ResourceType[Any]) -> dict[str, Any]:
    """One that is accepted."""
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    return identity | {"metadata": {"name": name_of(resource), "labels": LABELS}} | _BODIES.get(resource.plural, {})


def objects(resource: ResourceType[Any]) -> Strategy:
    """Bodies of a kind: one that would be accepted, with random parts in it."""
    named = schemas(resource.api_version)
    schema = next(
        schema
        for schema in named.values()
        if {"group": resource.group, "version": resource.version, "kind": resource.kind}
        in schema.get("x-kubernetes-group-version-kind", ())
    )

    def into_plain(body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        merged = _merged(plain(resource), body)
        identity = {"apiVersion": resource.api_version, "kind": resource.kind}
        meta = merged["metadata"] if isinstance(merged["metadata"], dict) else {}
        unset = {key: value for key, value in meta.items() if key not in ("uid", "resourceVersion", "namespace")}
        return merged | identity | {"metadata": unset | {"name": name_of(resource)}}

    return rarely(ANYTHING, _like(schema, named, 0).map(into_plain))


def _merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return base | {key: _merged(base.get(key), value) for key, value in more.items()}
    if isinstance(base, list) and isinstance(more, list) and base and more:
        return [_merged(base[0], more[0]), *more[1:]]
    return more


KINDS = [resource for resource in REGISTRY if "create" in resource.verbs]
