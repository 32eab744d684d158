"""What webhooks and policies are shown of a request (`AdmissionRequest`), and which of them match it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeapi.core import Namespace
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.requestmatching import Asked
from kubeapi.server.chain import Operation, Request

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

_OPTIONS = {Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions", Operation.DELETE: "DeleteOptions"}


def is_fact(request: Request) -> bool:
    """What the hub writes down of what has happened already: nobody is asked whether it may have."""
    if not request.caller.internal:
        return False
    return bool(request.subresource) or (
        request.operation is Operation.DELETE and request.obj.metadata.deletion_timestamp is not None
    )


async def namespace_of(objects: StoreObjects, request: Request) -> Namespace | None:
    """That it is in, or is about. None: it has to do with none, or with one that is gone."""
    if isinstance(request.obj, Namespace):
        return request.obj
    if not request.resource.namespaced:
        return None
    try:
        return (await objects.read(objects.registry.of(Namespace), None, request.namespace, known=True)).obj
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def asked(objects: StoreObjects, request: Request, namespace: Namespace | None) -> Asked:
    resource = request.resource
    served = [item.version for item in objects.registry if item.key == resource.key]
    return Asked(
        operation=request.operation,
        group=resource.group,
        version=resource.version,
        resource=resource.plural,
        subresource=request.subresource,
        name=request.obj.metadata.name,
        namespaced=resource.namespaced,
        versions=served,
        namespace_labels=namespace.metadata.labels if namespace else None,
        labels=[obj.metadata.labels for obj in (request.new, request.old) if obj is not None],
    )


def admission_request(request: Request, version: str, uid: str) -> dict[str, Any]:
    """`version` is what the one who is asked wants the object in. Without the objects themselves."""
    resource, user = request.resource, request.caller.user
    kind = {"group": resource.group, "version": version, "kind": resource.kind}
    named = {"group": resource.group, "version": version, "resource": resource.plural}
    info: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    found: dict[str, Any] = {
        "uid": uid,
        "kind": kind,
        "resource": named,
        "requestKind": kind | {"version": resource.version},
        "requestResource": named | {"version": resource.version},
        "name": request.obj.metadata.name,
        "namespace": _request_namespace(request),
        "operation": str(request.operation),
        "userInfo": info | ({"uid": user.uid} if user.uid else {}),
        "dryRun": request.dry_run,
        "options": {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1"},
    }
    if request.subresource:
        found |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    return found


def _request_namespace(request: Request) -> str:
    """A namespace is within itself."""
    obj = request.obj
    return obj.metadata.name if isinstance(obj, Namespace) else obj.metadata.namespace or ""


def shown(request: Request, obj: KubeObject | None, version: str) -> dict[str, Any] | None:
    if obj is None:
        return None
    resource = request.resource
    group_version = f"{resource.group}/{version}" if resource.group else version
    return obj.to_dict() | {"apiVersion": group_version, "kind": resource.kind}
