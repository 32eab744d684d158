"""A request's body as the typed object (or options) that the endpoint expects (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kubeapi import errors
from kubeapi.core import Binding
from kubeapi.decode import check_kind, check_strict, decode, prune
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.server import binding, framing, queries
from kubeapi.server.deletion import DeleteOptions, Propagation
from kubeapi.server.paths import Target
from kubeapi.server.queries import FieldValidation

T = TypeVar("T", bound=KubeObject)


def parse_object(
    resource: ResourceType[T], target: Target, body: bytes, content_type: str | None, validation: FieldValidation
) -> tuple[T, list[str]]:
    """The object in a POST or PUT, and warnings about unknown fields. Raises ApiError 400, 415."""
    data = _mapping(framing.parse(body, framing.media_type(content_type)), resource.kind)
    check_kind(data, resource.api_version, resource.kind)
    # A body may leave out its kind: the endpoint knows it.
    data = data | {"apiVersion": resource.api_version, "kind": resource.kind}
    obj = decode(resource.model, data, resource.api_version, resource.kind)
    if resource.namespaced:
        _set_namespace(obj, target)
    notes = unknown_warnings(obj, validation)
    return obj, [*notes, resource.warning] if resource.warning else notes


def unknown_warnings(obj: KubeObject, validation: FieldValidation) -> list[str]:
    """Fields that the kind does not have go, and are warned of. Raises ApiError 400 when validation is strict."""
    if validation is FieldValidation.STRICT:
        check_strict(obj)
    pruned = prune(obj)
    return [f'unknown field "{path}"' for path in pruned] if validation is FieldValidation.WARN else []


def _set_namespace(obj: KubeObject, target: Target) -> None:
    meta = obj.metadata
    if meta.namespace and target.namespace and meta.namespace != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta.namespace = target.namespace or meta.namespace


def check_name(obj: KubeObject, target: Target) -> None:
    """Of a PUT. Raises ApiError 400."""
    found = obj.metadata.name
    if not found:
        raise errors.bad_request("name must be provided")
    if found != target.name:
        message = f"the name of the object ({found}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(message)


def delete_options(query: Mapping[str, str], body: bytes, content_type: str | None) -> DeleteOptions:
    """From the body, else from the query. Raises ApiError 400, 415."""
    data = _mapping(framing.parse(body, framing.media_type(content_type)), "DeleteOptions") if body.strip() else {}
    return options_from(data, query)


def options_from(data: Mapping[str, Any], query: Mapping[str, str]) -> DeleteOptions:
    given = data.get("preconditions")
    preconditions = _mapping({} if given is None else given, "Preconditions")
    grace = data.get("gracePeriodSeconds")
    if grace is None:
        grace = queries.integer(query, "gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise errors.bad_request(
            "json: cannot unmarshal into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
    dry_run = data.get("dryRun")
    if dry_run is not None and not isinstance(dry_run, list):
        raise errors.bad_request("json: cannot unmarshal into Go struct field DeleteOptions.dryRun of type []string")
    asked = str(dry_run[0]) if dry_run else None
    return DeleteOptions(
        grace_seconds=grace,
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        dry_run=queries.write_options(query, asked).dry_run,
        propagation=_propagation(data, query),
    )


def _propagation(data: Mapping[str, Any], query: Mapping[str, str]) -> Propagation | None:
    """Raises ApiError 400, 422."""
    policy = data.get("propagationPolicy") or query.get("propagationPolicy") or None
    orphan = data.get("orphanDependents")
    if orphan is None and query.get("orphanDependents"):
        orphan = queries.flag(query, "orphanDependents")
    if orphan is not None and policy is not None:
        raise _bad_options(f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set')
    if orphan is not None:
        if not isinstance(orphan, bool):
            raise errors.bad_request(
                "json: cannot unmarshal into Go struct field DeleteOptions.orphanDependents of type bool"
            )
        return Propagation.ORPHAN if orphan else Propagation.BACKGROUND
    if policy is None:
        return None
    try:
        return Propagation(policy)
    except ValueError as error:
        wanted = ", ".join(f'"{item.value}"' for item in sorted(Propagation, key=lambda item: item.value))
        raise _bad_options(f'Unsupported value: "{policy}": supported values: {wanted}, "nil"') from error


def _bad_options(message: str) -> errors.ApiError:
    cause = errors.Cause("FieldValueInvalid", message, "propagationPolicy")
    return errors.invalid("DeleteOptions", "", [cause], "meta.k8s.io")


def parse_binding(body: bytes, content_type: str | None) -> binding.Target:
    """Raises ApiError 400, 415."""
    data = _mapping(framing.parse(body, framing.media_type(content_type)), "Binding")
    check_kind(data, "v1", "Binding")
    wish = decode(Binding, data)
    if not wish.target.name:
        raise errors.invalid(
            "Binding", wish.metadata.name, [errors.Cause("FieldValueRequired", "Required value", "target.name")]
        )
    return binding.Target(wish.target.name, wish.metadata.uid, wish.metadata.annotations)


def parse_mapping(body: bytes, content_type: str | None, kind: str) -> dict[str, Any]:
    """For what is answered and not stored: reviews, evictions. Raises ApiError 400, 415."""
    return _mapping(framing.parse(body, framing.media_type(content_type)), kind)


def _mapping(data: Any, kind: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return data


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.bad_request(f"json: cannot unmarshal into Go struct field Preconditions.{name} of type string")
    return value
