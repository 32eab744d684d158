"""The `scale` subresource: how many replicas an object should have and has, as an autoscaling/v1 Scale. Pure.

An object is read by its JSON, so that custom resources can name the paths of their own fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import Field

from kubeapi import errors, fields, labelselector
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import KubeModel, KubeObject, ObjectMeta

T = TypeVar("T", bound=KubeObject)

_IDENTITY = ("name", "namespace", "uid", "resource_version", "creation_timestamp")


class ScaleSpec(KubeModel):
    replicas: int | None = None


class ScaleStatus(KubeModel):
    replicas: int = 0
    selector: str | None = None


class Scale(KubeObject):
    api_version: str = "autoscaling/v1"
    kind: str = "Scale"
    spec: ScaleSpec = Field(default_factory=ScaleSpec)
    status: ScaleStatus = Field(default_factory=ScaleStatus)


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has what a Scale shows. The selector may be an object or text; a path may lead nowhere."""

    replicas: Sequence[str] = ("spec", "replicas")
    observed: Sequence[str] = ("status", "replicas")
    selector: Sequence[str] = ("spec", "selector")


BUILT_IN = ScalePaths()


def of(obj: KubeObject, paths: ScalePaths = BUILT_IN) -> Scale:
    data = obj.to_dict()
    meta = ObjectMeta(**{name: getattr(obj.metadata, name) for name in _IDENTITY})
    return Scale(
        metadata=meta,
        spec=ScaleSpec(replicas=_number(_at(data, paths.replicas))),
        status=ScaleStatus(
            replicas=_number(_at(data, paths.observed)) or 0, selector=_selector(_at(data, paths.selector))
        ),
    )


def scaled(obj: T, wish: Scale, paths: ScalePaths = BUILT_IN) -> T:
    """`obj` with the replicas that `wish` asks for. Raises ApiError 400, 409, 422."""
    replicas = wish.spec.replicas or 0
    if replicas < 0:
        cause = fields.invalid("spec.replicas", replicas, fields.NEGATIVE)
        raise errors.invalid("Scale", obj.metadata.name, [cause], "autoscaling")
    data = obj.to_dict()
    *parents, last = paths.replicas
    place = data
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = replicas
    changed = type(obj).from_dict(data)
    changed.metadata.resource_version = wish.metadata.resource_version or None
    changed.metadata.uid = wish.metadata.uid or None
    return changed


def _at(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _selector(value: Any) -> str | None:
    if isinstance(value, dict):
        return labelselector.to_text(LabelSelector.from_dict(value))
    return value if isinstance(value, str) else None
