"""Who is calling. How tokens are checked is the composition root's business (`Authenticator`)."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

AUTHENTICATED = "system:authenticated"
AUDIENCE = "https://kubernetes.default.svc"
"""Whom tokens are for: this server, as the reference calls itself."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


Identify = Callable[[str], Awaitable[User | None]]
"""The bearer of a token of any kind that this server takes."""


class Authenticator(Protocol):
    def authenticate(self, token: str) -> User | None:
        """The bearer of that token, or None (answered with 401)."""


class StaticTokens:
    """Tokens known beforehand, as from a file. Compared in constant time."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {token.encode(): user for token, user in tokens.items()}

    def authenticate(self, token: str) -> User | None:
        found = None
        for known, user in self._tokens.items():
            if hmac.compare_digest(known, token.encode()):
                found = user
        return found


def bearer_token(header: str | None) -> str | None:
    """From an Authorization header. A token is ASCII (RFC 6750); what is not names nobody."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" and token.isascii() else None
