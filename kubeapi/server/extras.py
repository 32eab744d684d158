"""Resources that are answered and never stored: reviews of oneself, for `kubectl auth whoami` and `can-i`.

Authorisation is: every authenticated user may do everything (RBAC is a later issue), and the answers say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubeapi import errors
from kubeapi.server.auth import User

Review = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExtraResource:
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    answer: Callable[[Review, User], Review]
    """The review's `status`. Raises ApiError."""
    namespaced: bool = False


def _self_subject(_review: Review, user: User) -> Review:
    info: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return {"userInfo": info}


def _self_access(review: Review, _user: User) -> Review:
    spec = review.get("spec")
    given = [
        name for name in ("resourceAttributes", "nonResourceAttributes") if isinstance(spec, dict) and spec.get(name)
    ]
    if len(given) != 1:
        raise errors.bad_request("spec: exactly one of resourceAttributes or nonResourceAttributes must be specified")
    return {"allowed": True, "reason": "every authenticated user of this server is a cluster administrator"}


def _self_rules(_review: Review, _user: User) -> Review:
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


EXTRA_RESOURCES = (
    ExtraResource(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", _self_subject
    ),
    ExtraResource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
        _self_access,
    ),
    ExtraResource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
        _self_rules,
    ),
)


def find(group: str, version: str, plural: str) -> ExtraResource | None:
    matches = (item for item in EXTRA_RESOURCES if (item.group, item.version, item.plural) == (group, version, plural))
    return next(matches, None)
