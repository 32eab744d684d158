"""What becomes of fields that a kind does not have."""

from __future__ import annotations

from kubeapi.core import Pod
from kubeapi.decode import prune, unknown_fields
from kubeapi.defaults import default_pod
from kubeapi.podclasses import keep_priority


def test_unknown_fields_are_taken_out_and_named() -> None:
    container = {"name": "c", "colour": "red", "env": [{"name": "A", "value": "1"}]}
    pod = Pod.from_dict({"spec": {"bogus": 1, "hostNetwork": True, "containers": [container]}, "more": {}})
    assert prune(pod) == ["more", "spec.bogus", "spec.containers[0].colour"]
    assert not list(unknown_fields(pod))
    spec = pod.to_dict()["spec"]
    assert "more" not in pod.to_dict()
    assert "bogus" not in spec
    assert "colour" not in spec["containers"][0]
    assert spec["hostNetwork"], "what we only keep is no mistake"
    assert spec["containers"][0]["env"] == container["env"]


def test_a_pod_that_is_replaced_by_its_manifest_keeps_its_priority() -> None:
    old = Pod.from_dict({"spec": {"priority": 7, "preemptionPolicy": "Never"}}).spec
    new = Pod.from_dict({"spec": {}}).spec
    keep_priority(new, old)
    assert (new.priority, new.preemption_policy) == (7, "Never")
    other = Pod.from_dict({"spec": {"priority": 8}}).spec
    keep_priority(other, old)
    assert other.priority == 8, "for validation to refuse"


def test_probes_have_the_reference_s_defaults() -> None:
    probes = {"livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"exec": {}, "periodSeconds": 5}}
    pod = Pod.from_dict({"spec": {"containers": [{"name": "c", "image": "x", **probes}]}})
    default_pod(pod)
    container = pod.spec.containers[0]
    rest = {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    assert container.liveness_probe == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "periodSeconds": 10,
        **rest,
    }
    assert container.readiness_probe == {"exec": {}, "periodSeconds": 5, **rest}
