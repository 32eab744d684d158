"""What a planner may ask for: data that the shell (`cloudhub.workloads.controller`) carries out, in order."""

from __future__ import annotations

from dataclasses import dataclass

from kubeapi.meta import KubeObject


@dataclass(frozen=True, slots=True)
class Create:
    """`message` may name the object as `{name}`: a generated name is known only afterwards."""

    obj: KubeObject
    message: str = ""
    """Of the event; empty: no event."""


@dataclass(frozen=True, slots=True)
class Update:
    """Compare-and-swap by the resourceVersion that the object carries."""

    obj: KubeObject


@dataclass(frozen=True, slots=True)
class Adopt:
    """An Update that makes the planned object the owner of `obj`: only while the planned object really exists and is
    not being deleted, since what it orphans must not be taken back."""

    obj: KubeObject


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Compare-and-swap by the resourceVersion that the object carries."""

    obj: KubeObject


@dataclass(frozen=True, slots=True)
class Delete:
    """By UID: an object of the same name that came later is not meant."""

    obj: KubeObject
    message: str = ""
    """Of the event, as in `Create`."""


@dataclass(frozen=True, slots=True)
class Tell:
    """An event about the planned object."""

    kind: str
    """`Normal` or `Warning`."""
    reason: str
    message: str


Action = Create | Update | Adopt | SetStatus | Delete | Tell


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[Action, ...] = ()
    wake_after: float | None = None
    """Seconds until time alone may ask for something else; None: only a change does."""
