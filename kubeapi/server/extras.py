"""Resources that are answered and never stored: who somebody is (`kubectl auth whoami`), what he may do (`can-i`).

Authorisation is: every authenticated user may do everything (RBAC is a later issue), and the answers say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubeapi import errors, fields
from kubeapi.server.auth import AUDIENCE, Identify, User

Review = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExtraResource:
    group: str
    version: str
    kind: str
    answer: Callable[[Review, User, Identify], Awaitable[Review]]
    """The review's `status`. Raises ApiError."""
    namespaced: bool = False

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def plural(self) -> str:
        return f"{self.singular}s"


async def _self_subject(_review: Review, user: User, _identify: Identify) -> Review:
    return {"userInfo": _info(user)}


def _info(user: User) -> Review:
    info: Review = {"username": user.name, "groups": list(user.groups)}
    return info | ({"uid": user.uid} if user.uid else {})


async def _token(review: Review, _user: User, identify: Identify) -> Review:
    spec = _spec(review)
    token, audiences = spec.get("token"), spec.get("audiences") or [AUDIENCE]
    if not isinstance(token, str) or not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    user = await identify(token)
    if user is None or AUDIENCE not in audiences:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _info(user), "audiences": [AUDIENCE]}


async def _self_access(review: Review, _user: User, _identify: Identify) -> Review:
    return _allowed(_spec(review))


async def _access(review: Review, _user: User, _identify: Identify) -> Review:
    spec = _spec(review)
    if not spec.get("user") and not spec.get("groups"):
        causes = [fields.invalid("spec.user", "", "at least one of user or group must be specified")]
        raise errors.invalid("SubjectAccessReview", "", causes, "authorization.k8s.io")
    return _allowed(spec)


def _allowed(spec: Review) -> Review:
    if len([name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name)]) != 1:
        raise errors.bad_request("spec: exactly one of resourceAttributes or nonResourceAttributes must be specified")
    return {"allowed": True, "reason": "every authenticated user of this server is a cluster administrator"}


def _spec(review: Review) -> Review:
    spec = review.get("spec")
    return spec if isinstance(spec, dict) else {}


async def _self_rules(_review: Review, _user: User, _identify: Identify) -> Review:
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


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
