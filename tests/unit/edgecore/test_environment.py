"""What a VM's command is given: references resolved by the kubelet's rules."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from edgecore.environment import EnvError, expanded, references
from edgecore.record import PodRecord
from edgecore.sizes import Policy
from edgecore.spec import Place, vm_spec
from kubeapi.core import Pod
from vmruntime.api import VmSpec

SETTINGS = {"data": {"color": "blue", "size": "9", "my.key": "dotted", "bad=key": "never"}}
LOGIN = {"data": {"password": b64encode(b"p$(color)\n").decode()}}


def spec_of(objects: dict[tuple[str, str], Any] | None = None, **container: Any) -> VmSpec:
    pod = Pod.from_dict(
        {
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"tier": "front"}},
            "spec": {"nodeName": "box", "containers": [{"name": "vm", "image": "i", **container}]},
        }
    )
    if objects is None:
        objects = {("configmaps", "settings"): SETTINGS, ("secrets", "login"): LOGIN}
    place = Place("here", Policy(host_cpus=2), objects, "192.0.2.7")
    return vm_spec(pod, pod.spec.containers[0], PodRecord(uid="u1", namespace="shop", name="web"), place)


def env_of(*env: dict[str, Any], sources: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, str]:
    return dict(spec_of(env=list(env), envFrom=sources or [], **more).env)


def key_ref(field: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {f"{field}KeyRef": {"name": name, "key": key, **more}}}


def test_whole_objects_and_what_wins() -> None:
    sources = [{"configMapRef": {"name": "settings"}}, {"prefix": "P_", "secretRef": {"name": "login"}}]
    assert env_of({"name": "color", "value": "red"}, sources=sources) == {
        "color": "red", "size": "9", "my.key": "dotted", "P_password": "p$(color)\n",
    }  # fmt: skip


def test_single_keys() -> None:
    assert env_of(key_ref("configMap", "settings", "color")) == {"X": "blue"}
    assert env_of(key_ref("secret", "login", "password")) == {"X": "p$(color)\n"}


@pytest.mark.parametrize("field", ["configMap", "secret"])
def test_what_is_optional_may_be_missing(field: str) -> None:
    assert env_of(key_ref(field, "nowhere", "k", optional=True)) == {}
    assert env_of(key_ref(field, {"configMap": "settings", "secret": "login"}[field], "k", optional=True)) == {}
    assert env_of(sources=[{f"{field}Ref": {"name": "nowhere", "optional": True}}]) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (key_ref("configMap", "nowhere", "k"), 'configmap "nowhere" not found'),
        (key_ref("secret", "nowhere", "k"), 'secret "nowhere" not found'),
        (key_ref("configMap", "settings", "k"), "couldn't find key k in ConfigMap shop/settings"),
        (key_ref("secret", "login", "k"), "couldn't find key k in Secret shop/login"),
        ({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.tty"}}}, "unsupported fieldPath: spec.tty"),
        ({"name": "X", "valueFrom": {"fileKeyRef": {}}}, "env X: this node does not know valueFrom fileKeyRef"),
        (
            {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}},
            "this node knows no resource limits.gpu of a VM",
        ),
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_said_in_the_references_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvError) as failed:
        env_of(given)
    assert str(failed.value) == words


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"), ("metadata.namespace", "shop"), ("metadata.uid", "u1"), ("spec.nodeName", "box"),
        ("metadata.labels['tier']", "front"), ("metadata.labels['none']", ""), ("status.hostIP", "192.0.2.7"),
        ("status.podIP", ""),
    ],
)  # fmt: skip
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert env_of({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}) == {"X": value}


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"), ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory"}, str(128 << 20)), ({"resource": "limits.memory", "divisor": "1Mi"}, "128"),
        ({"resource": "requests.cpu", "divisor": "1m", "containerName": "vm"}, "500"),
        ({"resource": "requests.memory", "divisor": "1Gi"}, "1"),
    ],
)  # fmt: skip
def test_resources(reference: dict[str, Any], value: str) -> None:
    resources = {"limits": {"cpu": "1500m", "memory": "128Mi"}, "requests": {"cpu": "500m"}}
    given = {"name": "X", "valueFrom": {"resourceFieldRef": reference}}
    assert env_of(given, resources=resources) == {"X": value}


def test_what_has_no_limit_is_what_the_vm_has() -> None:
    given = [
        {"name": name, "valueFrom": {"resourceFieldRef": {"resource": f"limits.{name}"}}} for name in ("cpu", "memory")
    ]
    assert env_of(*given) == {"cpu": "2", "memory": str(128 << 20)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)", "1"), ("x$(A)y$(A)", "x1y1"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$(B)", "$(B)"), ("$A", "$A"),
        ("$", "$"), ("$(A", "$(A"), ("$()", "$()"), ("$$", "$"),
    ],
)  # fmt: skip
def test_references_in_a_text(text: str, value: str) -> None:
    assert expanded(text, {"A": "1"}) == value


def test_commands_and_later_variables_know_the_earlier() -> None:
    spec = spec_of(
        command=["run", "--in=$(WHERE)"],
        args=["$(NOWHERE)", "$$(WHERE)"],
        env=[{"name": "BASE", "value": "/srv"}, {"name": "WHERE", "value": "$(BASE)/data"}],
        workingDir="/srv",
    )
    assert spec.command == ("run", "--in=/srv/data", "$(NOWHERE)", "$(WHERE)")
    assert spec.working_dir == "/srv"


def test_which_objects_are_asked_for() -> None:
    pod = Pod.from_dict(
        {
            "metadata": {"name": "web"},
            "spec": {
                "containers": [
                    {
                        "name": "vm",
                        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
                        "env": [
                            key_ref("configMap", "c", "k"),
                            key_ref("secret", "d", "k"),
                            {"name": "Y", "value": "1"},
                        ],
                    }
                ]
            },
        }
    )
    found = list(references(pod.spec.containers[0]))
    assert found == [("configmaps", "a"), ("secrets", "b"), ("configmaps", "c"), ("secrets", "d")]
