"""The version 2 document. That its protobuf is read, and understood, is shown by kubectl (`explain --output
plaintext-openapiv2`, tests/data/clients)."""

from __future__ import annotations

import json

from tests.unit.server.conftest import Api


async def test_every_reference_of_the_document_leads_somewhere(api: Api) -> None:
    document = (await api.call("GET", "/openapi/v2")).body
    definitions = document["definitions"]
    text = json.dumps(document)
    wanted = {part.partition('"')[0] for part in text.split('"#/definitions/')[1:]}
    assert wanted
    assert wanted <= definitions.keys()
    assert "components" not in text
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    spec = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    assert "hostNetwork" in spec, "what is only kept is there, too"


async def test_clients_find_which_parameters_a_patch_takes(api: Api) -> None:
    document = (await api.call("GET", "/openapi/v2")).body
    patch = document["paths"]["/api/v1/namespaces/{name}"]["patch"]
    assert "fieldValidation" in {item["name"] for item in patch["parameters"]}
