"""A PATCH request, applied as often as other writers come between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kubeapi import errors
from kubeapi.custom import CustomObject
from kubeapi.decode import prune
from kubeapi.meta import KubeObject
from kubeapi.patch import CONTENT_TYPES, JSON, MERGE, STRATEGIC, apply_patch
from kubeapi.server import framing
from kubeapi.server.queries import FieldValidation

T = TypeVar("T", bound=KubeObject)

_CUSTOM_TYPES = (JSON, MERGE, "application/apply-patch+yaml")


@dataclass(slots=True)
class Patch:
    content_type: str
    body: bytes
    validation: FieldValidation
    warnings: list[str] = field(default_factory=list)
    """Of the last application."""

    def apply(self, current: T) -> T:
        """Raises ApiError 400, 413, 415, 422."""
        kind = framing.media_type(self.content_type)
        if kind not in CONTENT_TYPES:
            raise errors.unsupported_media()
        if kind == STRATEGIC and isinstance(current, CustomObject):
            raise errors.unsupported_media(_CUSTOM_TYPES)  # how its lists are merged, only an apply knows
        framing.parse(self.body, framing.JSON)  # refuses what is nested too deeply, before anything walks it
        patched = apply_patch(current, self.content_type, self.body, strict=self.validation is FieldValidation.STRICT)
        framing.check_depth(patched.to_dict())
        pruned = prune(patched)
        if self.validation is FieldValidation.WARN:
            self.warnings = [f'unknown field "{path}"' for path in pruned]
        return patched
