"""The subresources of a pod that are conversations: exec, attach, port-forward."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from kubeapi import errors
from kubeapi.core import Pod
from kubeapi.server import portforward, spdyexec, streaming, websockets
from kubeapi.server.paths import Target
from kubeapi.server.streaming import Broken, Conversation, Wish

if TYPE_CHECKING:
    from kubeapi.server.handlers import Server

_REFUSED = 500


async def exec_(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    return await _talk(server, request, target, streaming.wish_of(request.query, exec_=True))


async def attach(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    return await _talk(server, request, target, streaming.wish_of(request.query, exec_=False))


async def port_forward(server: Server, request: web.Request, target: Target) -> web.StreamResponse:
    pod = await _placed(server, target)
    source, container = request.app[streaming.SOURCE], pod.spec.containers[0].name
    if not (streaming.is_asked(request, "websocket") or streaming.is_asked(request, "SPDY/3.1")):
        raise errors.bad_request("Upgrade request required")
    source.check(pod)

    async def open(port: int) -> Conversation:
        return await source.open(pod, container, Wish(stdin=True, stdout=True, stderr=True, port=port))

    return await portforward.serve(request, open, server.stopping)


async def _talk(server: Server, request: web.Request, target: Target, wish: Wish) -> web.StreamResponse:
    pod = await _placed(server, target)
    container = streaming.container_of(pod, request.query.get("container", ""))
    if streaming.is_asked(request, "websocket"):
        serve = partial(websockets.serve, request)
    elif streaming.is_asked(request, "SPDY/3.1"):
        spdyexec.check(request, spdyexec.V4)
        serve = partial(spdyexec.serve, request)
    else:
        raise errors.bad_request("Upgrade request required")
    try:
        # Before the upgrade: a refusal then is an answer that clients show.
        conversation = await request.app[streaming.SOURCE].open(pod, container, wish)
    except Broken as error:
        # As plain text, like a kubelet's: clients say "unable to upgrade connection: …".
        return web.Response(status=_REFUSED, text=str(error))
    try:
        return await serve(conversation, wish, server.stopping)
    finally:
        conversation.close()


async def _placed(server: Server, target: Target) -> Pod:
    pod = (await server.objects.read(server.objects.registry.of(Pod), target.namespace, target.name)).copied()
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {target.name} does not have a host assigned")
    return pod
