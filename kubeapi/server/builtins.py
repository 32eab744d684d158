"""Objects that every cluster has from the start."""

from __future__ import annotations

from kubeapi.errors import ApiError
from kubeapi.kinds.policies import SYSTEM_CLASSES
from kubeapi.meta import ObjectMeta
from kubeapi.objects import Objects
from kubeapi.policies import PriorityClass


async def ensure_priority_classes(objects: Objects) -> None:
    for name, (value, description) in SYSTEM_CLASSES.items():
        try:
            await objects.create(PriorityClass(metadata=ObjectMeta(name=name), value=value, description=description))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
