"""A whole hub, controllers and all, asked by schemathesis for everything that its own OpenAPI documents promise."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.livehub import LiveHub, live_hub

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
SAMPLE = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MANY = settings(SAMPLE, max_examples=200, derandomize=False)
PATIENCE = 20


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

    def documents(self) -> list[Any]:
        index = self.get("/openapi/v3")["paths"].values()
        return [self.get("/openapi/v2"), *(self.get(item["serverRelativeURL"]) for item in index)]

    def everything(self, document: Any, how: settings) -> int:
        """How many operations there were."""
        operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
        for operation in operations:
            how(given(operation.as_strategy())(self._ask))()
        return len(operations)

    def _ask(self, case: schemathesis.Case) -> None:
        answer = case.call(
            base_url=self.hub.url, session=self.session, verify=str(self.session.verify), timeout=PATIENCE
        )
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            status = answer.json()
            assert (status["kind"], status["code"]) == ("Status", answer.status_code)
            assert status["message"]
            assert status["reason"]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with live_hub(tmp_path_factory.mktemp("fuzz"), nodes=1) as hub:
        asking = Asking(hub)
        yield asking
        asking.session.close()


def test_what_the_documents_promise(asking: Asking, caplog: pytest.LogCaptureFixture) -> None:
    counts = [asking.everything(document, SAMPLE) for document in asking.documents()]
    assert sum(counts) > 300
    nothing_failed(asking, caplog)


@pytest.mark.long
def test_what_the_documents_promise_for_long(asking: Asking, caplog: pytest.LogCaptureFixture) -> None:
    for document in asking.documents():
        asking.everything(document, MANY)
    nothing_failed(asking, caplog)


def nothing_failed(asking: Asking, caplog: pytest.LogCaptureFixture) -> None:
    """The controllers saw all of it, and live."""
    assert asking.get("/version")["major"] == "1"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
