"""The `scale` subresource of whatever kind declares it: read, replaced and patched as a Scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from kubeapi import scale
from kubeapi.decode import check_kind, decode
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.scale import Scale
from kubeapi.server import bodies, negotiation, ownership, queries
from kubeapi.server.patching import Patch
from kubeapi.server.paths import Target
from kubeapi.server.responses import answer

if TYPE_CHECKING:
    from kubeapi.server.handlers import Server


async def handle(server: Server, request: web.Request, resource: ResourceType[Any], target: Target) -> web.Response:
    """GET, PUT, PATCH. Raises ApiError."""
    if request.method in ("GET", "HEAD"):
        obj = (await server.objects.read(resource, target.namespace, target.name)).obj
        return _answer(request, resource, obj)
    options = queries.write_options(request.query)
    body, kind = await request.read(), request.headers.get("Content-Type")
    if request.method == "PUT":
        data = bodies.parse_mapping(body, kind, "Scale")
        check_kind(data, "autoscaling/v1", "Scale")
        wish = decode(Scale, data, "v1")

        def edit(current: KubeObject) -> KubeObject:
            return scale.scaled(current, wish, resource.scale)

    else:
        patch = Patch(kind or "", body, options.field_validation)

        def edit(current: KubeObject) -> KubeObject:
            return scale.scaled(current, patch.apply(scale.of(current, resource.scale)), resource.scale)

    by = ownership.writer(options.manager, request.headers.get("User-Agent", ""))
    stored = await server.objects.change(
        resource, target.namespace, target.name, edit, dry_run=options.dry_run, by=by, through="scale"
    )
    return _answer(request, resource, stored)


def _answer(request: web.Request, resource: ResourceType[Any], obj: KubeObject) -> web.Response:
    chosen = negotiation.choose(request.headers.get("Accept"))
    return answer(request, scale.of(obj, resource.scale).to_dict(), as_yaml=bool(chosen and chosen.yaml))
