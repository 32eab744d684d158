"""The roles and bindings that every cluster has (plugin/pkg/auth/authorizer/rbac/bootstrappolicy), for the kinds that
this server has: `cluster-admin`, `admin`, `edit` and `view`, which aggregate, and what everybody may ask."""

from __future__ import annotations

from collections.abc import Sequence

from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.rbac import GROUP, ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject

_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATION = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
_WORKLOADS: dict[str, Sequence[str]] = {
    "": [
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ],
    "apps": [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ],
    "autoscaling.k8s.io": ("verticalpodautoscalers", "verticalpodautoscalers/status"),
    "batch": ("cronjobs", "cronjobs/status", "jobs", "jobs/status"),
    "discovery.k8s.io": ("endpointslices",),
    "metrics.k8s.io": ("pods", "nodes"),
    "networking.k8s.io": ("ingresses", "ingresses/status", "networkpolicies"),
    "policy": ("poddisruptionbudgets", "poddisruptionbudgets/status"),
}
_VIEWED_ONLY = frozenset({"bindings", "limitranges", "namespaces/status", "resourcequotas", "resourcequotas/status"})


def _rule(verbs: Sequence[str], group: str, resources: Sequence[str]) -> PolicyRule:
    return PolicyRule(verbs=list(verbs), api_groups=[group], resources=list(resources))


def _meta(name: str, **labels: str) -> ObjectMeta:
    return ObjectMeta(name=name, labels=_LABEL | labels, annotations=dict(_ANNOTATION))


def _part(level: str, rules: Sequence[PolicyRule]) -> ClusterRole:
    """What is taken in by the role of that level."""
    meta = _meta(f"system:aggregate-to-{level}")
    meta.labels[f"{_AGGREGATE}{level}"] = "true"
    return ClusterRole(metadata=meta, rules=list(rules))


def _level(name: str, taken_in_by: str = "") -> ClusterRole:
    meta = _meta(name)
    if taken_in_by:
        meta.labels[f"{_AGGREGATE}{taken_in_by}"] = "true"
    selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
    return ClusterRole(metadata=meta, aggregation_rule={"clusterRoleSelectors": selectors})


def _edited() -> list[PolicyRule]:
    found = []
    for group, resources in _WORKLOADS.items():
        changed = [item for item in resources if item not in _VIEWED_ONLY and not item.endswith("/status")]
        if group != "metrics.k8s.io":
            found.append(_rule(WRITE, group, [item for item in changed if item != "pods/log"]))
    return [
        *found,
        _rule(("create",), "", ["pods/binding", "pods/eviction", "serviceaccounts/token"]),
        _rule(("get", "patch", "update"), "", ["pods/resize"]),
        _rule((*READ, *WRITE), "", ["secrets"]),
        _rule(("impersonate",), "", ["serviceaccounts"]),
        _rule((*READ, *WRITE), "coordination.k8s.io", ["leases"]),
    ]


def _viewed() -> list[PolicyRule]:
    return [_rule(READ, group, resources) for group, resources in _WORKLOADS.items()] + [
        _rule(READ, "", ["namespaces"])
    ]


def _administered() -> list[PolicyRule]:
    return [
        _rule(("create",), "authorization.k8s.io", ["localsubjectaccessreviews"]),
        _rule((*READ, *WRITE), GROUP, ["rolebindings", "roles"]),
    ]


_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]
_VERSION = ["/version", "/version/"]
_ALL = "*"

ROLES: tuple[ClusterRole, ...] = (
    ClusterRole(
        metadata=_meta("cluster-admin"),
        rules=[
            PolicyRule(verbs=[_ALL], api_groups=[_ALL], resources=[_ALL]),
            PolicyRule(verbs=[_ALL], non_resource_urls=[_ALL]),
        ],
    ),
    _level("admin"),
    _level("edit", "admin"),
    _level("view", "edit"),
    _part("admin", _administered()),
    _part("edit", _edited()),
    _part("view", _viewed()),
    ClusterRole(
        metadata=_meta("system:basic-user"),
        rules=[
            _rule(("create",), "authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            _rule(("create",), "authentication.k8s.io", ["selfsubjectreviews"]),
        ],
    ),
    ClusterRole(
        metadata=_meta("system:discovery"),
        rules=[PolicyRule(verbs=["get"], non_resource_urls=[*_DISCOVERY, *_VERSION])],
    ),
)


def _binding(name: str, group: str) -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=_meta(name),
        subjects=[Subject(kind="Group", api_group=GROUP, name=group)],
        role_ref=RoleRef(api_group=GROUP, kind="ClusterRole", name=name),
    )


BINDINGS: tuple[ClusterRoleBinding, ...] = (
    _binding("cluster-admin", "system:masters"),
    _binding("system:basic-user", "system:authenticated"),
    _binding("system:discovery", "system:authenticated"),
)

DEFAULTS: tuple[KubeObject, ...] = (*ROLES, *BINDINGS)
