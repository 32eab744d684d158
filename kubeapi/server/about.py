"""What the server says about itself: version, health, discovery, OpenAPI."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from aiohttp import web

from kubeapi import errors
from kubeapi.resource import Registry
from kubeapi.server import discovery, negotiation, openapi2
from kubeapi.server.openapi import Documents
from kubeapi.server.responses import answer

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+copepod",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
"""The Kubernetes version whose behaviour is reproduced; clients compare theirs with it."""


def add_routes(app: web.Application, registry: Registry, documents: Documents) -> None:
    About(registry, documents).add_to(app.router)


class About:
    def __init__(self, registry: Registry, documents: Documents) -> None:
        self._registry = registry
        self._documents = documents

    def add_to(self, router: web.UrlDispatcher) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            router.add_get(path, self.health)
            router.add_get(path + "/{check:.*}", self.health)
        for path, handler in (
            ("/version", self.version),
            ("/", self.paths),
            ("/api", self.api),
            ("/apis", self.apis),
            ("/api/v1", self.core_resources),
            ("/apis/{group}", self.group),
            ("/apis/{group}/{version}", self.group_resources),
            ("/openapi/v2", self.openapi_v2),
            ("/openapi/v3", self.openapi),
            ("/openapi/v3/{path:.+}", self.openapi_group),
        ):
            router.add_get(path, handler)
            if path != "/":
                router.add_get(path + "/", handler)

    async def health(self, request: web.Request) -> web.Response:
        endpoint = request.path.split("/")[1]
        text = f"[+]ping ok\n{endpoint} check passed\n" if "verbose" in request.query else "ok"
        return web.Response(text=text)

    async def version(self, request: web.Request) -> web.Response:
        return answer(request, VERSION)

    async def paths(self, request: web.Request) -> web.Response:
        groups = [f"/apis/{group}/{version}" for group, version in discovery.group_versions(self._registry) if group]
        fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        return answer(request, {"paths": sorted(fixed + groups)})

    async def api(self, request: web.Request) -> web.Response:
        return self._discovery(request, core=True) or answer(request, discovery.api_versions(request.host))

    async def apis(self, request: web.Request) -> web.Response:
        return self._discovery(request, core=False) or answer(request, discovery.api_group_list(self._registry))

    async def core_resources(self, request: web.Request) -> web.Response:
        return self._known(request, discovery.resource_list(self._registry, "", "v1"))

    async def group(self, request: web.Request) -> web.Response:
        return self._known(request, discovery.api_group(self._registry, request.match_info["group"]))

    async def group_resources(self, request: web.Request) -> web.Response:
        group, version = request.match_info["group"], request.match_info["version"]
        return self._known(request, discovery.resource_list(self._registry, group, version))

    async def openapi_v2(self, request: web.Request) -> web.Response:
        found = openapi2.document(VERSION["gitVersion"], self._documents.all())
        if openapi2.PROTO in request.headers.get("Accept", ""):
            return web.Response(body=openapi2.encode(found), content_type=openapi2.PROTO_ANSWER)
        return answer(request, found)

    async def openapi(self, request: web.Request) -> web.Response:
        return answer(request, self._documents.index())

    async def openapi_group(self, request: web.Request) -> web.Response:
        return self._known(request, self._documents.document(request.match_info["path"].rstrip("/")))

    def _known(self, request: web.Request, data: Any) -> web.Response:
        if data is None:
            raise errors.path_not_found()
        return answer(request, data)

    def _discovery(self, request: web.Request, *, core: bool) -> web.Response | None:
        version = negotiation.discovery_version(request.headers.get("Accept"))
        if version is None:
            return None
        data = discovery.aggregated(self._registry, core=core, version=version)
        etag = f'"{hashlib.sha512(orjson.dumps(data)).hexdigest().upper()}"'
        headers = {"Etag": etag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        return answer(request, data, content_type=kind, cache="public", headers=headers)
