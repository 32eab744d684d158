"""Representations, protobuf bodies, YAML, compression, logs: the small print of the wire."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest

from kubeapi.core import ConfigMap
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.server import logs, negotiation, protobuf, prototables
from kubeapi.server.negotiation import Form, Representation
from kubeapi.server.podhandlers import until_stopped
from tests.unit.server.conftest import Api, pod


def _field(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def test_protobuf_becomes_json() -> None:
    meta = _field(1, "web") + _field(11, _field(1, "app") + _field(2, "x")) + _field(8, b"") + bytes([7 << 3, 5])
    raw = _field(1, meta) + _field(15, "skipped") + _field(2, _field(1, "kubernetes"))
    body = protobuf.MAGIC + _field(1, _field(1, "v1") + _field(2, "Namespace")) + _field(2, raw)
    assert protobuf.decode(body, prototables.MESSAGES) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "web", "labels": {"app": "x"}, "generation": 5},
        "spec": {"finalizers": ["kubernetes"]},
    }


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, Representation()),
        ("*/*", Representation()),
        ("application/vnd.kubernetes.protobuf,application/json", Representation()),
        ("application/yaml", Representation(yaml=True)),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Representation(Form.TABLE)),
        ("application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/json;q=0.5", Representation()),
        ("application/json;q=0.1,application/yaml;q=0.9", Representation(yaml=True)),
        ("application/xml", None),
        ("application/json;as=Nonsense;v=v1;g=meta.k8s.io", None),
    ],
)
def test_negotiation(accept: str | None, expected: Representation | None) -> None:
    assert negotiation.choose(accept) == expected


async def test_yaml_both_ways_and_bodies_without_a_type(api: Api) -> None:
    body = "kind: ConfigMap\nmetadata: {name: cm}\ndata: {day: '2026-01-01', on: 'yes'}\n"
    created = await api.call("POST", "/api/v1/namespaces/demo/configmaps", body, content_type="application/yaml")
    assert created.body["data"] == {"day": "2026-01-01", "true": "yes"}  # `on` is a boolean in YAML 1.1
    body = body.replace("on:", "'on':").replace("name: cm", "name: cm2")
    created = await api.call("POST", "/api/v1/namespaces/demo/configmaps", body, content_type="application/yaml")
    assert created.body["data"] == {"day": "2026-01-01", "on": "yes"}
    shown = await api.call("GET", "/api/v1/namespaces/demo/configmaps/cm", accept="application/yaml")
    assert shown.headers["Content-Type"] == "application/yaml"
    bare = await api.call("POST", "/api/v1/namespaces/demo/configmaps", {"metadata": {"name": "bare"}})
    assert (bare.status, bare.body["kind"]) == (201, "ConfigMap")


async def test_long_answers_are_compressed_for_who_wants_that(api: Api) -> None:
    meta = ObjectMeta(name="big", namespace="demo")
    await api.objects.create(ConfigMap(metadata=meta, data={"x": "y" * 200_000}))
    headers = {"Authorization": "Bearer secret", "Accept-Encoding": "gzip"}
    path = "/api/v1/namespaces/demo/configmaps"
    async with api.client.get(path, headers=headers, auto_decompress=False) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        packed = await response.read()
    assert len(packed) < 20_000
    assert b"y" * 200_000 in gzip.decompress(packed)


def test_the_container_of_a_log() -> None:
    one = pod("web")
    assert logs.container_of(one, "") == "c1"
    two = pod("web", initContainers=[{"name": "i1", "image": "x"}])
    two.spec.containers.append(two.spec.containers[0].model_copy(update={"name": "c2"}))
    with pytest.raises(ApiError) as refused:
        logs.container_of(two, "")
    assert refused.value.message == (
        "a container name must be specified for pod web, choose one of: [c1 c2] or one of the init containers: [i1]"
    )
    assert logs.container_of(two, "i1") == "i1"


async def test_logs_of_an_offline_node_are_refused_before_anything_is_sent(api: Api) -> None:
    await api.objects.create(pod("web", nodeName="n1"))
    answer = await api.call("GET", "/api/v1/namespaces/demo/pods/web/log")
    assert (answer.status, answer.body["reason"]) == (503, "ServiceUnavailable")
    bad = await api.call("GET", "/api/v1/namespaces/demo/pods/web/log?tailLines=-1")
    assert (bad.status, bad.body["details"]["kind"]) == (422, "PodLogOptions")


async def test_a_log_source_is_closed_with_its_reader() -> None:
    closed = []

    async def source() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"line\n"
        finally:
            closed.append(True)

    reader = until_stopped(source(), asyncio.Event())
    assert await anext(reader) == b"line\n"
    await reader.aclose()
    assert closed == [True]
