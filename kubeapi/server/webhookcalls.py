"""Calls webhooks: an AdmissionReview goes out over HTTPS, one comes back. The only HTTP client of the API server.

A webhook is a stranger: it is given its own time and no more, its answer is bounded, it is not followed elsewhere, and
few are asked at once.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from kubeapi.admissionregistration import ServiceReference, ValidatingWebhook
from kubeapi.network import EndpointSlice, Service
from kubeapi.server import plugins

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

_AT_ONCE = 32
"""Calls under way; more wait their turn, in their own time."""
_MAX_ANSWER = 4 * 1024 * 1024
"""Bytes: an object of the greatest size, as a patch in base64."""
_SERVICE_OF = "kubernetes.io/service-name"


class CallError(Exception):
    """There is no answer, or none of use. The message ends `failed to call webhook: `."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str
    """As it is called."""
    shown: str
    """As the reference writes it: with the name of a service, where that is what was configured."""
    server_name: str | None = None
    """Whom the certificate has to be of, where that is not the URL's host."""


class WebhookCaller:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._session: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def call(self, hook: ValidatingWebhook, review: Mapping[str, Any]) -> Any:
        """What came back, as JSON. Raises CallError."""
        seconds = hook.timeout_seconds or 10
        endpoint = await self._endpoint(hook)
        url = f"{endpoint.url}?timeout={seconds}s"
        failed = f'Post "{endpoint.shown}?timeout={seconds}s"'
        try:
            async with asyncio.timeout(seconds), self._turns:
                return await self._post(url, endpoint, hook.client_config.ca_bundle or "", review)
        except TimeoutError as error:
            raise CallError(f"{failed}: context deadline exceeded") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f"{failed}: {_in_words(error)}") from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, url: str, endpoint: Endpoint, bundle: str, review: Mapping[str, Any]) -> Any:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_AT_ONCE)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True, trust_env=False)
        async with self._session.post(
            url,
            data=orjson.dumps(review),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=_trust(bundle),
            server_hostname=endpoint.server_name,
            allow_redirects=False,
        ) as response:
            body = await response.content.read(_MAX_ANSWER + 1)
            while not response.content.at_eof() and len(body) <= _MAX_ANSWER:
                body += await response.content.read(_MAX_ANSWER + 1 - len(body))
            if len(body) > _MAX_ANSWER:
                raise ValueError(f"the answer is longer than {_MAX_ANSWER} bytes")
            if response.status != 200:
                text = body[:200].decode(errors="replace").strip()
                raise ValueError(f"the server answered {response.status} {response.reason or ''}: {text}".rstrip(": "))
            try:
                return orjson.loads(body)
            except orjson.JSONDecodeError as error:
                raise ValueError(f"couldn't get version/kind; json parse error: {error}") from error

    async def _endpoint(self, hook: ValidatingWebhook) -> Endpoint:
        """Raises CallError."""
        config = hook.client_config
        if config.service is not None:
            return await self._service(config.service)
        url = (config.url or "").rstrip("?")
        return Endpoint(url, url)

    async def _service(self, wanted: ServiceReference) -> Endpoint:
        """A service has no address of its own here: one of its endpoints is called, in the service's name."""
        port, path = wanted.port or 443, "/" + (wanted.path or "").lstrip("/")
        host = f"{wanted.name}.{wanted.namespace}.svc"
        shown = f"https://{host}:{port}{path}"
        failed = f'Post "{shown}"'
        services = await plugins.known(self._objects, Service, wanted.namespace)
        service = next((item for item in services if item.metadata.name == wanted.name), None)
        if service is None:
            raise CallError(f'{failed}: service "{wanted.name}" not found')
        if service.spec.type == "ExternalName":
            return Endpoint(f"https://{service.spec.external_name}:{port}{path}", shown, host)
        if all(item.port != port for item in service.spec.ports):
            raise CallError(f'{failed}: service "{wanted.name}" has no port {port}')
        name = next(item.name or "" for item in service.spec.ports if item.port == port)
        slices = await plugins.known(self._objects, EndpointSlice, wanted.namespace)
        found = _address([item for item in slices if item.metadata.labels.get(_SERVICE_OF) == wanted.name], name)
        if found is None:
            raise CallError(f'{failed}: no endpoints available for service "{wanted.name}"')
        return Endpoint(f"https://{found}{path}", shown, host)


def _address(slices: list[EndpointSlice], port_name: str) -> str | None:
    """Host and port of the first endpoint that is ready."""
    for item in slices:
        port = next((port.port for port in item.ports if (port.name or "") == port_name and port.port), None)
        for endpoint in item.endpoints:
            ready = (endpoint.conditions or {}).get("ready") is not False
            if port and ready and endpoint.addresses:
                host = endpoint.addresses[0]
                return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


@lru_cache(maxsize=64)
def _trust(bundle: str) -> ssl.SSLContext:
    """Trusts that bundle only; the system's authorities, where there is none."""
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))


def _in_words(error: Exception) -> str:
    """As Go says it, where users know it so."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else str(error.os_error)
        return f"dial tcp {error.host}:{error.port}: connect: {reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__
