"""What the declarations share: strategies for kinds with spec and status, columns, checks of counts and percentages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kubeapi import virtualmachineform
from kubeapi.columns import NONE
from kubeapi.errors import Cause
from kubeapi.fields import NEGATIVE, invalid, not_supported
from kubeapi.meta import KubeObject
from kubeapi.numbers import INT32_MAX
from kubeapi.resource import Cell, Column, Strategy, Subresource
from kubeapi.validation import validate_metadata, validate_metadata_update
from kubeapi.workloads import IntOrString, PodTemplateSpec

T = TypeVar("T", bound=KubeObject)

OBJECT_VERBS = ("get", "patch", "update")
STATUS = Subresource("status", OBJECT_VERBS)
SCALE = Subresource("scale", OBJECT_VERBS, kind="Scale", group="autoscaling", version="v1")
_PERCENT = re.compile("[0-9]{1,9}%")

Validate = Callable[[T], Sequence[Cause]]
Compare = Callable[[T, T], Sequence[Cause]]


class ObjectStrategy(Strategy[T]):
    """A kind with a spec and, mostly, a status that only its subresource changes; the generation counts specs.

    `validate` checks all but the metadata; `compare` what an update may not change.
    """

    def __init__(
        self,
        *,
        namespaced: bool = True,
        validate: Validate[T] | None = None,
        compare: Compare[T] | None = None,
        default: Callable[[T], None] | None = None,
        prepare: Callable[[T], None] | None = None,
        generation: bool = True,
    ) -> None:
        self._namespaced = namespaced
        self._validate, self._compare, self._default, self._prepare = validate, compare, default, prepare
        self._generation = generation

    def align(self, subresource: str, new: T, old: T) -> None:
        virtualmachineform.align_objects(new, old)

    def default(self, obj: T) -> None:
        if self._default:
            self._default(obj)

    def prepare_create(self, obj: T) -> None:
        if self._generation:
            obj.metadata.generation = 1
        _set_status(obj, None)
        if self._prepare:
            self._prepare(obj)

    def validate_create(self, obj: T) -> Sequence[Cause]:
        return [*validate_metadata(obj.metadata, namespaced=self._namespaced), *self._own(obj)]

    def prepare_update(self, new: T, old: T) -> None:
        _set_status(new, old)
        if self._generation and _spec(new) != _spec(old):
            new.metadata.generation = (old.metadata.generation or 0) + 1

    def validate_update(self, new: T, old: T) -> Sequence[Cause]:
        own = self._compare(new, old) if self._compare else ()
        return [*validate_metadata_update(new, old), *own, *self._own(new)]

    def prepare_status_update(self, new: T, old: T) -> None:
        if hasattr(old, "spec"):
            new.spec = old.spec  # type: ignore[attr-defined]  # has one, as its peer has

    def validate_status_update(self, new: T, old: T) -> Sequence[Cause]:
        return validate_metadata_update(new, old)

    def _own(self, obj: T) -> Sequence[Cause]:
        return self._validate(obj) if self._validate else ()


def _spec(obj: Any) -> Any:
    return getattr(obj, "spec", None)


def _set_status(obj: Any, old: Any) -> None:
    if "status" in type(obj).model_fields:
        obj.status = type(obj.status)() if old is None else old.status


# Columns


def wide(name: str) -> Column:
    return Column(name, priority=1)


def template_cells(template: PodTemplateSpec) -> tuple[Cell, Cell]:
    """The wide columns Containers and Images."""
    containers = template.spec.containers
    return ",".join(item.name for item in containers), ",".join(item.image for item in containers)


def pairs(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


# Checks


def non_negative(path: str, value: int | None) -> list[Cause]:
    """Nor more than Go's int32 holds, which the reference refuses when it reads the object."""
    if value is None or 0 <= value <= INT32_MAX:
        return []
    return [invalid(path, value, NEGATIVE if value < 0 else f"must be less than or equal to {INT32_MAX}")]


def one_of(path: str, value: str | None, supported: Sequence[str]) -> list[Cause]:
    return [] if value in supported else [not_supported(path, value or "", supported)]


def count_or_percent(path: str, value: IntOrString | None, *, most_percent: int | None = None) -> list[Cause]:
    """k8s.io/kubernetes/pkg/apis/apps/validation.ValidatePositiveIntOrPercent and IsNotMoreThan100Percent."""
    if isinstance(value, int):
        return non_negative(path, value)
    if value is None:
        return []
    if not _PERCENT.fullmatch(value):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(path, value, detail)]
    if most_percent is not None and int(value[:-1]) > most_percent:
        return [invalid(path, value, f"must not be greater than {most_percent}%")]
    return []


def is_zero(value: IntOrString | None) -> bool:
    return value in (0, None) or (isinstance(value, str) and value.rstrip("%").strip("0") == "")


def under(prefix: str, causes: Sequence[Cause]) -> list[Cause]:
    """The causes of a part, as of the whole."""
    return [Cause(item.reason, item.message, f"{prefix}.{item.field}") for item in causes]
