"""On whose behalf the code runs: the user of a request, or the hub itself; and what that request is warned of.

Carried by the context of the request's task, as deep as admission looks at it; nothing else depends on it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from kubeapi.server.auth import User

HUB = User("system:copepod", ("system:masters", "system:authenticated"))
"""Controllers, the scheduler, and whatever else the hub does of its own accord."""


@dataclass(frozen=True, slots=True)
class Caller:
    user: User
    internal: bool = False
    warnings: list[str] = field(default_factory=list)
    """Become `Warning` headers of the answer."""


_CALLER: ContextVar[Caller] = ContextVar("caller")


def current() -> Caller:
    return _CALLER.get(None) or Caller(HUB, internal=True)


def begin(user: User) -> Caller:
    """From here on, in this task, it is that user who acts."""
    caller = Caller(user)
    _CALLER.set(caller)
    return caller
