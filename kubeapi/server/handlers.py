"""One handler per verb, the same for every declared kind: parse, act on the objects, render."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kubeapi import errors
from kubeapi.clock import timestamp
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType
from kubeapi.server import (
    applying,
    bodies,
    bounds,
    caller,
    computed,
    extras,
    framing,
    listing,
    negotiation,
    ownership,
    patching,
    paths,
    podhandlers,
    queries,
    scaling,
    selection,
)
from kubeapi.server.auth import Identify, User
from kubeapi.server.authorizing import Authorizer
from kubeapi.server.deletion import RETURNED
from kubeapi.server.entities import Entity
from kubeapi.server.extras import Asked, ExtraResource
from kubeapi.server.logs import LogSource
from kubeapi.server.objects import StoreObjects
from kubeapi.server.paths import Target
from kubeapi.server.rendering import ListMeta, Renderer
from kubeapi.server.responses import NO_CACHE, answer, cut
from kubeapi.server.sharing import SharedLines
from kubeapi.server.tokens import Tokens
from kubeapi.server.watching import WatchStream

USER: web.RequestKey[User] = web.RequestKey("user", User)
_CLIENT_STALL_SECONDS = 60.0
"""A watcher that takes no bytes for so long is cut off."""

Kind = ResourceType[Any]


@dataclass(frozen=True, slots=True)
class Server:
    """What the handlers work with."""

    objects: StoreObjects
    logs: LogSource
    tokens: Tokens
    identify: Identify
    authorizer: Authorizer
    sources: computed.Sources = field(default_factory=dict)
    """Of kinds that the store does not hold."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends watches and followed logs when the server goes down."""
    lines: SharedLines = field(default_factory=SharedLines)

    async def dispatch(self, request: web.Request) -> web.StreamResponse:
        """Everything below /api/v1 and /apis/<group>/<version>."""
        target = paths.parse(request.rel_url.raw_path)
        if target is None:
            raise errors.path_not_found()
        resource = self.objects.registry.find(target.group, target.version, target.plural)
        if resource is None:
            extra = extras.find(target.group, target.version, target.plural)
            if extra is None or target.name or bool(target.namespace) != extra.namespaced:
                raise errors.path_not_found()
            return await self._review(request, extra)
        if bool(target.namespace) and not resource.namespaced:
            raise errors.path_not_found()
        across = resource.namespaced and not target.namespace
        if across and target.name:
            raise errors.path_not_found()
        if target.subresource:
            return await self._subresource(request, resource, target)
        verbs = _ITEM if target.name else _COLLECTION
        verb, handler = verbs.get(request.method, ("", None))
        if verb == "list" and queries.is_watch(request.query):
            verb, handler = "watch", Server.watch
        if handler is None or verb not in resource.verbs or (across and verb not in ("list", "watch")):
            raise errors.method_not_allowed()
        return await handler(self, request, resource, target)

    async def _subresource(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        sub = resource.subresource(target.subresource)
        if sub is None:
            raise errors.path_not_found()
        verb, handler = _ITEM.get(request.method, ("create" if request.method == "POST" else "", None))
        if verb not in sub.verbs:
            raise errors.method_not_allowed()
        if sub.writable_object and handler is not None:
            return await handler(self, request, resource, target)
        if sub.kind == "Scale":
            return await scaling.handle(self, request, resource, target)
        special = podhandlers.find(resource.key, sub.name)
        if special is None:
            raise errors.method_not_allowed()
        return await special(self, request, target)

    # Reading

    async def get(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        representation = accepted(request)
        if source := self.sources.get(resource.key):
            entity = await computed.read(source, resource, target)
        else:
            entity = await self.objects.read(resource, target.namespace, target.name)
        return answer(request, self._renderer(request, resource).one(entity), as_yaml=representation.yaml)

    async def list_(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        representation = accepted(request)
        options = queries.list_options(request.query)
        chosen = selection.parse(resource, target.namespace, options.label_selector, options.field_selector)
        if source := self.sources.get(resource.key):
            page = await computed.page(source, resource, chosen)
        else:
            page = await listing.page(self.objects, resource, chosen, options)
        data = self._renderer(request, resource).list(page.entities, page.meta)
        return answer(request, data, as_yaml=representation.yaml)

    async def watch(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        renderer = self._renderer(request, resource)
        options = queries.watch_options(request.query)
        chosen = selection.parse(resource, target.namespace, options.label_selector, options.field_selector)
        stream = WatchStream(self.objects, resource, chosen, renderer, options, self.lines)
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": NO_CACHE})
        await response.prepare(request)
        async with aclosing(stream.chunks(self.stopping)) as chunks:
            async for chunk in chunks:
                if not await _taken(request, response, chunk):
                    cut(request)
                    break
        return response

    # Writing

    async def create(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        options = queries.write_options(request.query)
        ownership.check_options(options.manager, "CreateOptions")
        body, kind = await request.read(), request.headers.get("Content-Type")
        obj, notes = bodies.parse_object(resource, target, body, kind, options.field_validation)
        by = _writer(request, options)
        stored = await self.objects.insert(resource, obj, dry_run=options.dry_run, by=by)
        return self._entity(request, resource, stored, 201, notes)

    async def update(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        options = queries.write_options(request.query)
        ownership.check_options(options.manager, "UpdateOptions")
        body, kind = await request.read(), request.headers.get("Content-Type")
        obj, notes = bodies.parse_object(resource, target, body, kind, options.field_validation)
        bodies.check_name(obj, target)
        by, sub = _writer(request, options), target.subresource
        stored = await self.objects.replace(resource, obj, sub, dry_run=options.dry_run, by=by)
        return self._entity(request, resource, stored, 200, notes)

    async def patch(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        options = queries.write_options(request.query)
        body, kind = await request.read(), request.headers.get("Content-Type", "")
        is_apply = framing.media_type(kind) == applying.CONTENT_TYPE
        ownership.check_patch_options(options.manager, apply=is_apply, force=options.force)
        if is_apply:
            apply = applying.parse(resource, target, body, options, timestamp(self.objects.clock.now()))
            applied, made = await applying.run(self.objects, apply)
            return self._object(request, resource, applied, 201 if made else 200, [])
        patch = patching.Patch(kind, body, options.field_validation)
        by, sub = _writer(request, options), target.subresource
        stored = await self.objects.edit(
            resource, target.namespace, target.name, patch.apply, sub, dry_run=options.dry_run, by=by
        )
        return self._entity(request, resource, stored, 200, patch.warnings)

    async def delete(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        body, kind = await request.read(), request.headers.get("Content-Type")
        options = bodies.delete_options(request.query, body, kind)
        deleted = await self.objects.delete_object(resource, target.namespace, target.name, options)
        if not deleted.gone or resource.plural in RETURNED:
            return self._object(request, resource, deleted.obj, 200, [])
        details = {
            "name": target.name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": deleted.obj.metadata.uid,
        }
        return answer(request, errors.success(details={key: value for key, value in details.items() if value}))

    async def delete_collection(self, request: web.Request, resource: Kind, target: Target) -> web.StreamResponse:
        body, kind = await request.read(), request.headers.get("Content-Type")
        options = bodies.delete_options(request.query, body, kind)
        wanted = queries.list_options(request.query)
        chosen = selection.parse(resource, target.namespace, wanted.label_selector, wanted.field_selector)
        page = await listing.page(self.objects, resource, chosen, wanted)
        deleted = []
        for entity in page.entities:
            key = entity.row.key
            try:
                result = await self.objects.delete_object(resource, key.namespace, key.name, options)
            except errors.ApiError as error:
                if error.code != 404:  # another request was faster
                    raise
            else:
                deleted.append(Entity.of_object(resource, result.obj))
        meta = ListMeta(self.objects.store.revision)
        return answer(request, self._renderer(request, resource).list(deleted, meta))

    # Helpers

    def _renderer(self, request: web.Request, resource: Kind) -> Renderer:
        include = request.query.get("includeObject", "")
        return Renderer(resource, accepted(request), self.objects.clock.now(), include)

    def _object(
        self, request: web.Request, resource: Kind, obj: KubeObject, status: int, notes: Sequence[str]
    ) -> web.StreamResponse:
        return self._entity(request, resource, Entity.of_object(resource, obj), status, notes)

    def _entity(
        self, request: web.Request, resource: Kind, entity: Entity[Any], status: int, notes: Sequence[str]
    ) -> web.StreamResponse:
        data = self._renderer(request, resource).one(entity)
        caller.current().warnings[:0] = notes  # before those of admission
        return answer(request, data, status, as_yaml=accepted(request).yaml)

    async def _review(self, request: web.Request, extra: ExtraResource) -> web.StreamResponse:
        if request.method != "POST":
            raise errors.method_not_allowed()
        review = bodies.parse_mapping(await request.read(), request.headers.get("Content-Type"), extra.kind)
        status = await extra.answer(review, request[USER], Asked(self.identify, self.authorizer))
        identity = {"kind": extra.kind, "apiVersion": f"{extra.group}/{extra.version}", "metadata": {}}
        return answer(request, {**review, **identity, "status": status}, 201)


Handler = Callable[[Server, web.Request, Kind, Target], Awaitable[web.StreamResponse]]

_COLLECTION: dict[str, tuple[str, Handler | None]] = {
    "GET": ("list", Server.list_),
    "HEAD": ("list", Server.list_),
    "POST": ("create", Server.create),
    "DELETE": ("deletecollection", Server.delete_collection),
}
_ITEM: dict[str, tuple[str, Handler | None]] = {
    "GET": ("get", Server.get),
    "HEAD": ("get", Server.get),
    "PUT": ("update", Server.update),
    "PATCH": ("patch", Server.patch),
    "DELETE": ("delete", Server.delete),
}


async def _taken(request: web.Request, response: web.StreamResponse, data: bytes) -> bool:
    """Whether the client takes it, or what waits before it, in time."""
    if bounds.at_once(request, len(data)):
        await response.write(data)
        return True
    try:
        async with asyncio.timeout(_CLIENT_STALL_SECONDS):
            await response.write(data)
    except TimeoutError:
        return False
    return True


def _writer(request: web.Request, options: queries.WriteOptions) -> str:
    return ownership.writer(options.manager, request.headers.get("User-Agent", ""))


def accepted(request: web.Request) -> negotiation.Representation:
    """Raises ApiError 406."""
    found = negotiation.choose(request.headers.get("Accept"))
    if found is None:
        raise errors.not_acceptable()
    return found
