"""rbac.authorization.k8s.io/v1 (pkg/apis/rbac/validation)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kubeapi.ages import UNKNOWN, age
from kubeapi.errors import Cause
from kubeapi.fields import invalid, not_supported, required
from kubeapi.kinds.common import wide
from kubeapi.names import path_segment
from kubeapi.rbac import GROUP, ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.strategies import PlainStrategy
from kubeapi.validation import validate_metadata, validate_metadata_update

_SUBJECTS = ("ServiceAccount", "User", "Group")
AnyRole = Role | ClusterRole
AnyBinding = RoleBinding | ClusterRoleBinding


def _validate_role(obj: AnyRole) -> Sequence[Cause]:
    namespaced = isinstance(obj, Role)
    causes = validate_metadata(obj.metadata, namespaced=namespaced, name_rule=path_segment)
    for index, rule in enumerate(obj.rules):
        path = f"rules[{index}]"
        if not rule.verbs:
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.non_resource_urls:
            urls = rule.non_resource_urls
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            if rule.api_groups or rule.resources or rule.resource_names:
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            continue
        if not rule.api_groups:
            causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.resources:
            causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _default_binding(obj: AnyBinding) -> None:
    obj.role_ref.api_group = obj.role_ref.api_group or GROUP
    for subject in obj.subjects:
        if subject.kind in ("User", "Group"):
            subject.api_group = subject.api_group or GROUP


def _validate_binding(obj: AnyBinding) -> Sequence[Cause]:
    namespaced = isinstance(obj, RoleBinding)
    causes = validate_metadata(obj.metadata, namespaced=namespaced, name_rule=path_segment)
    ref = obj.role_ref
    if ref.api_group != GROUP:
        causes.append(not_supported("roleRef.apiGroup", ref.api_group, (GROUP,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if ref.kind not in kinds:
        causes.append(not_supported("roleRef.kind", ref.kind, kinds))
    if not ref.name:
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(obj.subjects):
        causes += _validate_subject(subject, f"subjects[{index}]", namespaced)
    return causes


def _validate_subject(subject: Subject, path: str, namespaced: bool) -> Sequence[Cause]:
    causes = []
    if not subject.name:
        causes.append(required(f"{path}.name"))
    if subject.kind not in _SUBJECTS:
        causes.append(not_supported(f"{path}.kind", subject.kind, _SUBJECTS))
    elif subject.kind == "ServiceAccount":
        if subject.api_group:
            causes.append(not_supported(f"{path}.apiGroup", subject.api_group, ("",)))
        if not namespaced and not subject.namespace:
            causes.append(required(f"{path}.namespace"))
    elif subject.api_group != GROUP:
        causes.append(not_supported(f"{path}.apiGroup", subject.api_group, (GROUP,)))
    return causes


def _binding_update(new: AnyBinding, old: AnyBinding) -> Sequence[Cause]:
    causes = [*validate_metadata_update(new, old), *_validate_binding(new)]
    if new.role_ref != old.role_ref:
        causes.append(invalid("roleRef", new.role_ref.to_dict(), "cannot change roleRef"))
    return causes


def _role_cells(obj: AnyRole, now: datetime) -> Sequence[Cell]:
    return (obj.metadata.name, obj.metadata.creation_timestamp or UNKNOWN)


def _binding_cells(obj: AnyBinding, now: datetime) -> Sequence[Cell]:
    by_kind: dict[str, list[str]] = {kind: [] for kind in _SUBJECTS}
    for subject in obj.subjects:
        name = f"{subject.namespace}/{subject.name}" if subject.kind == "ServiceAccount" else subject.name
        by_kind.setdefault(subject.kind, []).append(name)
    return (
        obj.metadata.name,
        f"{obj.role_ref.kind}/{obj.role_ref.name}",
        age(obj.metadata.creation_timestamp, now),
        ", ".join(by_kind["User"]),
        ", ".join(by_kind["Group"]),
        ", ".join(by_kind["ServiceAccount"]),
    )


_ROLE_TABLE: Table[Any] = Table((NAME_COLUMN, Column("Created At")), _role_cells)
_BINDING_TABLE: Table[Any] = Table(
    (NAME_COLUMN, Column("Role"), AGE_COLUMN, wide("Users"), wide("Groups"), wide("ServiceAccounts")), _binding_cells
)

ROLES: ResourceType[Role] = ResourceType(
    model=Role,
    kind="Role",
    plural="roles",
    singular="role",
    group=GROUP,
    table=_ROLE_TABLE,
    strategy=PlainStrategy(_validate_role),
)
CLUSTER_ROLES: ResourceType[ClusterRole] = ResourceType(
    model=ClusterRole,
    kind="ClusterRole",
    plural="clusterroles",
    singular="clusterrole",
    group=GROUP,
    namespaced=False,
    table=_ROLE_TABLE,
    strategy=PlainStrategy(_validate_role),
)
ROLE_BINDINGS: ResourceType[RoleBinding] = ResourceType(
    model=RoleBinding,
    kind="RoleBinding",
    plural="rolebindings",
    singular="rolebinding",
    group=GROUP,
    table=_BINDING_TABLE,
    strategy=PlainStrategy(_validate_binding, _binding_update, _default_binding),
)
CLUSTER_ROLE_BINDINGS: ResourceType[ClusterRoleBinding] = ResourceType(
    model=ClusterRoleBinding,
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    singular="clusterrolebinding",
    group=GROUP,
    namespaced=False,
    table=_BINDING_TABLE,
    strategy=PlainStrategy(_validate_binding, _binding_update, _default_binding),
)

KINDS = (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES)
