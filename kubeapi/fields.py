"""How the API server words what is wrong with a field (k8s.io/apimachinery/pkg/util/validation/field)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from kubeapi.errors import Cause

NO_FIELD = "[]"
"""The path of an error about the whole object, as the server prints its nameless root."""


def shown(value: Any) -> str:
    """A value as the server prints it: strings quoted, numbers plain, the rest as JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", path)


def required(path: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", path)


def duplicate(path: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", path)


def forbidden(path: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(shown(item) for item in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", path)


def too_long(path: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)


IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"


def in_range(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"
