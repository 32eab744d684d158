"""The little of a Kubernetes client that the lab itself needs: wait for the API and for all nodes, play scenarios.

The lab must come up where no kubectl is installed, so it asks by HTTPS with the kubeconfig's own credential.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from edgelab.waiting import until_none


class ApiUnavailable(Exception):
    """The API did not answer, or not as expected."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a kubeconfig's current context comes down to."""

    server: str
    authority: str
    """PEM."""
    token: str
    certificate: bytes
    """PEM of certificate and key together; empty where a token is used."""


def read_kubeconfig(path: Path) -> Credential:
    """Raises ApiUnavailable. Only inline data is read: a kubeconfig that leaves its machine must be whole."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return Credential(
            server=cluster["server"],
            authority=base64.b64decode(cluster["certificate-authority-data"]).decode(),
            token=user.get("token", ""),
            certificate=base64.b64decode(user.get("client-certificate-data", ""))
            + base64.b64decode(user.get("client-key-data", "")),
        )
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        raise ApiUnavailable(f"{path} is not a kubeconfig we can use: {error!r}") from error


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {entry["name"]: entry for entry in entries}[name]


def ready_nodes(listing: dict[str, Any]) -> frozenset[str]:
    """Names of the nodes whose condition Ready is True, from a NodeList."""
    return frozenset(
        node["metadata"]["name"]
        for node in listing.get("items", ())
        for condition in node.get("status", {}).get("conditions", ())
        if condition.get("type") == "Ready" and condition.get("status") == "True"
    )


class Client:
    """One request at a time, a connection each: it lives for seconds."""

    def __init__(self, kubeconfig: Path) -> None:
        self._credential = read_kubeconfig(kubeconfig)
        self._tls = _context(self._credential)

    async def get(self, path: str) -> dict[str, Any]:
        """Raises ApiUnavailable."""
        status, body = await self.call("GET", path)
        if status != 200:
            raise ApiUnavailable(f"GET {path}: {status} {body.get('message', '')}")
        return body

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Status code and answer, whatever they say. Raises ApiUnavailable where there is no answer."""
        token = self._credential.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {} if body is None else {"Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        timeout = aiohttp.ClientTimeout(total=10)
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
                session.request(method, self._credential.server + path, data=data, ssl=self._tls) as response,
            ):
                answer: dict[str, Any] = await response.json()
                return response.status, answer
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiUnavailable(f"{method} {path}: {error!r}") from error

    async def wait_nodes(self, names: frozenset[str], timeout: float) -> None:
        """Return when all of `names` are Ready. Raises NotReached, naming what is missing."""

        async def look() -> str | None:
            try:
                missing = sorted(names - ready_nodes(await self.get("/api/v1/nodes")))
            except ApiUnavailable as error:
                return str(error)
            return f"{len(missing)} are not: {', '.join(missing[:5])}" if missing else None

        await until_none(look, f"all {len(names)} nodes Ready", timeout)


def _context(credential: Credential) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=credential.authority)
    if credential.certificate:
        with tempfile.NamedTemporaryFile() as file:  # mode 0600; the ssl module reads keys from files only
            file.write(credential.certificate)
            file.flush()
            context.load_cert_chain(file.name)
    return context
