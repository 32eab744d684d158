"""Resources that are answered and never stored: who somebody is (`kubectl auth whoami`), what he may do (`can-i`).

Access reviews answer by the RBAC objects, whether or not RBAC is enforced; where it is not, a refusal says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubeapi import errors, fields
from kubeapi.authorization import Action, Who
from kubeapi.server import authorizing
from kubeapi.server.auth import AUDIENCE, Identify, User
from kubeapi.server.authorizing import Authorizer

Review = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the answers are made with."""

    identify: Identify
    authorizer: Authorizer


@dataclass(frozen=True, slots=True)
class ExtraResource:
    group: str
    version: str
    kind: str
    answer: Callable[[Review, User, Asked], Awaitable[Review]]
    """The review's `status`. Raises ApiError."""
    namespaced: bool = False

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def plural(self) -> str:
        return f"{self.singular}s"


async def _self_subject(_review: Review, user: User, _asked: Asked) -> Review:
    return {"userInfo": _info(user)}


def _info(user: User) -> Review:
    info: Review = {"username": user.name, "groups": list(user.groups)}
    return info | ({"uid": user.uid} if user.uid else {})


async def _token(review: Review, _user: User, asked: Asked) -> Review:
    spec = _spec(review)
    token, audiences = spec.get("token"), spec.get("audiences") or [AUDIENCE]
    if not isinstance(token, str) or not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    user = await asked.identify(token)
    if user is None or AUDIENCE not in audiences:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _info(user), "audiences": [AUDIENCE]}


async def _self_access(review: Review, user: User, asked: Asked) -> Review:
    return await _decided(_spec(review), Who(user.name, user.groups), asked.authorizer)


async def _access(review: Review, _user: User, asked: Asked) -> Review:
    spec = _spec(review)
    name, groups = spec.get("user") or "", spec.get("groups") or []
    if not name and not groups:
        causes = [fields.invalid("spec.user", "", "at least one of user or group must be specified")]
        raise errors.invalid("SubjectAccessReview", "", causes, "authorization.k8s.io")
    if not isinstance(name, str) or not isinstance(groups, list):
        raise errors.bad_request("spec: user must be a string and groups a list of strings")
    return await _decided(spec, Who(name, tuple(map(str, groups))), asked.authorizer)


async def _decided(spec: Review, who: Who, authorizer: Authorizer) -> Review:
    action = _action(spec)
    decision = authorizing.in_words(await authorizer.decide(who, action), authorizer.enforced)
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _action(spec: Review) -> Action:
    attributes, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(attributes) == bool(other):
        raise errors.bad_request("spec: exactly one of resourceAttributes or nonResourceAttributes must be specified")
    if isinstance(attributes, dict) and attributes:
        return authorizing.reviewed(attributes)
    asked = other if isinstance(other, dict) else {}
    return Action(str(asked.get("verb") or ""), path=str(asked.get("path") or ""))


def _spec(review: Review) -> Review:
    spec = review.get("spec")
    return spec if isinstance(spec, dict) else {}


async def _self_rules(review: Review, user: User, asked: Asked) -> Review:
    namespace = _spec(review).get("namespace") or ""
    if not isinstance(namespace, str) or not namespace:
        raise errors.bad_request("no namespace on request")
    found = await asked.authorizer.rules(Who(user.name, user.groups), namespace)
    resources: list[Review] = []
    others: list[Review] = []
    for rule in found:
        data = {key: value for key, value in rule.to_dict().items() if value}
        (others if rule.non_resource_urls else resources).append(data)
    return {"resourceRules": resources, "nonResourceRules": others, "incomplete": False}


EXTRA_RESOURCES = (
    ExtraResource("authentication.k8s.io", "v1", "SelfSubjectReview", _self_subject),
    ExtraResource("authentication.k8s.io", "v1", "TokenReview", _token),
    ExtraResource("authorization.k8s.io", "v1", "SelfSubjectAccessReview", _self_access),
    ExtraResource("authorization.k8s.io", "v1", "SelfSubjectRulesReview", _self_rules),
    ExtraResource("authorization.k8s.io", "v1", "SubjectAccessReview", _access),
    ExtraResource("authorization.k8s.io", "v1", "LocalSubjectAccessReview", _access, namespaced=True),
)


def find(group: str, version: str, plural: str) -> ExtraResource | None:
    matches = (item for item in EXTRA_RESOURCES if (item.group, item.version, item.plural) == (group, version, plural))
    return next(matches, None)
