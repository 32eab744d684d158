"""Objects that every cluster has from the start."""

from __future__ import annotations

from kubeapi.errors import ApiError
from kubeapi.kinds.policies import SYSTEM_CLASSES
from kubeapi.kinds.rbacdefaults import DEFAULTS
from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.objects import Objects
from kubeapi.policies import PriorityClass


async def ensure_priority_classes(objects: Objects) -> None:
    for name, (value, description) in SYSTEM_CLASSES.items():
        await _ensure(objects, PriorityClass(metadata=ObjectMeta(name=name), value=value, description=description))


async def ensure_roles(objects: Objects) -> None:
    """What is there already stays as it is: users may change these roles."""
    for obj in DEFAULTS:
        await _ensure(objects, obj)


async def _ensure(objects: Objects, obj: KubeObject) -> None:
    try:
        await objects.create(obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
