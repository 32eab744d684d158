"""A real webhook: HTTPS with a certificate of its own, answering as the test says, remembering what it was asked."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Respond = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Webhook:
    url: str
    port: int
    bundle: str
    """The CA's certificate, as `caBundle` wants it."""
    respond: dict[str, Respond] = field(default_factory=dict)
    """By path: what of the response differs from a plain `allowed`."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    silent: bool = False
    """Takes requests and never answers."""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        self.asked.append(asked)
        self.called.set()
        if self.silent:
            await asyncio.sleep(3600)
        more = self.respond.get(request.path, lambda _: {})(asked)
        response = {"uid": asked["uid"], "allowed": True} | more
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def client(self, path: str = "/") -> dict[str, Any]:
        return {"url": f"{self.url}{path}", "caBundle": self.bundle}


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@asynccontextmanager
async def webhook(directory: Path, service: str = "hook.default.svc") -> AsyncIterator[Webhook]:
    """Its certificate is for 127.0.0.1 and the name of a service."""
    certificate = _certificate(directory, service)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "webhook.pem")
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    found = Webhook("", 0, base64.b64encode(certificate).decode())
    app.router.add_post("/{path:.*}", found.handle)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        found.port = int(runner.addresses[0][1])
        found.url = f"https://127.0.0.1:{found.port}"
        yield found
    finally:
        await runner.cleanup()


def _certificate(directory: Path, service: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(service)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "webhook.pem").write_bytes(private + certificate)
    return certificate
