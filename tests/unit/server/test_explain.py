"""The texts of `kubectl explain`: there for what people look up, and about nothing that does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubeapi.core import Container, ContainerStatus, NodeSpec, NodeStatus, PodSpec, PodStatus
from kubeapi.meta import KubeModel, ObjectMeta
from kubeapi.requirements import ContainerResizePolicy, ResourceRequirements
from kubeapi.resource import ResourceType
from kubeapi.resources import ALL, REGISTRY
from kubeapi.server import fielddocs
from kubeapi.server.openapi import Documents

PARTS = (
    Container,
    ContainerResizePolicy,
    ContainerStatus,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)


def untold(model: type[KubeModel]) -> list[str]:
    texts = fielddocs.of(model)
    return [info.alias or name for name, info in model.model_fields.items() if not texts.get(info.alias or name)]


@pytest.mark.parametrize("resource", ALL, ids=lambda item: str(item.kind))
def test_every_kind_and_its_fields_are_explained(resource: ResourceType[Any]) -> None:
    assert untold(resource.model) == []
    assert resource.model.__doc__ or fielddocs.of(resource.model).get("_")


@pytest.mark.parametrize("model", PARTS, ids=lambda item: str(item.__name__))
def test_what_copepod_acts_upon_is_explained(model: type[KubeModel]) -> None:
    assert untold(model) == []


def _models(base: type[KubeModel] = KubeModel) -> Iterator[type[KubeModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def test_no_text_is_about_what_does_not_exist() -> None:
    known: dict[str, set[str]] = {"KubeObject": {"spec", "status"}}
    for model in _models():
        aliases = {info.alias or name for name, info in model.model_fields.items()}
        known[model.__name__] = known.get(model.__name__, {"_"}) | aliases
    for name, texts in fielddocs.written().items():
        assert texts.keys() <= known.get(name, texts.keys()), name


def test_the_texts_are_in_the_documents() -> None:
    schemas = Documents(REGISTRY).document("api/v1")
    assert schemas is not None
    found = schemas["components"]["schemas"]
    assert found["io.k8s.api.core.v1.Pod"]["description"].startswith("Small virtual machines")
    assert found["io.k8s.api.core.v1.PodSpec"]["properties"]["nodeName"]["description"].startswith("The node it runs")
    limits = found["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert "millicores" in limits["description"]
    kind = found["io.k8s.api.core.v1.Secret"]["properties"]["kind"]
    assert kind["description"] == "The kind of object: Secret."
