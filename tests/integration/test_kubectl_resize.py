"""What a real server answered to each recorded resize, told to real kubectl in the same words (S-71, S-72)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from kubeapi.core import LimitRange, Namespace, Pod
from kubeapi.meta import KubeObject, ObjectMeta
from tests.integration.test_kubectl_api import Cluster, running_cluster
from tests.unit.kubeapi.test_resize_cases import CASES, LIMITS, NODES, _pod, _recorded

pytestmark = pytest.mark.asyncio(loop_scope="module")

TYPES = {"application/merge-patch+json": "merge", "application/strategic-merge-patch+json": "strategic"}
"""What kubectl calls them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path_factory.mktemp("resizes")) as cluster:
        for node in NODES.values():
            await _put(cluster, node)
        yield cluster


async def _put(cluster: Cluster, obj: KubeObject) -> None:
    """As a recording has it, without defaulting or validation."""
    await cluster.objects.store.commit(replace(cluster.objects.encode_put(obj, None), replace=True))


async def _as_before(cluster: Cluster, case: dict[str, Any], namespace: str) -> str:
    """The recorded pod, in a namespace of its own; returns its name."""
    await cluster.objects.create(Namespace(metadata=ObjectMeta(name=namespace)))
    if case["case"].startswith("err_lr"):
        meta = {"name": "limits", "namespace": namespace}
        await cluster.objects.create(LimitRange.from_dict({**LIMITS.to_dict(), "metadata": meta}))
    if case["before"] is None:
        return "nope"
    pod = _pod(case)
    pod.metadata.namespace = namespace
    pod.metadata.uid = f"uid-{namespace}"
    if "terminal" in case["case"]:
        pod.status.phase = "Succeeded"
    if "terminating" in case["case"]:
        pod.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
        pod.metadata.deletion_grace_period_seconds = 30
    await _put(cluster, pod)
    return pod.metadata.name


def _message(said: str) -> str:
    """The Status' reason and message as kubectl was told them, out of how it tells them: of an Invalid the causes,
    one a line where there are several."""
    said = said.rstrip("\n")
    if not said.startswith("The "):
        reason, _, message = said.removeprefix("Error from server (").partition("): ")
        return f"{reason}: {message}"
    # "The request" is for kubectl what has neither kind nor name; the server says ` ""` of it.
    head, *causes = said.removeprefix("The ").replace("request is invalid", ' "" is invalid', 1).split("\n* ")
    return f"Invalid: {head}[{', '.join(causes)}]" if causes else f"Invalid: {head}"


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=[case["case"] for case in CASES])
async def test_s71_s72_kubectl_is_told_what_was_recorded(shared: Cluster, number: int, case: dict[str, Any]) -> None:
    """S-71, S-72: reason and message, or the pod afterwards."""
    namespace = f"case-{number}"
    name = await _as_before(shared, case, namespace)
    before = None if case["before"] is None else await shared.objects.get(Pod, namespace, name)
    patch = ("--type", TYPES[case["contentType"]], "--patch", json.dumps(case["patch"]))
    ran = await shared.kubectl("patch", "pod", name, "-n", namespace, "--subresource=resize", *patch, "-o", "json")
    if case["expectStatus"] != 200:
        assert _message(ran.refused()) == f"{case['expectReason']}: {case['expectMessage']}"
        assert before is None or await shared.objects.get(Pod, namespace, name) == before, "nothing was changed"
        return
    assert before is not None
    after = Pod.from_dict(json.loads(ran.ok()))
    assert _recorded(after) == case["after"]
    assert (after.metadata.resource_version == before.metadata.resource_version) is case["unchanged"]
    assert after.metadata.labels == before.metadata.labels
    assert [item.image for item in after.spec.containers] == [item.image for item in before.spec.containers]
