"""Admission as users meet it: real kubectl, a real HTTPS webhook, policies in CEL, and what RBAC answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeapi.core import ConfigMap, ServiceAccount
from kubeapi.errors import ApiError
from kubeapi.meta import ObjectMeta
from kubeapi.network import EndpointSlice
from kubeapi.server.builtins import ensure_roles
from tests.integration.test_kubectl_api import Cluster, cluster, manifest
from tests.support.webhookserver import Webhook, patch, webhook

__all__ = ["cluster"]

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  variables:
  - {name: wished, expression: object.spec.replicas}
  validations:
  - expression: variables.wished <= 5
    messageExpression: "'at most 5 replicas, not ' + string(variables.wished)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas-everywhere}
spec:
  policyName: few-replicas
  validationActions: [Deny]
"""


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with webhook(tmp_path) as found:
        yield found


def configuration(kind: str, hook: dict[str, Any], **more: Any) -> str:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    given = {
        "name": "hook.example.com",
        "clientConfig": hook,
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    data = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
    return json.dumps(data | {"metadata": {"name": "hook"}, "webhooks": [given | more]})


async def apply(cluster: Cluster, text: str) -> str:
    return (await cluster.kubectl("apply", "-f", "-", stdin=text)).ok()


async def test_a_validating_webhook_refuses_and_warns(cluster: Cluster, hook: Webhook) -> None:
    def respond(asked: dict[str, Any]) -> dict[str, Any]:
        bad = asked["operation"] == "CREATE" and asked["object"]["metadata"]["name"] == "bad"
        refused = {"allowed": False, "status": {"message": "no bad names", "code": 403}}
        return {"warnings": ["think again"]} | (refused if bad else {})

    hook.respond["/check"] = respond
    assert await apply(cluster, configuration("Validating", hook.client("/check"))) == (
        "validatingwebhookconfiguration.admissionregistration.k8s.io/hook created\n"
    )
    refused = await cluster.kubectl("create", "configmap", "bad")
    assert 'admission webhook "hook.example.com" denied the request: no bad names' in refused.refused()
    assert "Warning: think again" in refused.err
    made = await cluster.kubectl("create", "configmap", "good", "--from-literal=a=1")
    assert made.ok() == "configmap/good created\n"
    assert "Warning: think again" in made.err
    (await cluster.kubectl("create", "configmap", "trial", "--dry-run=server")).ok()
    (await cluster.kubectl("delete", "configmap", "good")).ok()

    good = next(item for item in hook.asked if item["name"] == "good")
    assert good["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert good["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert good["userInfo"]["username"] == "admin"
    assert good["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert (good["object"]["data"], good["oldObject"], good["dryRun"]) == ({"a": "1"}, None, False)
    assert [item["dryRun"] for item in hook.asked if item["name"] == "trial"] == [True]
    deleted = next(item for item in hook.asked if item["operation"] == "DELETE")
    assert (deleted["object"], deleted["oldObject"]["metadata"]["name"]) == (None, "good")
    names = (await cluster.kubectl("get", "validatingwebhookconfigurations", "--no-headers")).ok()
    assert names.split()[:2] == ["hook", "1"]


async def test_a_mutating_webhook_changes_what_is_stored(cluster: Cluster, hook: Webhook) -> None:
    labels = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
    hook.respond["/change"] = lambda _: patch(labels, {"op": "add", "path": "/data", "value": {"more": "1"}})
    conditions = [{"name": "not-ours", "expression": "!object.metadata.name.startsWith('kube-')"}]
    text = configuration("Mutating", hook.client("/change"), matchConditions=conditions)
    await apply(cluster, text)
    (await cluster.kubectl("create", "configmap", "one")).ok()
    (await cluster.kubectl("create", "configmap", "kube-one")).ok()
    one = await cluster.objects.get(ConfigMap, "default", "one")
    assert (one.metadata.labels, one.data) == ({"seen": "yes"}, {"more": "1"})
    assert (await cluster.objects.get(ConfigMap, "default", "kube-one")).data == {}
    assert [item["name"] for item in hook.asked] == ["one"]

    hook.respond["/change"] = lambda _: patch({"op": "remove", "path": "/nothing/there"})
    with pytest.raises(ApiError, match=r'failed calling webhook "hook\.example\.com"'):
        await cluster.objects.update(one)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_that_does_not_answer_holds_up_its_own_requests_only(
    cluster: Cluster, hook: Webhook, policy: str
) -> None:
    hook.silent = True
    more = {"failurePolicy": policy, "timeoutSeconds": 1}
    await apply(cluster, configuration("Validating", hook.client("/slow"), **more))
    wish = ConfigMap(metadata=ObjectMeta(name="one", namespace="default"))
    waiting = asyncio.create_task(cluster.objects.create(wish))
    await hook.called.wait()
    other = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))
    await cluster.objects.create(other)
    assert not waiting.done()
    if policy == "Ignore":
        assert (await waiting).metadata.name == "one"
        return
    with pytest.raises(ApiError) as error:
        await waiting
    failed = 'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: Post'
    assert error.value.message == f'{failed} "{hook.url}/slow?timeout=1s": context deadline exceeded'
    # Its own configuration can always be taken away.
    (await cluster.kubectl("delete", "validatingwebhookconfiguration", "hook")).ok()
    await cluster.objects.create(wish)


async def test_webhooks_that_cannot_be_reached_are_named(cluster: Cluster, hook: Webhook) -> None:
    async def refused_with(client: dict[str, Any]) -> str:
        await apply(cluster, configuration("Validating", client))
        with pytest.raises(ApiError) as error:
            await cluster.objects.create(ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))
        assert (error.value.code, error.value.reason) == (500, "InternalError")
        return error.value.message

    assert "connect: connection refused" in await refused_with({"url": "https://127.0.0.1:1/"})
    async with webhook(cluster.directory, "other.default.svc") as other:
        untrusted = await refused_with({"url": other.url, "caBundle": hook.bundle})
    assert "tls: failed to verify certificate" in untrusted
    service = {"namespace": "default", "name": "hook", "path": "/check"}
    by_service = {"service": service, "caBundle": hook.bundle}
    assert 'service "hook" not found' in await refused_with(by_service)

    # A service with an endpoint is called there, by the service's name.
    declared = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"port": 443, "targetPort": hook.port}]},
    }
    await apply(cluster, json.dumps(declared))
    assert 'no endpoints available for service "hook"' in await refused_with(by_service)
    endpoints = {
        "metadata": {"name": "hook-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"port": hook.port}],
    }
    await cluster.objects.create(EndpointSlice.from_dict(endpoints))
    await cluster.objects.create(ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))
    assert [item["userInfo"]["username"] for item in hook.asked] == ["system:copepod"]


async def test_a_policy_refuses_warns_and_is_checked_when_it_is_written(cluster: Cluster) -> None:
    made = await apply(cluster, POLICY)
    assert made.splitlines() == [
        "validatingadmissionpolicy.admissionregistration.k8s.io/few-replicas created",
        "validatingadmissionpolicybinding.admissionregistration.k8s.io/few-replicas-everywhere created",
    ]
    create = ("create", "deployment", "web", "--image=tiny")
    refused = await cluster.kubectl(*create, "--replicas=9")
    assert (
        "ValidatingAdmissionPolicy 'few-replicas' with binding 'few-replicas-everywhere' denied request: "
        "at most 5 replicas, not 9"
    ) in refused.refused()
    assert (await cluster.kubectl(*create, "--replicas=5")).ok() == "deployment.apps/web created\n"
    (await cluster.kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":6}}')).refused()

    await apply(cluster, POLICY.replace("[Deny]", "[Warn, Audit]"))
    warned = await cluster.kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":6}}')
    assert "Warning: Validation failed for ValidatingAdmissionPolicy 'few-replicas'" in warned.err
    warned.ok()

    wrong = POLICY.replace("variables.wished <= 5", "variables.wished +")
    problem = (await cluster.kubectl("apply", "-f", "-", stdin=wrong)).refused()
    assert "spec.validations[0].expression: Invalid value" in problem
    assert "Syntax error" in problem
    table = (await cluster.kubectl("get", "validatingadmissionpolicies", "--no-headers")).ok()
    assert table.split()[:3] == ["few-replicas", "1", "<unset>"]


async def test_a_policy_with_parameters_in_chosen_namespaces(cluster: Cluster) -> None:
    policy, binding = yaml.safe_load_all(POLICY)
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    policy["spec"]["validations"] = [
        {
            "expression": "variables.wished <= int(params.data.most)",
            "message": "too many",
            "reason": "Forbidden",
        },
        {"expression": "namespaceObject.metadata.labels.env == 'prod' && request.userInfo.username == 'admin'"},
    ]
    binding["spec"]["paramRef"] = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    await apply(cluster, yaml.safe_dump_all([policy, binding]))
    (await cluster.kubectl("create", "namespace", "prod")).ok()
    (await cluster.kubectl("label", "namespace", "prod", "env=prod")).ok()
    create = ("create", "deployment", "web", "--image=tiny", "--replicas=3")
    (await cluster.kubectl(*create)).ok()
    unset = (await cluster.kubectl(*create, "-n", "prod")).refused()
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in unset
    (await cluster.kubectl("create", "configmap", "limits", "--from-literal=most=2")).ok()
    refused = await cluster.kubectl(*create, "-n", "prod")
    assert "denied request: too many" in refused.refused()
    (await cluster.kubectl("patch", "configmap", "limits", "-p", '{"data":{"most":"3"}}')).ok()
    (await cluster.kubectl(*create, "-n", "prod")).ok()


async def test_a_runaway_policy_costs_its_second_and_no_more(cluster: Cluster) -> None:
    policy, binding = yaml.safe_load_all(POLICY)
    eightfold = ".map(t, t+t+t+t+t+t+t+t)" * 10
    policy["spec"] |= {
        "validations": [{"expression": f"[object.metadata.name]{eightfold}[0].size() > 0"}],
        "variables": [],
    }
    await apply(cluster, yaml.safe_dump_all([policy, binding]))
    refused = await cluster.kubectl("create", "deployment", "web" * 20, "--image=tiny")
    assert "actual cost limit exceeded" in refused.refused()
    (await cluster.kubectl("create", "configmap", "one")).ok()


async def test_a_webhook_sees_the_pods_that_controllers_make(cluster: Cluster, hook: Webhook) -> None:
    """Whoever writes, the chain is the same; what a node reports is not asked about."""
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods", "pods/status"]}]
    hook.respond["/"] = lambda asked: (
        patch({"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}) if asked["object"] else {}
    )
    await apply(cluster, configuration("Mutating", hook.client("/"), rules=rules))
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("one", nodeName="n1"))).ok()
    await cluster.play_node("one")
    assert [(item["operation"], item.get("subResource")) for item in hook.asked] == [("CREATE", None)]
    shown = json.loads((await cluster.kubectl("get", "pod", "one", "-o", "json")).ok())
    assert shown["metadata"]["annotations"] == {"seen": "yes"}
    # Defaulted before it is shown, as the reference does.
    assert hook.asked[0]["object"]["spec"]["restartPolicy"] == "Always"


async def test_what_rbac_answers(cluster: Cluster) -> None:
    """`can-i` answers by RBAC, for oneself and for others; without enforcement it says that nothing holds one back."""
    await ensure_roles(cluster.objects)
    binding = ("create", "rolebinding", "ann-edits", "--clusterrole=edit", "--user=ann")
    assert (await cluster.kubectl(*binding)).ok() == "rolebinding.rbac.authorization.k8s.io/ann-edits created\n"

    async def can(*arguments: str) -> str:
        return (await cluster.kubectl("auth", "can-i", *arguments)).out.split("\n")[0]

    assert await can("delete", "nodes") == "yes"
    assert await can("create", "pods", "--as", "ann") == "yes"
    assert await can("patch", "pods/resize", "--as", "ann") == "yes"
    assert (await can("create", "pods", "--as", "ann", "-n", "kube-system")).startswith("no")
    assert (await can("delete", "nodes", "--as", "ann")).startswith("no - RBAC is not enforced by this server")
    assert await can("get", "/apis", "--as", "ann") == "yes"
    assert await can("get", "pods", "--as", "bob", "--as-group", "system:masters") == "yes"
    listed = (await cluster.kubectl("auth", "can-i", "--list", "--as", "ann")).ok()
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed
    assert "pods/eviction" in listed
    whoami = (await cluster.kubectl("auth", "whoami", "--as", "ann", "--as-group", "dev")).ok()
    assert "ann" in whoami
    assert "[dev system:authenticated]" in whoami
