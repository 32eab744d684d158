"""Authorisation of requests: what a request is an action on, what RBAC says of it, and who acts as somebody else.

Enforcement is a setting. Without it every authenticated user may do everything; the reviews still answer by RBAC.
Impersonation is always checked: it changes whose name is written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kubeapi import authorization, errors
from kubeapi.authorization import Action, Decision, Policy, Who
from kubeapi.meta import KubeObject
from kubeapi.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from kubeapi.server import paths, queries
from kubeapi.server.auth import AUTHENTICATED, User
from kubeapi.server.objects import StoreObjects

T = TypeVar("T", bound=KubeObject)

UNENFORCED = "RBAC is not enforced by this server: requests of every authenticated user are let through"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_AS_USER, _AS_GROUP, _AS_UID = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"
_ACCOUNT = "system:serviceaccount:"


class Authorizer:
    def __init__(self, objects: StoreObjects, *, enforced: bool = False) -> None:
        self._objects = objects
        self.enforced = enforced

    async def decide(self, who: Who, action: Action) -> Decision:
        return authorization.decide(await self._policy(who), who, action)

    async def rules(self, who: Who, namespace: str) -> Sequence[PolicyRule]:
        return authorization.rules(await self._policy(who), who, namespace)

    async def require(self, user: User, action: Action) -> None:
        """Raises ApiError 403."""
        who = Who(user.name, user.groups)
        if (await self.decide(who, action)).allowed:
            return
        message = authorization.refusal(who, action)
        if action.path:
            raise errors.ApiError(403, "Forbidden", f"forbidden: {message}", {})
        raise errors.forbidden(action.resource, action.name, message, action.group)

    async def _policy(self, who: Who) -> Policy:
        if authorization.MASTERS in who.groups:
            return Policy()  # it would not be looked at
        return Policy(
            await self._all(Role),
            await self._all(ClusterRole),
            await self._all(RoleBinding),
            await self._all(ClusterRoleBinding),
        )

    async def _all(self, model: type[T]) -> list[T]:
        page = await self._objects.page(self._objects.registry.of(model))
        return [entity.obj for entity in page.entities]


def action_of(method: str, raw_path: str, query: Mapping[str, str]) -> Action:
    """What a request does, as the reference's request-info resolver has it."""
    target = paths.parse(raw_path)
    if target is None:
        return Action("get" if method == "HEAD" else method.lower(), path=raw_path)
    verb = _VERBS.get(method, "get")
    if not target.name:
        verb = {"get": "watch" if queries.is_watch(query) else "list", "delete": "deletecollection"}.get(verb, verb)
    return Action(verb, target.plural, target.group, target.subresource, target.name, _namespace(target))


def _namespace(target: paths.Target) -> str:
    """A namespace is within itself."""
    if not target.group and target.plural == "namespaces":
        return target.name
    return target.namespace or ""


async def acting_as(authorizer: Authorizer, user: User, headers: Mapping[str, Any], groups: Sequence[str]) -> User:
    """Whom the request is on behalf of: `kubectl --as`. `groups` are all values of Impersonate-Group.

    Raises ApiError 400, 403.
    """
    name = headers.get(_AS_USER, "")
    if not name:
        if groups or headers.get(_AS_UID):
            raise errors.bad_request("requested impersonation without a user: Impersonate-User must be set, too")
        return user
    asked = [_user_action(name), *(Action("impersonate", "groups", name=group) for group in groups)]
    if uid := headers.get(_AS_UID, ""):
        asked.append(Action("impersonate", "uids", "authentication.k8s.io", name=uid))
    for action in asked:
        await authorizer.require(user, action)
    return User(name, _groups(name, groups), uid)


def _user_action(name: str) -> Action:
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and account:
        return Action("impersonate", "serviceaccounts", name=account, namespace=namespace)
    return Action("impersonate", "users", name=name)


def _groups(name: str, given: Sequence[str]) -> tuple[str, ...]:
    groups = list(given)
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != "system:anonymous" and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return tuple(groups)


def reviewed(attributes: Mapping[str, Any]) -> Action:
    """`spec.resourceAttributes` of a review."""
    texts = {key: value for key, value in attributes.items() if isinstance(value, str)}
    return Action(
        verb=texts.get("verb", ""),
        resource=texts.get("resource", ""),
        group=texts.get("group", ""),
        subresource=texts.get("subresource", ""),
        name=texts.get("name", ""),
        namespace=texts.get("namespace", ""),
    )


def in_words(decision: Decision, enforced: bool) -> Decision:
    if decision.allowed or enforced:
        return decision
    return replace(decision, reason=UNENFORCED)
