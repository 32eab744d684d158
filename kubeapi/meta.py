"""The base of every Kubernetes-shaped object, and the metadata they share.

Objects are pydantic models with Python names inside and Kubernetes names on the wire. Fields that a model does not
declare survive a round trip, so that a newer client's fields are never lost on the way through hub and node. Timestamps
stay RFC 3339 text (`kubeapi.clock` converts). Null and empty follow Go's `omitempty`: an unset field, an empty list and
an empty map are not written; an empty *object* that was given (`emptyDir: {}`) is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WrapValidator, model_validator

_SPECIAL = {
    "pod_ip": "podIP",
    "pod_ips": "podIPs",
    "host_ip": "hostIP",
    "host_ips": "hostIPs",
    "host_pid": "hostPID",
    "host_ipc": "hostIPC",
    "container_id": "containerID",
    "image_id": "imageID",
    "pod_cidr": "podCIDR",
    "pod_cidrs": "podCIDRs",
    "provider_id": "providerID",
    "machine_id": "machineID",
    "system_uuid": "systemUUID",
    "boot_id": "bootID",
    "kubelet_port": "Port",
    "cluster_ip": "clusterIP",
    "cluster_ips": "clusterIPs",
    "external_ips": "externalIPs",
    "load_balancer_ip": "loadBalancerIP",
    "non_resource_urls": "nonResourceURLs",
}


def camel(name: str) -> str:
    """`resource_version` → `resourceVersion`, with Kubernetes' capital acronyms where it has them (`podIP`)."""
    if name in _SPECIAL:
        return _SPECIAL[name]
    head, *tail = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def _with_undeclared(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """What is kept without being declared is in the schema as well, of no particular type."""
    undeclared = sorted(model.also) if issubclass(model, KubeModel) else ()
    for name in undeclared:
        schema.setdefault("properties", {}).setdefault(name, {})


class KubeModel(BaseModel):
    """Base of all types. Mutable; treat what came out of a store or cache as read-only and `copied()` it first."""

    model_config = ConfigDict(
        alias_generator=camel,
        populate_by_name=True,
        extra="allow",
        defer_build=True,
        strict=True,
        protected_namespaces=(),
        json_schema_extra=_with_undeclared,
    )

    also: ClassVar[frozenset[str]] = frozenset()
    """Fields of the real type that are kept but not declared here."""
    _wire: ClassVar[dict[str, tuple[str, bool]] | None] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **_arguments: Any) -> None:
        cls._wire = None  # not its parent's

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        """JSON null means "not set", as in Go."""
        if isinstance(data, dict) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data

    def to_dict(self) -> dict[str, Any]:
        """The object as JSON-ready data with Kubernetes' names."""
        data: dict[str, Any] = {}
        wire = self._wire or self.wire_fields()
        for name, value in self.__dict__.items():  # in the order in which they are declared
            if value is None:
                continue
            alias, omit_empty = wire[name]
            if value or not omit_empty:
                data[alias] = value if type(value) in ATOMS else _plain(value)
        if extra := self.__pydantic_extra__:
            data |= {name: _plain(value) for name, value in extra.items() if value is not None}
        return data

    def to_json(self) -> bytes:
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Raises pydantic.ValidationError; `kubeapi.decode` turns that into the API server's words."""
        return cls.model_validate(data)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Raises orjson.JSONDecodeError, pydantic.ValidationError."""
        return cls.model_validate(orjson.loads(data))

    def copied(self) -> Self:
        """A deep copy that may be changed freely. (pydantic's own remembers each part, in case it is there twice: these
        are trees.)"""
        copy = type(self).__new__(type(self))
        object.__setattr__(copy, "__dict__", _copied_items(self.__dict__))
        object.__setattr__(copy, "__pydantic_fields_set__", set(self.__pydantic_fields_set__))
        object.__setattr__(copy, "__pydantic_extra__", _copied(self.__pydantic_extra__))
        object.__setattr__(copy, "__pydantic_private__", _copied(self.__pydantic_private__))
        return copy

    @classmethod
    def wire_fields(cls) -> dict[str, tuple[str, bool]]:
        """By name here: name on the wire, whether empty means unset (lists and maps that default to empty)."""
        wire = cls._wire
        if wire is None:
            wire = cls._wire = {
                name: (info.alias or name, info.default_factory in (list, dict, ManagedFields))
                for name, info in cls.model_fields.items()
            }
        return wire

    @classmethod
    def known_fields(cls) -> frozenset[str]:
        """Names on the wire, undeclared but legitimate ones (`also`) included: for strict field validation."""
        return frozenset(alias for alias, _ in cls.wire_fields().values()) | cls.also


class ManagedFields(list[dict[str, Any]]):
    """Entries of `metadata.managedFields`. Whoever changes them makes new ones, so copies of an object share them: they
    are often half of it."""

    def __deepcopy__(self, memo: object) -> ManagedFields:
        return self


def _shared(value: Any, validated: Callable[[Any], Any]) -> Any:
    if isinstance(value, list) and all(type(item) is dict for item in value):
        return ManagedFields(value)
    return validated(value)


ATOMS = frozenset({str, int, bool, float, type(None)})
"""Types of values that need no copy; exactly these, for whatever derives from them may be more."""


def _plain(value: Any) -> Any:
    if isinstance(value, KubeModel):
        return value.to_dict()
    if isinstance(value, ManagedFields):
        return value
    if isinstance(value, list):
        return [item if type(item) in ATOMS else _plain(item) for item in value]
    if isinstance(value, dict):
        return {key: item if type(item) in ATOMS else _plain(item) for key, item in value.items()}
    return value


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in ATOMS or kind is ManagedFields:
        return value
    if kind is dict:
        return _copied_items(value)
    if kind is list:
        return [item if type(item) in ATOMS else _copied(item) for item in value]
    return value.copied() if isinstance(value, KubeModel) else deepcopy(value)


def _copied_items(items: dict[str, Any]) -> dict[str, Any]:
    return {key: item if type(item) in ATOMS else _copied(item) for key, item in items.items()}


def _moment(text: str) -> str:
    """RFC 3339 with a zone. Whatever shows or counts with it may then trust it. Raises ValueError, in Go's words."""
    try:
        valid = not text or bool(_RFC3339.fullmatch(text) and datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):
        valid = False
    if not valid:
        shown = f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        raise ValueError(shown)
    return text


_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")
Timestamp = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]
"""`metav1.Time` and `MicroTime`; empty is unset."""


class OwnerReference(KubeModel):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"selfLink", "clusterName"})
    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    finalizers: list[str] = Field(default_factory=list)
    managed_fields: Annotated[list[dict[str, Any]], WrapValidator(_shared)] = Field(default_factory=ManagedFields)

    def to_dict(self) -> dict[str, Any]:
        """The metadata of a template has no name."""
        data = super().to_dict()
        if not self.name:
            data.pop("name", None)
        return data


class Condition(KubeModel):
    """metav1.Condition; pod and node conditions add their own times."""

    type: str
    status: str = "Unknown"
    """`True`, `False` or `Unknown`."""
    observed_generation: int | None = None
    last_transition_time: Timestamp | None = None
    reason: str | None = None
    message: str | None = None


class KubeObject(KubeModel):
    """What has an identity: apiVersion, kind, metadata. Subclasses fix the first two as defaults."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
