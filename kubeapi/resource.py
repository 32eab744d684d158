"""How a kind of object is declared to the API server: a new kind adds a `ResourceType`, not a handler.

Everything generic (paths, verbs, storage, watch, tables, patches) follows from the declaration; what is particular to a
kind is in its `Strategy`, whose functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from kubeapi.ages import age
from kubeapi.errors import Cause
from kubeapi.meta import KubeObject
from kubeapi.scale import BUILT_IN, ScalePaths
from kubeapi.shapes import CORE, Shape

T = TypeVar("T", bound=KubeObject)

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""In the order discovery lists them."""

Cell = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. Priority 1 shows with `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def to_dict(self) -> dict[str, str | int]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME_COLUMN = Column("Name", format="name")
AGE_COLUMN = Column("Age")


def _age_only(obj: KubeObject, now: datetime) -> Sequence[Cell]:
    return (obj.metadata.name, age(obj.metadata.creation_timestamp, now))


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    columns: tuple[Column, ...] = (NAME_COLUMN, AGE_COLUMN)
    cells: Callable[[T, datetime], Sequence[Cell]] = _age_only
    """One row for one object, given now."""
    wider: Table[T] | None = None
    """What is shown instead as soon as one of the objects `needs` it: the same columns, and more after them."""
    needs: Callable[[T], bool] = bool

    def of(self, objects: Iterable[T]) -> Table[T]:
        return self.wider if self.wider is not None and any(map(self.needs, objects)) else self


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    """What is sent and returned; empty = the parent's kind."""
    group: str = ""
    version: str = ""

    @property
    def writable_object(self) -> bool:
        """Shows the parent object and takes PUT and PATCH of it (`status`, `resize`)."""
        return "update" in self.verbs and not self.kind


class Strategy(Generic[T]):
    """What is particular to a kind. The hooks change the object they are given (always a private copy).

    Order of a create: `default`, generic metadata, `prepare_create` (resets what clients may not set),
    `validate_create`.
    Of an update: `align(new, old)`, `default`, `prepare_update(new, old)`, `validate_update(new, old)`; of the
    subresources likewise.
    Validation returns the causes of a 422, in the reference's order; other failures are raised as ApiError.
    """

    def align(self, subresource: str, new: T, old: T) -> None:
        """Where an object says a thing twice: what was changed in one place is changed in the other."""

    def default(self, obj: T) -> None:
        """Fill in what was left out. Also applied to the result of a patch."""

    def prepare_create(self, obj: T) -> None: ...

    def validate_create(self, obj: T) -> Sequence[Cause]:
        return ()

    def prepare_update(self, new: T, old: T) -> None:
        """Keep what an ordinary update may not touch (status, where it is a subresource), and set the generation."""

    def validate_update(self, new: T, old: T) -> Sequence[Cause]:
        return ()

    def prepare_status_update(self, new: T, old: T) -> None: ...

    def validate_status_update(self, new: T, old: T) -> Sequence[Cause]:
        return ()

    def prepare_subresource(self, name: str, new: T, old: T) -> T:
        """For subresources other than `status` that take the object itself (`resize`): what to store for `new`."""
        return new

    def validate_subresource(self, name: str, new: T, old: T) -> Sequence[Cause]:
        return ()

    def grace_seconds(self, obj: T, asked: int | None) -> int:
        """How long a deletion waits for its owner's confirmation; 0 = removed at once."""
        return 0


FieldGetter = Callable[[T], str]


@dataclass(frozen=True, slots=True)
class ResourceType(Generic[T]):
    model: type[T]
    kind: str
    plural: str
    singular: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()
    table: Table[T] = field(default_factory=Table)
    fields: Mapping[str, FieldGetter[T]] = field(default_factory=dict)
    """Field selectors beyond `metadata.name` and `metadata.namespace`."""
    strategy: Strategy[T] = field(default_factory=Strategy)
    shape: Shape = field(default=CORE, repr=False)
    """How the fields are merged and owned (server-side apply)."""
    warning: str = ""
    """Who creates or replaces one is told so (a `Warning` header)."""
    scale: ScalePaths = BUILT_IN
    """Where the `scale` subresource, if there is one, finds its numbers."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Plural and group, as the metastore names it: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        return next((item for item in self.subresources if item.name == name), None)


class Registry:
    """All declared kinds. Those that users define come and go (`put`)."""

    def __init__(self, *types: ResourceType[KubeObject]) -> None:
        self._by_path = {(item.group, item.version, item.plural): item for item in types}
        self._index()

    def _index(self) -> None:
        self._by_model = {item.model: item for item in self._by_path.values()}
        self._by_key: dict[str, ResourceType[KubeObject]] = {}
        for item in self._by_path.values():
            self._by_key.setdefault(item.key, item)

    def __iter__(self) -> Iterator[ResourceType[KubeObject]]:
        return iter(tuple(self._by_path.values()))

    def copied(self) -> Registry:
        return Registry(*self)

    def stored(self) -> tuple[ResourceType[KubeObject], ...]:
        """Each kind once, where it is served in several versions."""
        return tuple(self._by_key.values())

    def put(self, key: str, versions: Sequence[ResourceType[Any]]) -> None:
        """These in place of all that the kind (`crontabs.example.com`) was served in; none: it is served no more.
        The first is the one that is preferred."""
        kept = {path: item for path, item in self._by_path.items() if item.key != key}
        self._by_path = kept | {(item.group, item.version, item.plural): item for item in versions}
        self._index()

    def find(self, group: str, version: str, plural: str) -> ResourceType[KubeObject] | None:
        return self._by_path.get((group, version, plural))

    def by_key(self, key: str) -> ResourceType[KubeObject] | None:
        """By the metastore's name (`pods`)."""
        return self._by_key.get(key)

    def of(self, model: type[T]) -> ResourceType[T]:
        """The declaration of a model. Raises KeyError."""
        return self._by_model[model]  # type: ignore[return-value]  # the map pairs each type with its own model
