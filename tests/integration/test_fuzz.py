"""A whole hub, controllers and all, asked by schemathesis for everything that its own OpenAPI documents promise."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kubeapi.resource import ResourceType
from tests.support.livehub import LiveHub, live_hub
from tests.support.randomobjects import KINDS, name_of, objects, plain

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
SAMPLE = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MANY = settings(SAMPLE, max_examples=25, derandomize=False)
LIVES, MANY_LIVES = settings(SAMPLE, max_examples=6), settings(MANY, max_examples=40)
LONG = [pytest.mark.long, pytest.mark.timeout(3600)]
AIMS = (True, True, True, False)
"""How often a request that names an object names one that is there."""
NAMESPACE = "default"
PATIENCE = 60.0


def collection_of(resource: ResourceType[Any]) -> str:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"


COLLECTIONS = {collection_of(resource): resource for resource in KINDS}


@dataclass
class Asking:
    hub: LiveHub
    session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        state = self.hub.kubeconfig.parent
        self.session.trust_env = False  # a CA bundle in the environment would be preferred
        self.session.verify = str(state / "ca.crt")
        self.session.headers["Authorization"] = f"Bearer {(state / 'admin.token').read_text().strip()}"

    def get(self, path: str) -> Any:
        answer = self.session.get(self.hub.url + path, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.json()

    def send(self, method: str, path: str, body: Any) -> int:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.session.request(
            method, self.hub.url + path, data=json.dumps(body), headers={"Content-Type": kind}, timeout=PATIENCE
        )
        assert answer.status_code < 500, (method, path, body, answer.text)
        return answer.status_code

    def documents(self) -> list[Any]:
        """Version 2 shows kubectl the same again, and not whole."""
        index = self.get("/openapi/v3")["paths"].values()
        return [self.get(item["serverRelativeURL"]) for item in index]

    def everything(self, document: Any, how: settings) -> Counter[tuple[bool, int]]:
        """How often each was answered, by whether it named an object and by status."""
        answers: Counter[tuple[bool, int]] = Counter()
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = found.ok()

            def ask(case: schemathesis.Case, aims: bool) -> None:
                if aims:
                    self._aim(case)
                answers["{name}" in case.path, self._ask(case)] += 1

            how(given(operation.as_strategy(), st.sampled_from(AIMS))(ask))()
        return answers

    def _aim(self, case: schemathesis.Case) -> None:
        """At a namespace and an object that are there, where the hub can be asked to make one of its kind."""
        for collection, resource in COLLECTIONS.items():
            if case.path == collection:
                case.path_parameters = {"namespace": NAMESPACE}
            if case.path.startswith(collection + "/{name}"):
                self.send("POST", collection.format(namespace=NAMESPACE), plain(resource))
                case.path_parameters = {"namespace": NAMESPACE, "name": name_of(resource)}
                if isinstance(case.body, dict) and isinstance(case.body.setdefault("metadata", {}), dict):
                    case.body["metadata"] |= {"name": name_of(resource), "namespace": NAMESPACE}

    def _ask(self, case: schemathesis.Case) -> int:
        answer = case.call(
            base_url=self.hub.url, session=self.session, verify=str(self.session.verify), timeout=PATIENCE
        )
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            status = answer.json()
            assert (status["kind"], status["code"]) == ("Status", answer.status_code)
            assert status["message"]
            assert status["reason"]
        return answer.status_code


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with live_hub(tmp_path_factory.mktemp("fuzz"), nodes=1) as hub:
        asking = Asking(hub)
        yield asking
        asking.session.close()


@pytest.mark.parametrize("how", [SAMPLE, pytest.param(MANY, marks=LONG)], ids=["sample", "long"])
def test_what_the_documents_promise(asking: Asking, caplog: pytest.LogCaptureFixture, how: settings) -> None:
    answers = sum((asking.everything(document, how) for document in asking.documents()), Counter[tuple[bool, int]]())
    named = Counter({status: times for (is_named, status), times in answers.items() if is_named})
    print(f"of {answers.total()} requests {named.total()} named an object; those were answered {named}")
    assert answers.total() > 250 * how.max_examples
    assert named[404] < named.total() / 2, "most of what is named is there"
    assert named[200] > named.total() / 3, "and is written to"
    nothing_failed(asking, caplog)


WATCHED = (
    "pods",
    "nodes",
    "deployments",
    "replicasets",
    "daemonsets",
    "statefulsets",
    "jobs",
    "cronjobs",
    "services",
    "poddisruptionbudgets",
    "resourcequotas",
    "limitranges",
    "persistentvolumeclaims",
    "customresourcedefinitions",
)
"""Kinds that controllers, scheduler, janitors and nodes act upon."""


def lived_through(asking: Asking, resource: ResourceType[Any], data: st.DataObject) -> None:
    """Made, its spec and its status changed at random, and left lying about."""
    path = collection_of(resource).format(namespace=NAMESPACE)
    name = name_of(resource)
    if asking.send("POST", path, data.draw(objects(resource))) != 201:
        asking.send("POST", path, plain(resource))
    status = f"{path}/{name}/status"
    for where in (f"{path}/{name}", status, status):
        asking.send("PATCH", where, data.draw(objects(resource)))
    if data.draw(st.booleans()):
        asking.send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})


@pytest.mark.parametrize("how", [LIVES, pytest.param(MANY_LIVES, marks=LONG)], ids=["sample", "long"])
def test_controllers_live_through_whatever_is_stored(
    asking: Asking, caplog: pytest.LogCaptureFixture, how: settings
) -> None:
    watched = [resource for resource in KINDS if resource.plural in WATCHED]
    how(given(st.data())(lambda data: [lived_through(asking, resource, data) for resource in watched] and None))()
    asking.send("POST", "/api/v1/namespaces", {"metadata": {"name": "calm"}})
    deployment = plain(next(resource for resource in KINDS if resource.plural == "deployments"))
    assert asking.send("POST", "/apis/apps/v1/namespaces/calm/deployments", deployment) == 201
    deadline = time.monotonic() + PATIENCE
    while not asking.get("/api/v1/namespaces/calm/pods")["items"]:
        assert time.monotonic() < deadline, "a plain Deployment gets its pod"
    nothing_failed(asking, caplog)


def nothing_failed(asking: Asking, caplog: pytest.LogCaptureFixture) -> None:
    """The controllers saw all of it, and live."""
    assert asking.get("/version")["major"] == "1"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
