"""A node's view: what is in it, in which order, and when it counts as changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cloudhub.view import STATUS_SOURCE, Stored, needs, nodes_concerned, view
from edgelink.api import ItemKey, View


def stored(kind: str, name: str, namespace: str = "default", **body: Any) -> Stored:
    metadata = {"name": name, "namespace": namespace} | body.pop("metadata", {})
    value = orjson.dumps({"metadata": metadata} | body)
    return Stored(ItemKey(kind, namespace, name), f"uid-{kind}-{name}", value)


def pod(name: str, node: str = "", **spec: Any) -> Stored:
    return stored("pods", name, spec={"nodeName": node} | spec)


def build(node: str, *objects: Stored) -> View:
    def lookup(kind: str, namespace: str) -> Mapping[str, Stored]:
        return {o.key.name: o for o in objects if (o.key.kind, o.key.namespace) == (kind, namespace)}

    return view(node, 7, [o for o in objects if o.key.kind == "pods"], lookup)


def names(view: View) -> list[str]:
    return [f"{key.kind}/{key.name}" for key in view.items]


def test_only_pods_bound_to_the_node() -> None:
    result = build("n1", pod("b", "n1"), pod("a", "n1"), pod("other", "n2"), pod("waiting"))
    assert names(result) == ["pods/a", "pods/b"]
    assert result.revision == 7


def test_s87_what_a_pod_needs_comes_with_it_and_first() -> None:
    """S-87: pod and Secret arrive together, Secret first, however old the Secret is."""
    user = pod(
        "user",
        "n1",
        imagePullSecrets=[{"name": "pull"}],
        initContainers=[{"envFrom": [{"configMapRef": {"name": "init"}}]}],
        containers=[
            {
                "envFrom": [{"secretRef": {"name": "from"}}],
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "key"}}},
                    {"name": "C", "value": "plain"},
                ],
            }
        ],
        volumes=[
            {"name": "v1", "configMap": {"name": "vol"}},
            {"name": "v2", "secret": {"secretName": "vol"}},
            {"name": "v3", "projected": {"sources": [{"secret": {"name": "proj"}}, {"configMap": {"name": "proj"}}]}},
            {"name": "v4", "emptyDir": {}},
        ],
    )
    needed = [
        *(stored("configmaps", name) for name in ("init", "key", "vol", "proj")),
        *(stored("secrets", name) for name in ("pull", "from", "key", "vol", "proj")),
    ]
    unrelated = [stored("secrets", "unrelated"), stored("secrets", "pull", namespace="elsewhere")]
    result = build("n1", user, *needed, *unrelated)
    assert names(result) == [
        *(f"configmaps/{name}" for name in ("init", "key", "proj", "vol")),
        *(f"secrets/{name}" for name in ("from", "key", "proj", "pull", "vol")),
        "pods/user",
    ]
    assert names(build("n2", user, *needed)) == []


def test_what_does_not_exist_yet_enters_when_it_is_created() -> None:
    user = pod("user", "n1", containers=[{"envFrom": [{"secretRef": {"name": "late"}}]}])
    assert names(build("n1", user)) == ["pods/user"]
    assert names(build("n1", user, stored("secrets", "late"))) == ["secrets/late", "pods/user"]


def test_status_and_bookkeeping_do_not_change_a_view() -> None:
    quiet = stored("pods", "a", spec={"nodeName": "n1"})
    noisy = stored(
        "pods",
        "a",
        spec={"nodeName": "n1"},
        status={"phase": "Running"},
        metadata={
            "resourceVersion": "9",
            "annotations": {STATUS_SOURCE: "store/7"},
            "managedFields": [{"manager": "kubectl"}],
        },
    )
    assert build("n1", quiet).items == build("n1", noisy).items
    (item,) = build("n1", noisy).items.values()
    assert b"status" not in item.value


def test_every_change_of_the_wish_changes_the_revision() -> None:
    def revision(**body: Any) -> int:
        (item,) = build("n1", stored("pods", "a", **body)).items.values()
        return item.revision

    spec = {"nodeName": "n1"}
    seen = {
        revision(spec=spec),
        revision(spec=spec | {"priority": 1}),
        revision(spec=spec, metadata={"labels": {"a": "b"}}),
        revision(spec=spec, metadata={"generation": 2}),
        revision(spec=spec, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    }
    assert len(seen) == 5
    assert all(0 <= value < 2**53 for value in seen)


def test_whose_view_a_change_may_change() -> None:
    unbound, first, second = pod("a").value, pod("a", "n1").value, pod("a", "n2").value
    assert nodes_concerned("pods", None, unbound) == frozenset()
    assert nodes_concerned("pods", unbound, first) == frozenset({"n1"})
    assert nodes_concerned("pods", first, None) == frozenset({"n1"})
    assert nodes_concerned("pods", first, second) == frozenset({"n1", "n2"})
    assert nodes_concerned("secrets", None, b"{}") is None


def test_nulls_and_gaps_in_a_spec_are_survived() -> None:
    odd = stored(
        "pods", "odd", spec={"nodeName": "n1", "volumes": None, "containers": [{"env": [{"valueFrom": None}]}]}
    )
    assert needs(odd.value) == ()
