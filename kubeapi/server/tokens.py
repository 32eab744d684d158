"""Service account tokens (`kubectl create token`): signed, short-lived, and void once their account is gone.

A token is a JWT signed with the server's own key (HMAC-SHA-256): only the server can check it, nothing is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from aiohttp import web

from kubeapi import errors, fields
from kubeapi.clock import later, timestamp
from kubeapi.core import ServiceAccount
from kubeapi.errors import ApiError
from kubeapi.server import bodies
from kubeapi.server.auth import AUDIENCE, AUTHENTICATED, User
from kubeapi.server.objects import StoreObjects
from kubeapi.server.paths import Target
from kubeapi.server.responses import answer

_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 1 << 32
_HEADER = {"alg": "HS256", "typ": "JWT"}


class Tokens:
    def __init__(self, key: bytes, objects: StoreObjects) -> None:
        self._key = key
        self._objects = objects

    async def issue(self, request: web.Request, target: Target) -> web.Response:
        """POST of a TokenRequest to a service account. Raises ApiError 400, 404, 422."""
        wish = bodies.parse_mapping(await request.read(), request.headers.get("Content-Type"), "TokenRequest")
        spec = wish.get("spec")
        seconds, audiences = _checked(target.name, spec if isinstance(spec, dict) else {})
        account = await self._objects.get(ServiceAccount, target.namespace, target.name)
        now = self._objects.clock.now()
        expires = later(now, seconds)
        token = self.sign(_claims(account, audiences, now, expires))
        made = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        }
        return answer(request, made, 201)

    async def authenticate(self, token: str) -> User | None:
        """The account whose valid token it is, if that account is still the one it was."""
        claims = self.verified(token)
        now = self._objects.clock.now().timestamp()
        if claims is None or not claims["nbf"] <= now < claims["exp"] or AUDIENCE not in claims["aud"]:
            return None
        held = claims["kubernetes.io"]
        namespace, name, uid = held["namespace"], held["serviceaccount"]["name"], held["serviceaccount"]["uid"]
        try:
            account = await self._objects.get(ServiceAccount, namespace, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        if account.metadata.uid != uid:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return User(claims["sub"], groups, uid)

    def sign(self, claims: Mapping[str, Any]) -> str:
        text = f"{_encode(orjson.dumps(_HEADER))}.{_encode(orjson.dumps(dict(claims)))}"
        return f"{text}.{_encode(self._signature(text))}"

    def verified(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that this server signed; their times are not looked at."""
        text, _, signature = token.rpartition(".")
        if not text or not hmac.compare_digest(_encode(self._signature(text)).encode(), signature.encode()):
            return None
        claims: dict[str, Any] = orjson.loads(_decode(text.partition(".")[2]))
        return claims

    def _signature(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), hashlib.sha256)


def _checked(name: str, spec: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Seconds and audiences. Raises ApiError 400, 422."""
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        seconds = _DEFAULT_SECONDS
    audiences = spec.get("audiences") or [AUDIENCE]
    texts = isinstance(audiences, list) and all(isinstance(item, str) for item in audiences)
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not texts:
        raise errors.bad_request("TokenRequest: expirationSeconds must be a number, audiences a list of strings")
    causes = []
    if seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        causes.append(fields.invalid("spec.expirationSeconds", seconds, detail))
    if seconds > _MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        causes.append(fields.invalid("spec.expirationSeconds", seconds, detail))
    if spec.get("boundObjectRef"):
        causes.append(fields.forbidden("spec.boundObjectRef", "this server binds tokens to service accounts only"))
    if causes:
        raise errors.invalid("TokenRequest", name, causes, "authentication.k8s.io")
    return seconds, audiences


def _claims(account: ServiceAccount, audiences: list[str], now: datetime, expires: datetime) -> dict[str, Any]:
    meta = account.metadata
    since = int(now.timestamp())
    return {
        "aud": audiences,
        "exp": int(expires.timestamp()),
        "iat": since,
        "iss": AUDIENCE,
        "kubernetes.io": {
            "namespace": meta.namespace,
            "serviceaccount": {"name": meta.name, "uid": meta.uid},
        },
        "nbf": since,
        "sub": f"system:serviceaccount:{meta.namespace}:{meta.name}",
    }


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
