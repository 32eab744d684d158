"""Continue tokens of paged lists, in the reference server's form (pure)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import orjson

_VERSION = "meta.k8s.io/v1"


class BadToken(ValueError):
    """Not a continue token of ours."""


@dataclass(frozen=True, slots=True)
class Continuation:
    revision: int
    """The list goes on as it was at this revision; -1: as it is now (given out with a 410)."""
    namespace: str
    """Empty where the list is of one namespace or the kind has none."""
    name: str
    """The last name already given."""

    def encode(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        payload = orjson.dumps({"v": _VERSION, "rv": self.revision, "start": f"/{path}\0"})
        return base64.urlsafe_b64encode(payload).rstrip(b"=").decode()

    def passed(self, namespace: str, name: str) -> bool:
        """Whether that object was in an earlier page."""
        if self.namespace:
            return (namespace, name) <= (self.namespace, self.name)
        return name <= self.name


def decode(token: str) -> Continuation:
    """Raises BadToken."""
    try:
        payload = orjson.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        version, revision, start = payload["v"], payload["rv"], payload["start"]
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise BadToken("continue key is not valid: " + str(error)) from error
    if version != _VERSION or not isinstance(revision, int) or not isinstance(start, str):
        raise BadToken("continue key is not valid: incorrect encoded start or version (version meta.k8s.io/v1)")
    if revision == 0 or revision < -1:
        raise BadToken("continue key is not valid: incorrect resource version")
    namespace, _, name = start.removeprefix("/").rstrip("\0").rpartition("/")
    return Continuation(revision, namespace, name)
