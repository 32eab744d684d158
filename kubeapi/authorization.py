"""Who may do what, by the RBAC objects (pure). The rules are those of the reference's RBAC authorizer
(plugin/pkg/auth/authorizer/rbac, pkg/apis/rbac/v1/evaluation_helpers.go)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubeapi.labelselector import LabelSelector, matches
from kubeapi.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject

MASTERS = "system:masters"
"""Its members may do everything, whatever the objects say."""
ALL = "*"


@dataclass(frozen=True, slots=True)
class Who:
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """On a resource; or, with a `path`, on what is none."""

    verb: str
    resource: str = ""
    group: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    """Empty: the cluster scope."""
    path: str = ""

    @property
    def combined(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Policy:
    """All RBAC objects of a cluster."""

    roles: Sequence[Role] = ()
    cluster_roles: Sequence[ClusterRole] = ()
    bindings: Sequence[RoleBinding] = ()
    cluster_bindings: Sequence[ClusterRoleBinding] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Grant:
    rule: PolicyRule
    reason: str


def decide(policy: Policy, who: Who, action: Action) -> Decision:
    if MASTERS in who.groups:
        return Decision(True)
    for grant in _grants(policy, who, action.namespace):
        if _allows(grant.rule, action):
            return Decision(True, f"RBAC: allowed by {grant.reason}")
    return Decision(False)


def rules(policy: Policy, who: Who, namespace: str) -> list[PolicyRule]:
    """Everything that `who` may do in that namespace."""
    if MASTERS in who.groups:
        return [
            PolicyRule(verbs=[ALL], api_groups=[ALL], resources=[ALL]),
            PolicyRule(verbs=[ALL], non_resource_urls=[ALL]),
        ]
    return [grant.rule for grant in _grants(policy, who, namespace)]


def refusal(who: Who, action: Action) -> str:
    """What a request that is not allowed is told, after `… is forbidden: `."""
    if action.path:
        return f'User "{who.name}" cannot {action.verb} path "{action.path}"'
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    return f'User "{who.name}" cannot {action.verb} resource "{action.combined}" in API group "{action.group}" {where}'


def effective(role: Role | ClusterRole, cluster_roles: Sequence[ClusterRole]) -> list[PolicyRule]:
    """Its own rules; of one that aggregates, those of the roles that it selects."""
    if not isinstance(role, ClusterRole) or role.aggregation_rule is None:
        return role.rules
    listed = role.aggregation_rule.get("clusterRoleSelectors")
    selectors = [LabelSelector.from_dict(item) for item in listed or () if isinstance(item, dict)]
    found: list[PolicyRule] = []
    for other in cluster_roles:
        chosen = any(matches(selector, other.metadata.labels) for selector in selectors)
        if chosen and other.metadata.name != role.metadata.name:
            # One level deep is not enough: `admin` takes in `edit`, which takes in `view`.
            rest = [item for item in cluster_roles if item is not role]
            found += [rule for rule in effective(other, rest) if rule not in found]
    return found


def _grants(policy: Policy, who: Who, namespace: str) -> Iterator[_Grant]:
    by_name = {role.metadata.name: role for role in policy.cluster_roles}
    for binding in policy.cluster_bindings:
        subject = _bound(binding.subjects, who, "")
        role = by_name.get(binding.role_ref.name)
        if subject and role:
            reason = f'ClusterRoleBinding "{binding.metadata.name}" of ClusterRole "{role.metadata.name}" to {subject}'
            yield from (_Grant(rule, reason) for rule in effective(role, policy.cluster_roles))
    if not namespace:
        return
    local = {role.metadata.name: role for role in policy.roles if role.metadata.namespace == namespace}
    for own in policy.bindings:
        if own.metadata.namespace != namespace:
            continue
        subject = _bound(own.subjects, who, namespace)
        ref = own.role_ref
        found: Role | ClusterRole | None = (by_name if ref.kind == "ClusterRole" else local).get(ref.name)
        if subject and found:
            place = f'RoleBinding "{own.metadata.name}/{namespace}" of {ref.kind} "{ref.name}" to {subject}'
            yield from (_Grant(rule, place) for rule in effective(found, policy.cluster_roles))


def _bound(subjects: Sequence[Subject], who: Who, namespace: str) -> str:
    """Which of the subjects is `who`, in words."""
    for subject in subjects:
        match subject.kind:
            case "User" if subject.name in (who.name, ALL):
                return f'User "{subject.name}"'
            case "Group" if subject.name in who.groups:
                return f'Group "{subject.name}"'
            case "ServiceAccount":
                home = subject.namespace or namespace
                if home and who.name == f"system:serviceaccount:{home}:{subject.name}":
                    return f'ServiceAccount "{subject.name}/{home}"'
    return ""


def _allows(rule: PolicyRule, action: Action) -> bool:
    if ALL not in rule.verbs and action.verb not in rule.verbs:
        return False
    if action.path:
        return any(_covers(url, action.path) for url in rule.non_resource_urls)
    return (
        (ALL in rule.api_groups or action.group in rule.api_groups)
        and _has_resource(rule, action)
        and (not rule.resource_names or action.name in rule.resource_names)
    )


def _has_resource(rule: PolicyRule, action: Action) -> bool:
    wanted = {ALL, action.combined}
    if action.subresource:
        wanted.add(f"{ALL}/{action.subresource}")
    return bool(wanted & set(rule.resources))


def _covers(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))
