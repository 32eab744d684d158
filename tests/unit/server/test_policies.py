"""What other objects decide of a pod: quotas, disruption budgets, priority and runtime classes, accounts' tokens."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kubeapi.core import Pod, ServiceAccount
from kubeapi.errors import ApiError
from kubeapi.policies import PodDisruptionBudget, PriorityClass, ResourceQuota, RuntimeClass
from kubeapi.server.builtins import ensure_priority_classes
from kubeapi.server.keeping import StatusKeeper
from tests.unit.server.conftest import Api

PODS = "/api/v1/namespaces/demo/pods"


def wish(name: str, cpu: str | None = "250m", **spec: Any) -> Pod:
    container: dict[str, Any] = {"name": "vm", "image": "copepod/micro:latest"}
    if cpu:
        amounts = {"cpu": cpu, "memory": "96Mi"}
        container["resources"] = {"limits": amounts, "requests": amounts}
    meta = {"name": name, "namespace": "demo", "labels": {"app": "web"}}
    return Pod.from_dict({"metadata": meta, "spec": {"containers": [container]} | spec})


async def quota(api: Api, **hard: str) -> ResourceQuota:
    named = {name.replace("_", "."): value for name, value in hard.items()}
    body = {"metadata": {"name": "small", "namespace": "demo"}, "spec": {"hard": named}}
    return await api.objects.create(ResourceQuota.from_dict(body))


async def test_a_quota_bounds_what_pods_ask_for_and_how_many_there_are(api: Api) -> None:
    await quota(api, requests_cpu="600m", pods="3")
    await api.objects.create(wish("a"))
    await api.objects.create(wish("b"))
    with pytest.raises(ApiError) as refused:
        await api.objects.create(wish("c"))
    assert refused.value.code == 403
    assert refused.value.message == (
        'pods "c" is forbidden: exceeded quota: small, requested: requests.cpu=250m, used: requests.cpu=500m, '
        "limited: requests.cpu=600m"
    )
    with pytest.raises(ApiError, match=r"must specify requests\.cpu for: vm"):
        await api.objects.create(wish("d", cpu=None))
    await api.objects.delete(Pod, "demo", "a", grace_seconds=0)
    await api.objects.create(wish("c"))


async def test_a_quota_is_not_overrun_by_many_at_once(api: Api) -> None:
    await quota(api, pods="5")
    made = await asyncio.gather(*(api.objects.create(wish(f"p{i}")) for i in range(20)), return_exceptions=True)
    assert sum(isinstance(item, Pod) for item in made) == 5


async def test_a_resize_is_bounded_by_the_quota_too(api: Api) -> None:
    await quota(api, requests_cpu="1")
    await api.objects.create(wish("a"))
    amounts = {"cpu": "2", "memory": "96Mi"}
    patch = {"spec": {"containers": [{"name": "vm", "resources": {"limits": amounts, "requests": amounts}}]}}
    answer = await api.call("PATCH", f"{PODS}/a/resize", patch, content_type="application/strategic-merge-patch+json")
    assert answer.status == 403
    assert "exceeded quota: small, requested: requests.cpu=1750m, used: requests.cpu=250m" in answer.body["message"]


async def test_the_status_of_a_quota_is_what_there_is(api: Api) -> None:
    await quota(api, requests_cpu="1", pods="3")
    await api.objects.create(wish("a"))
    await api.objects.create(wish("b"))
    await StatusKeeper(api.objects).refresh("demo")
    status = (await api.objects.get(ResourceQuota, "demo", "small")).status
    assert (status.hard, status.used) == ({"requests.cpu": "1", "pods": "3"}, {"requests.cpu": "500m", "pods": "2"})


async def test_an_eviction_asks_the_disruption_budget(api: Api) -> None:
    for name in ("a", "b"):
        made = await api.objects.create(wish(name))
        await api.objects.bind("demo", name, "n1")
        made = await api.objects.get(Pod, "demo", name)
        made.status = made.status.from_dict({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        await api.objects.update_status(made)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    body = {"metadata": {"name": "keep-one", "namespace": "demo"}, "spec": spec}
    await api.objects.create(PodDisruptionBudget.from_dict(body))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "demo"}}
    answers = [
        await api.call("POST", f"{PODS}/{name}/eviction", eviction | {"metadata": {"name": name, "namespace": "demo"}})
        for name in ("a", "b")
    ]
    assert [answer.status for answer in answers] == [201, 429]
    assert answers[1].body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = answers[1].body["details"]["causes"][0]
    assert cause["message"] == "The disruption budget keep-one needs 1 healthy pods and has 1 currently"
    told = [(await api.objects.get(Pod, "demo", name)).status.condition("DisruptionTarget") for name in ("a", "b")]
    assert told[0]
    assert (told[0].reason, told[0].message, told[1]) == ("EvictionByEvictionAPI", "Eviction API: evicting", None)


async def test_priority_comes_from_the_class(api: Api) -> None:
    await ensure_priority_classes(api.objects)
    await ensure_priority_classes(api.objects)  # a hub that starts again
    body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    await api.objects.create(PriorityClass.from_dict(body))
    high = await api.objects.create(wish("a", priorityClassName="high"))
    assert (high.spec.priority, high.spec.preemption_policy) == (1000, "Never")
    critical = await api.objects.create(wish("b", priorityClassName="system-node-critical"))
    assert critical.spec.priority == 2000001000
    assert (await api.objects.create(wish("c"))).spec.priority == 0
    with pytest.raises(ApiError, match="no PriorityClass with name nope was found"):
        await api.objects.create(wish("d", priorityClassName="nope"))
    with pytest.raises(ApiError, match="must not be provided in pod spec"):
        await api.objects.create(wish("e", priority=7))


async def test_a_runtime_class_gives_overhead_and_place(api: Api) -> None:
    body = {
        "metadata": {"name": "micro"},
        "handler": "copepod",
        "overhead": {"podFixed": {"memory": "64Mi", "cpu": "10m"}},
        "scheduling": {"nodeSelector": {"kvm": "yes"}},
    }
    await api.objects.create(RuntimeClass.from_dict(body))
    made = await api.objects.create(wish("a", runtimeClassName="micro"))
    assert made.spec.overhead == {"memory": "64Mi", "cpu": "10m"}
    assert made.spec.node_selector == {"kvm": "yes"}
    with pytest.raises(ApiError, match='RuntimeClass "none" not found'):
        await api.objects.create(wish("b", runtimeClassName="none"))
    with pytest.raises(ApiError, match="Pod Overhead set without corresponding RuntimeClass"):
        await api.objects.create(wish("c", overhead={"memory": "1Mi"}))


async def test_an_accounts_token_is_good_until_it_expires_or_the_account_goes(api: Api) -> None:
    account = await api.objects.create(ServiceAccount.from_dict({"metadata": {"name": "robot", "namespace": "demo"}}))
    path = "/api/v1/namespaces/demo/serviceaccounts/robot/token"
    answer = await api.call("POST", path, {"spec": {"expirationSeconds": 600}})
    assert answer.status == 201
    token = answer.body["status"]["token"]

    async def ask(bearer: str) -> int:
        response = await api.client.get(PODS, headers={"Authorization": f"Bearer {bearer}"})
        return response.status

    assert await ask(token) == 200
    review = await api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert (review.status, review.body["status"]["authenticated"]) == (201, True)
    assert review.body["status"]["user"]["username"] == "system:serviceaccount:demo:robot"
    head, claims, signature = token.split(".")
    forged = signature[:-2] + ("AA" if signature[-2:] != "AA" else "BB")
    assert await ask(f"{head}.{claims}.{forged}") == 401
    assert await ask("not.a.token") == 401
    refused = await api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "not.a.token"}})
    assert refused.body["status"] == {"user": {}, "error": "invalid bearer token"}
    api.clock.moment += timedelta(seconds=601)
    assert await ask(token) == 401
    api.clock.moment -= timedelta(seconds=601)
    await api.objects.delete(ServiceAccount, "demo", "robot", uid=account.metadata.uid)
    assert await ask(token) == 401
    short = await api.call("POST", path.replace("robot", "none"), {"spec": {}})
    assert short.status == 404


async def test_reviews_of_what_others_may_do(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1"
    wish = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    allowed = await api.call("POST", f"{path}/subjectaccessreviews", {"spec": wish | {"groups": ["system:masters"]}})
    assert (allowed.status, allowed.body["status"]["allowed"]) == (201, True)
    nobody = await api.call("POST", f"{path}/subjectaccessreviews", {"spec": wish})
    assert nobody.status == 422
    assert "at least one of user or group must be specified" in nobody.body["message"]
    local = f"{path}/namespaces/demo/localsubjectaccessreviews"
    assert (await api.call("POST", local, {"spec": wish | {"user": "bob"}})).status == 201
    assert (await api.call("POST", f"{path}/localsubjectaccessreviews", {"spec": wish})).status == 404
