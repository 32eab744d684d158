"""Server-side apply: a configuration becomes part of the object that is there, or a new one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from kubeapi import errors, fieldset, fieldwalk, managedfields, virtualmachineform
from kubeapi.decode import DecodeError, build, unknown_fields
from kubeapi.errors import ApiError
from kubeapi.managedfields import APPLY, Manager
from kubeapi.meta import KubeModel, KubeObject, ManagedFields
from kubeapi.resource import ResourceType
from kubeapi.server import framing, ownership
from kubeapi.server.objects import StoreObjects
from kubeapi.server.paths import Target
from kubeapi.server.queries import WriteOptions
from kubeapi.shapes import Shape

T = TypeVar("T", bound=KubeObject)

CONTENT_TYPE = "application/apply-patch+yaml"
_ATTEMPTS = 5
"""Of finding an object or making it, while others delete and make it."""


@dataclass(frozen=True, slots=True)
class Apply:
    resource: ResourceType[Any]
    target: Target
    config: dict[str, Any]
    """Of the type, with amounts in their canonical form, without nulls."""
    manager: str
    force: bool
    dry_run: bool
    now: str

    def to(self, current: T) -> T:
        """`current` with the configuration, and who owns what. Raises ApiError 409 where others own it."""
        live = current.to_dict()
        entries = managedfields.decode(current.metadata.managed_fields)
        return self._applied(type(current), live, entries)

    def new(self) -> KubeObject:
        """The object to create where there is none. Raises ApiError 400, 409."""
        metadata = self.config.get("metadata", {})
        name = metadata.get("name")
        if not name:
            raise errors.bad_request(
                f"the name of the object ({self.target.name} based on URL) was undeterminable: name must be provided"
            )
        if metadata.get("uid"):
            message = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise errors.conflict(self.resource.plural, self.target.name, message, self.resource.group)
        # Not the model's own empty parts: nobody had applied those before.
        nothing = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        obj: KubeObject = self._applied(self.resource.model, nothing, ())
        if self.resource.namespaced:
            obj.metadata.namespace = obj.metadata.namespace or self.target.namespace
        return obj

    def _applied(self, model: type[T], live: dict[str, Any], entries: managedfields.Entries) -> T:
        sub = self.target.subresource
        who = Manager(self.manager, self.resource.api_version, sub, APPLY)
        endpoint = ownership.endpoint(self.resource, sub)
        applied = managedfields.apply(live, self.config, entries, who, endpoint, self.now, force=self.force)
        obj = build(model, applied.data)
        obj.metadata.managed_fields = ManagedFields(managedfields.encode(applied.entries))
        _check_target(obj, self.target)
        return obj


async def run(objects: StoreObjects, apply: Apply) -> tuple[KubeObject, bool]:
    """The object as stored (or as it would be), and whether it was made just now."""
    resource, target = apply.resource, apply.target
    for _ in range(_ATTEMPTS):
        try:
            changed = await objects.change(
                resource, target.namespace, target.name, apply.to, target.subresource, dry_run=apply.dry_run, by=None
            )
        except ApiError as error:
            if error.code != 404 or target.subresource:
                raise
        else:
            return changed, False
        try:
            return await objects.create_object(resource, apply.new(), dry_run=apply.dry_run, by=None), True
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    raise errors.conflict(resource.plural, target.name, group=resource.group)


def parse(resource: ResourceType[Any], target: Target, body: bytes, options: WriteOptions, now: str) -> Apply:
    """`body` is YAML or JSON. Raises ApiError 400."""
    data = _without_nulls(_load(body))
    if data.get("apiVersion") != resource.api_version:
        found = data.get("apiVersion") or ""
        message = f"Specified patch version: {found}, expected: {resource.api_version}"
        raise errors.bad_request(f"Incorrect version specified in apply patch. {message}")
    if data.get("kind") != resource.kind:
        raise errors.bad_request(
            f"the kind in the patch ({data.get('kind') or ''}) does not match the expected kind ({resource.kind})"
        )
    metadata = data.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        raise errors.bad_request("metadata.managedFields must be nil")
    config = _typed(resource, target, data)
    if virtualmachineform.spec_of(resource.model()) is not None:
        config = virtualmachineform.applied(config)
    return Apply(resource, target, config, options.manager, bool(options.force), options.dry_run, now)


def _load(body: bytes) -> dict[str, Any]:
    try:
        data = framing.parse(body, framing.JSON if body.lstrip()[:1] == b"{" else framing.YAML)
    except ApiError as error:
        raise errors.bad_request(f"error decoding YAML: {error.message}") from error
    if not isinstance(data, dict):
        raise errors.bad_request("error decoding YAML: the patch is no object")
    return data


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _typed(resource: ResourceType[Any], target: Target, data: dict[str, Any]) -> dict[str, Any]:
    try:
        obj = build(resource.model, data)
    except DecodeError as error:
        raise _untyped(resource, target, [str(error)]) from None
    shape = resource.shape
    problems = [f"{_by_key(path, data, shape)}: field not declared in schema" for path in unknown_fields(obj)]
    problems += fieldwalk.problems(data, shape)
    if problems:
        raise _untyped(resource, target, problems)
    canonical: dict[str, Any] = _canonical(data, obj)
    return canonical


def _by_key(path: str, data: Any, shape: Shape) -> str:
    """`spec.containers[0].x` as `.spec.containers[name="c"].x`."""
    shown = ""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if name:
            shown += f".{name}"
            data, shape = data.get(name) if isinstance(data, dict) else None, shape.field(name)
        else:
            data = data[int(index)] if isinstance(data, list) and int(index) < len(data) else None
            element = fieldwalk.element_of(data, shape)
            shown, shape = shown + (fieldset.shown((element,)) if element else f"[{index}]"), shape.item()
    return shown


def _untyped(resource: ResourceType[Any], target: Target, problems: list[str]) -> ApiError:
    """The reference answers 500 here, which it counts as a fault (kubernetes/kubernetes#139253)."""
    group_version = resource.api_version if resource.group else f"/{resource.version}"
    subject = f"{target.namespace or ''}/{target.name}; {group_version}, Kind={resource.kind}"
    text = problems[0] if len(problems) == 1 else "\n".join(["errors:", *(f"  {problem}" for problem in problems)])
    return errors.bad_request(f"failed to create typed patch object ({subject}): {text}")


def _canonical(raw: Any, typed: Any) -> Any:
    """`raw` with the values that its type makes of them: an amount written otherwise is no change, and no conflict."""
    if isinstance(typed, KubeModel):
        known = {alias: getattr(typed, name) for name, (alias, _) in typed.wire_fields().items()}
        return {name: _canonical(part, known[name]) if name in known else part for name, part in raw.items()}
    if isinstance(raw, dict) and isinstance(typed, dict):
        return {name: _canonical(part, typed.get(name, part)) for name, part in raw.items()}
    if isinstance(raw, list) and isinstance(typed, list) and len(raw) == len(typed):
        return [_canonical(part, item) for part, item in zip(raw, typed, strict=True)]
    return raw if isinstance(raw, dict | list) else typed


def _check_target(obj: KubeObject, target: Target) -> None:
    """Raises ApiError 400."""
    meta = obj.metadata
    if meta.name != target.name:
        raise errors.bad_request(
            f"the name of the object ({meta.name}) does not match the name on the URL ({target.name})"
        )
    if meta.namespace and target.namespace and meta.namespace != target.namespace:
        raise errors.bad_request(
            f"the namespace of the object ({meta.namespace}) does not match the namespace on the request "
            f"({target.namespace})"
        )
