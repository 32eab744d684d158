"""rbac.authorization.k8s.io/v1: stored and shown; nothing is decided by them yet."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeapi.meta import KubeModel, KubeObject

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(KubeModel):
    verbs: list[str] = Field(default_factory=list)
    api_groups: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    resource_names: list[str] = Field(default_factory=list)
    non_resource_urls: list[str] = Field(default_factory=list)


class Subject(KubeModel):
    kind: str = ""
    api_group: str | None = None
    name: str = ""
    namespace: str | None = None


class RoleRef(KubeModel):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class Role(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "Role"
    rules: list[PolicyRule] = Field(default_factory=list)


class ClusterRole(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "ClusterRole"
    rules: list[PolicyRule] = Field(default_factory=list)
    aggregation_rule: dict[str, Any] | None = None


class RoleBinding(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "RoleBinding"
    subjects: list[Subject] = Field(default_factory=list)
    role_ref: RoleRef = Field(default_factory=RoleRef)


class ClusterRoleBinding(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "ClusterRoleBinding"
    subjects: list[Subject] = Field(default_factory=list)
    role_ref: RoleRef = Field(default_factory=RoleRef)
