"""HTTP answers: JSON or YAML, compressed where that pays, errors as `Status` objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import yaml
from aiohttp import web

from kubeapi.errors import ApiError

_GZIP_FROM = 128 * 1024
"""Bytes; below, compressing costs more than it saves (the reference's threshold)."""
NO_CACHE = "no-cache, private"
_WARNED, _WARNING_CUT, _WARNINGS = 4096, 256, 64


def answer(
    request: web.Request,
    data: Any,
    status: int = 200,
    *,
    content_type: str = "application/json",
    cache: str = NO_CACHE,
    headers: Mapping[str, str] | None = None,
    as_yaml: bool = False,
) -> web.Response:
    body = orjson.dumps(data)
    if as_yaml:
        body = yaml.safe_dump(orjson.loads(body), sort_keys=False).encode()
        content_type = "application/yaml"
    all_headers = {"Content-Type": content_type, "Cache-Control": cache, **(headers or {})}
    response = web.Response(body=body, status=status, headers=all_headers)
    if len(body) >= _GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.headers["Vary"] = "Accept-Encoding"
        response.enable_compression(web.ContentCoding.gzip)
    return response


def failure(request: web.Request, error: ApiError) -> web.Response:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="copepod"'
    return answer(request, error.to_dict(), error.code, headers=headers)


def warnings(messages: Iterable[str]) -> list[tuple[str, str]]:
    """`Warning` headers as RFC 7234 and client-go want them: code 299, no agent, quoted text.

    Each is said once. When they are more than 4096 characters together, each is cut to 256 and those that exceed the
    4096 even so are left out (both as in the reference); never more than 64, because Python's http.client refuses an
    answer of more than a hundred headers.
    """
    said = list(dict.fromkeys(messages))
    if sum(map(len, said)) > _WARNED:
        said = [message[:_WARNING_CUT] for message in said]
    lengths = itertools.accumulate(map(len, said))
    fitting = [message for message, length in zip(said, lengths, strict=True) if length <= _WARNED]
    return [("Warning", f"299 - {_quoted(message)}") for message in fitting[:_WARNINGS]]


def _quoted(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cut(request: web.Request) -> None:
    """Break the connection off: the client must not take what it has got for the whole."""
    if request.transport:
        request.transport.abort()
