"""Access reviews, impersonation, and RBAC where it is enforced, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from kubeapi.authorization import Action
from kubeapi.rbac import ClusterRoleBinding, RoleBinding
from kubeapi.server.app import create_app
from kubeapi.server.auth import StaticTokens, User
from kubeapi.server.authorizing import UNENFORCED, action_of
from kubeapi.server.builtins import ensure_roles
from tests.unit.server.conftest import ADMIN, Api, pod, running_api

ANN = User("ann", ("system:authenticated",))


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """With the roles that every cluster has; ann may view the namespace `demo`."""
    async with running_api() as found:
        await ensure_roles(found.objects)
        await ensure_roles(found.objects)  # a hub that starts again
        binding = {
            "metadata": {"name": "ann-views", "namespace": "demo"},
            "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"kind": "ClusterRole", "name": "view"},
        }
        await found.objects.create(RoleBinding.from_dict(binding))
        yield found


@pytest.fixture
async def enforcing(api: Api) -> AsyncIterator[TestClient[Any, Any]]:
    app = create_app(api.objects, StaticTokens({"secret": ADMIN, "anns": ANN}), enforce_rbac=True)
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "query", "action"),
    [
        ("GET", "/api/v1/namespaces/demo/pods", {}, Action("list", "pods", namespace="demo")),
        ("GET", "/api/v1/pods", {"watch": "1"}, Action("watch", "pods")),
        ("DELETE", "/api/v1/namespaces/d/pods", {}, Action("deletecollection", "pods", namespace="d")),
        ("POST", "/apis/apps/v1/namespaces/d/deployments", {}, Action("create", "deployments", "apps", namespace="d")),
        (
            "PATCH",
            "/api/v1/namespaces/d/pods/p/resize",
            {},
            Action("patch", "pods", subresource="resize", name="p", namespace="d"),
        ),
        ("GET", "/api/v1/namespaces/d", {}, Action("get", "namespaces", name="d", namespace="d")),
        ("GET", "/openapi/v3", {}, Action("get", path="/openapi/v3")),
    ],
)
def test_what_a_request_does(method: str, path: str, query: dict[str, str], action: Action) -> None:
    assert action_of(method, path, query) == action


async def _can(client: Any, token: str, verb: str, resource: str, namespace: str = "demo") -> dict[str, Any]:
    attributes = {"verb": verb, "resource": resource, "namespace": namespace}
    answer = await client.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json={"spec": {"resourceAttributes": attributes}},
        headers={"Authorization": f"Bearer {token}"},
    )
    status: dict[str, Any] = (await answer.json())["status"]
    return status


async def test_the_reviews_answer_by_rbac(api: Api, enforcing: TestClient[Any, Any]) -> None:
    reason = 'RBAC: allowed by RoleBinding "ann-views/demo" of ClusterRole "view" to User "ann"'
    assert await _can(enforcing, "anns", "list", "pods") == {"allowed": True, "reason": reason}
    assert await _can(enforcing, "anns", "create", "pods") == {"allowed": False}
    assert await _can(enforcing, "secret", "create", "pods") == {"allowed": True}

    review = {"spec": {"user": "ann", "resourceAttributes": {"verb": "list", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = (await api.call("POST", path, review)).body["status"]
    assert answer == {"allowed": False, "reason": UNENFORCED}
    local = {"spec": review["spec"] | {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "demo"}}}
    path = "/apis/authorization.k8s.io/v1/namespaces/demo/localsubjectaccessreviews"
    assert (await api.call("POST", path, local)).body["status"]["allowed"] is True


async def test_enforced_refusals_have_the_references_words(api: Api, enforcing: TestClient[Any, Any]) -> None:
    headers = {"Authorization": "Bearer anns"}
    allowed = await enforcing.get("/api/v1/namespaces/demo/pods", headers=headers)
    assert allowed.status == 200
    refused = await enforcing.get("/api/v1/namespaces/default/pods", headers=headers)
    status = await refused.json()
    assert (refused.status, status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    one = await (await enforcing.delete("/api/v1/namespaces/demo/pods/p", headers=headers)).json()
    assert one["message"] == (
        'pods "p" is forbidden: User "ann" cannot delete resource "pods" in API group "" in the namespace "demo"'
    )
    path = await (await enforcing.get("/nowhere", headers=headers)).json()
    assert path["message"] == 'forbidden: User "ann" cannot get path "/nowhere"'
    assert (await enforcing.get("/apis", headers=headers)).status == 200
    assert (await enforcing.get("/readyz")).status == 200


async def test_masters_may_act_as_others_and_others_may_not(api: Api, enforcing: TestClient[Any, Any]) -> None:
    as_ann = {"Authorization": "Bearer secret", "Impersonate-User": "ann"}
    assert (await enforcing.get("/api/v1/namespaces/demo/pods", headers=as_ann)).status == 200
    assert (await enforcing.get("/api/v1/nodes", headers=as_ann)).status == 403
    who = await enforcing.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json={},
        headers=[*as_ann.items(), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
    )
    info = (await who.json())["status"]["userInfo"]
    assert info == {"username": "ann", "groups": ["a", "b", "system:authenticated"]}
    account = {"Authorization": "Bearer secret", "Impersonate-User": "system:serviceaccount:demo:x"}
    answer = await enforcing.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers=account)
    assert (await answer.json())["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:demo",
        "system:authenticated",
    ]

    refused = await enforcing.get("/apis", headers={"Authorization": "Bearer anns", "Impersonate-User": "admin"})
    assert (await refused.json())["message"] == (
        'users "admin" is forbidden: User "ann" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    nobody = await enforcing.get("/apis", headers={"Authorization": "Bearer secret", "Impersonate-Group": "a"})
    assert nobody.status == 400


async def test_a_new_binding_counts_at_once(api: Api, enforcing: TestClient[Any, Any]) -> None:
    headers = {"Authorization": "Bearer anns"}
    body = pod("one").to_dict()
    assert (await enforcing.post("/api/v1/namespaces/demo/pods", json=body, headers=headers)).status == 403
    binding = {
        "metadata": {"name": "ann"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
    }
    await api.objects.create(ClusterRoleBinding.from_dict(binding))
    assert (await enforcing.post("/api/v1/namespaces/demo/pods", json=body, headers=headers)).status == 201
