"""What containers and virtual machines have in common: amounts of resources, and mounts of volumes (core/v1).

Amounts become canonical when an object is parsed (`0.5` → `500m`), and are rounded up to whole thousandths, as the API
server does when it defaults an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kubeapi import quantity
from kubeapi.meta import KubeModel


def _resource_list(value: Any) -> Any:
    """Numbers are quantities too (`cpu: 1`). Raises ValueError with the API server's message."""
    if not isinstance(value, Mapping):
        return value
    return {name: _amount(amount) for name, amount in value.items() if amount is not None}


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    text = str(value)
    return _canonical(text) if len(text) <= _USUAL else _canonical.__wrapped__(text)


@lru_cache(1024)
def _canonical(text: str) -> str:
    return str(quantity.parse(text.strip()).rounded(-3))


_USUAL = 32
"""Characters of an amount that is worth remembering: the same few come again and again."""

ResourceList = Annotated[dict[str, str], BeforeValidator(_resource_list)]
"""Resource name to canonical quantity."""


class ResourceRequirements(KubeModel):
    limits: ResourceList = Field(default_factory=dict)
    requests: ResourceList = Field(default_factory=dict)
    claims: list[dict[str, Any]] = Field(default_factory=list)


class ContainerResizePolicy(KubeModel):
    resource_name: str = ""
    restart_policy: str = ""
    """`NotRequired` or `RestartContainer`."""


class VolumeMount(KubeModel):
    name: str = ""
    mount_path: str = ""
    read_only: bool | None = None
    recursive_read_only: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None
    mount_propagation: str | None = None


class VolumeDevice(KubeModel):
    name: str = ""
    device_path: str = ""
