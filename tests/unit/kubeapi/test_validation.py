"""Defaulting and validation, in the server's paths and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubeapi import names
from kubeapi.core import Binding, ConfigMap, Event, Lease, Namespace, Node, Pod, Secret
from kubeapi.errors import Cause
from kubeapi.resources import (
    CONFIGMAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
)
from kubeapi.validation import validate_binding


def make(**changes: Any) -> Pod:
    """A valid pod with changes to its spec, defaulted and prepared as at creation."""
    container = {"name": "c", "image": "i:1", **changes.pop("container", {})}
    meta = {"name": "p", "namespace": "demo", **changes.pop("metadata", {})}
    spec = {"containers": [container], **changes}
    pod = Pod.from_dict({"metadata": meta, "spec": spec})
    PODS.strategy.default(pod)
    PODS.strategy.prepare_create(pod)
    return pod


def said(causes: Sequence[Cause]) -> list[str]:
    return [str(cause) for cause in causes]


def created(**changes: Any) -> list[str]:
    return said(PODS.strategy.validate_create(make(**changes)))


def test_defaults() -> None:
    pod = make(container={"resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]})
    spec = pod.to_dict()["spec"]
    assert spec == {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
        "securityContext": {},
    }
    assert pod.to_dict()["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert pod.metadata.generation == 1


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("r:5000/i", "Always"),
        ("i:1", "IfNotPresent"),
        ("i@sha256:a", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert make(container={"image": image}).spec.containers[0].image_pull_policy == policy


def test_pod_level_requests_default() -> None:
    pod = make(
        container={"resources": {"requests": {"cpu": "100m"}}},
        resources={"limits": {"cpu": "1", "memory": "1Gi"}},
    )
    assert pod.spec.resources is not None
    assert pod.spec.resources.requests == {"cpu": "100m", "memory": "1Gi"}


def test_a_valid_pod() -> None:
    assert created() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": {"name": ""}}, "metadata.name: Required value: name or generateName is required"),
        ({"containers": []}, "spec.containers: Required value"),
        ({"container": {"name": ""}}, "spec.containers[0].name: Required value"),
        ({"container": {"image": ""}}, "spec.containers[0].image: Required value"),
        (
            {"container": {"image": " x"}},
            'spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace',
        ),
        (
            {"container": {"name": "C"}},
            'spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label must consist of lower case '
            "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
            " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ),
        (
            {"restartPolicy": "Maybe"},
            'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            {"container": {"resources": {"requests": {"cpu": "-1"}}}},
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"container": {"resources": {"requests": {"example.com/gpu": "1"}}}},
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"container": {"ports": [{"containerPort": 70000}]}},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        ({"container": {"env": [{"value": "x"}]}}, "spec.containers[0].env[0].name: Required value"),
        (
            {"container": {"volumeMounts": [{"name": "v", "mountPath": "/x"}]}},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            {"container": {"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}},
            'spec.containers[0].resizePolicy[0]: Unsupported value: "disk": supported values: "cpu", "memory"',
        ),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {"initContainers": [{"name": "c", "image": "x"}]},
            'spec.initContainers[0].name: Duplicate value: "c"',
        ),
        (
            {"initContainers": [{"name": "i", "image": "x", "livenessProbe": {}}]},
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
            "restartPolicy=Always",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]},
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
            "`tolerationSeconds` is set",
        ),
        (
            {"resources": {"limits": {"disk": "1"}}},
            'spec.resources.limits[disk]: Unsupported value: "disk": supported values: "cpu", "hugepages-", "memory"',
        ),
        (
            {
                "container": {"resources": {"requests": {"cpu": "2"}}},
                "resources": {"requests": {"cpu": "1"}},
            },
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
            "requests of 2",
        ),
        (
            {"metadata": {"labels": {"a": "-"}}},
            'metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
            "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            {"metadata": {"annotations": {"a": "x" * (256 * 1024)}}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            {"metadata": {"finalizers": ["mine"]}},
            'metadata.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
            "qualified",
        ),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}},
            'metadata.ownerReferences[0].uid: Invalid value: "": must not be empty',
        ),
        (
            {"schedulingGates": [{"name": "g"}], "nodeName": "n"},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
    ],
)
def test_an_invalid_pod_is_refused_in_the_servers_words(changes: dict[str, Any], message: str) -> None:
    assert created(**changes) == [message]


def test_devices_are_whole() -> None:
    """Said of the limit, and of the request that defaults to it."""
    path = "spec.containers[0].resources"
    assert created(container={"resources": {"limits": {"example.com/gpu": "500m"}}}) == [
        f'{path}.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
        f'{path}.requests[example.com/gpu]: Invalid value: "500m": must be an integer',
    ]


def updated(new: Pod, old: Pod) -> list[str]:
    PODS.strategy.prepare_update(new, old)
    return said(PODS.strategy.validate_update(new, old))


def test_changing_resources_by_an_ordinary_update_is_forbidden() -> None:
    """As kubectl apply finds out (`apply-resources-change-rejected`)."""
    old, new = make(), make(container={"resources": {"requests": {"cpu": "1"}}})
    (message,) = updated(new, old)
    assert message == (
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
        '+ spec.containers[0].resources.requests: {"cpu":"1"}\n'
    )


def test_what_an_update_may_change() -> None:
    old = make()
    new = make(
        container={"image": "other:2"}, tolerations=[{"key": "a", "operator": "Exists"}], activeDeadlineSeconds=5
    )
    new.metadata.labels["a"] = "b"
    assert updated(new, old) == []
    assert new.metadata.generation == 2
    same = make()
    assert updated(same, old) == []
    assert same.metadata.generation == 1


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"containers": []}, "spec.containers: Forbidden: pod updates may not add or remove containers"),
        (
            {"activeDeadlineSeconds": 5},
            {},
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {},
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {},
            {"schedulingGates": [{"name": "g"}]},
            "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
        ),
    ],
)
def test_what_an_update_may_not_change(before: dict[str, Any], after: dict[str, Any], message: str) -> None:
    assert message in updated(make(**after), make(**before))


def test_metadata_that_never_changes() -> None:
    old, new = make(metadata={"uid": "1"}), make(metadata={"uid": "2"})
    assert updated(new, old) == ['metadata.uid: Invalid value: "2": field is immutable']


def test_a_dying_object_gets_no_new_finalizers() -> None:
    dying = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    messages = updated(make(metadata={**dying, "finalizers": ["a/b"]}), make(metadata=dying))
    assert messages == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"a/b"}'
    ]


def test_status_update_keeps_spec_and_observed_generations() -> None:
    old = make()
    old.status = old.status.from_dict(
        {
            "qosClass": "BestEffort",
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "observedGeneration": 2}],
        }
    )
    new = make(container={"image": "changed:1"})
    new.status = new.status.from_dict({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    PODS.strategy.prepare_status_update(new, old)
    assert said(PODS.strategy.validate_status_update(new, old)) == []
    assert new.spec == old.spec
    assert new.status.observed_generation == 3
    assert new.status.qos_class == "BestEffort"
    assert new.status.conditions[0].observed_generation == 2


def _ended(policy: str, code: int, restarted: bool) -> list[str]:
    old = make(restartPolicy=policy)
    old.status = old.status.from_dict(
        {"qosClass": "BestEffort", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}
    )
    new = old.copied()
    if restarted:
        new.status = new.status.from_dict(
            {"qosClass": "BestEffort", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
        )
    return said(PODS.strategy.validate_status_update(new, old))


def test_what_has_ended_stays_ended_by_its_policy() -> None:
    refused = ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]
    assert _ended("Never", 1, restarted=True) == refused
    assert _ended("OnFailure", 0, restarted=True) == refused
    assert _ended("OnFailure", 1, restarted=True) == []
    assert _ended("Always", 0, restarted=True) == []
    assert _ended("Never", 0, restarted=False) == []


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "grace"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
        ({"nodeName": "n"}, "Failed", None, 0),
        ({}, "Pending", 30, 0),
    ],
)
def test_grace(spec: dict[str, Any], phase: str, asked: int | None, grace: int) -> None:
    pod = make(**spec)
    pod.status.phase = phase
    assert PODS.strategy.grace_seconds(pod, asked) == grace


def test_namespaces() -> None:
    namespace = Namespace.from_dict({"metadata": {"name": "demo"}})
    NAMESPACES.strategy.default(namespace)
    NAMESPACES.strategy.prepare_create(namespace)
    assert namespace.to_dict()["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace.to_dict()["status"] == {"phase": "Active"}
    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "demo"}
    assert said(NAMESPACES.strategy.validate_create(namespace)) == []
    wish = namespace.copied()
    wish.spec.finalizers, wish.status.phase = [], "Gone"
    finalized = NAMESPACES.strategy.prepare_subresource("finalize", wish, namespace)
    assert finalized.spec.finalizers == []
    assert finalized.status.phase == "Active"
    dotted = Namespace.from_dict({"metadata": {"name": "a.b"}})
    assert "RFC 1123 label" in said(NAMESPACES.strategy.validate_create(dotted))[0]


def test_nodes() -> None:
    node = Node.from_dict(
        {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}, "spec": {"providerID": "a"}}
    )
    NODES.strategy.default(node)
    assert node.status.allocatable == {"cpu": "4"}
    assert said(NODES.strategy.validate_create(node)) == []
    moved = node.copied()
    moved.spec.provider_id = "b"
    assert said(NODES.strategy.validate_update(moved, node)) == [
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'
    ]
    tainted = Node.from_dict({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Odd"}]}})
    assert said(NODES.strategy.validate_create(tainted)) == [
        'spec.taints[0].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", '
        '"NoExecute"'
    ]


def test_configmaps_and_secrets() -> None:
    meta = {"name": "a", "namespace": "demo"}
    config = ConfigMap.from_dict({"metadata": meta, "data": {"a b": "x"}})
    assert said(CONFIGMAPS.strategy.validate_create(config))[0].startswith(
        'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters'
    )
    fixed = ConfigMap.from_dict({"metadata": meta, "data": {"a": "x"}, "immutable": True})
    changed = fixed.copied()
    changed.data["a"] = "y"
    assert said(CONFIGMAPS.strategy.validate_update(changed, fixed)) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
    secret = Secret.from_dict({"metadata": meta, "stringData": {"k": "v"}})
    SECRETS.strategy.default(secret)
    assert secret.to_dict() == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "data": {"k": "dg=="},
        "type": "Opaque",
    }
    other = secret.copied()
    other.type = "x"
    assert said(SECRETS.strategy.validate_update(other, secret)) == ['type: Invalid value: "x": field is immutable']


def test_events_leases_and_bindings() -> None:
    event = Event.from_dict({"metadata": {"name": "e", "namespace": "demo"}, "involvedObject": {"namespace": "other"}})
    assert said(EVENTS.strategy.validate_create(event)) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    lease = Lease.from_dict({"metadata": {"name": "l", "namespace": "d"}, "spec": {"leaseDurationSeconds": 0}})
    assert said(LEASES.strategy.validate_create(lease)) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
    assert said(validate_binding(Binding.from_dict({"target": {"kind": "Pod"}}))) == [
        'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("a", 0),
        ("example.com/a", 0),
        ("", 2),
        ("/a", 1),
        ("a/b/c", 1),
        ("a" * 64, 1),
        ("UPPER.com/a", 1),
        ("-a", 1),
    ],
)
def test_qualified_names(name: str, problems: int) -> None:
    assert len(names.qualified_name(name)) == problems


@pytest.mark.parametrize(
    ("key", "good"), [("a.b_c-D", True), ("", False), (".", False), ("..", False), ("..a", False), ("a/b", False)]
)
def test_config_keys(key: str, good: bool) -> None:
    assert (names.config_key(key) == []) is good


def test_names_do_not_pass_by_a_trailing_newline() -> None:
    assert names.dns_label("a\n")
    assert names.dns_subdomain("a.b\n")
    assert names.label_value("a\n")
