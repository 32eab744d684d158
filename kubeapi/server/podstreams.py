"""The subresources of a pod that are conversations: exec, attach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kubeapi import errors
from kubeapi.core import Pod
from kubeapi.server import streaming, websockets
from kubeapi.server.paths import Target
from kubeapi.server.streaming import Broken, Wish

if TYPE_CHECKING:
    from kubeapi.server.handlers import Server

_REFUSED = 500


async def exec_(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    wish = streaming.wish_of(request.query, exec_=True)
    return await _talk(server, request, target, wish)


async def _talk(server: Server, request: web.Request, target: Target, wish: Wish) -> web.StreamResponse:
    pod = (await server.objects.read(server.objects.registry.of(Pod), target.namespace, target.name)).copied()
    container = streaming.container_of(pod, request.query.get("container", ""))
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {target.name} does not have a host assigned")
    try:
        # Before the upgrade: a refusal then is an answer that clients show.
        conversation = await request.app[streaming.SOURCE].open(pod, container, wish)
    except Broken as error:
        # As plain text, like a kubelet's: clients say "unable to upgrade connection: …".
        return web.Response(status=_REFUSED, text=str(error))
    try:
        if not streaming.is_asked(request, "websocket"):
            raise errors.bad_request("Upgrade request required")
        return await websockets.serve(request, conversation, wish, server.stopping)
    finally:
        conversation.close()
