"""Real kubectl with each of the kinds beyond pods: made by its own generators, shown, scaled, explained, deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.integration.test_kubectl_api import Cluster, cluster

__all__ = ["cluster"]

_GENERATED = (
    ("deployment", "web", "--image=tiny:1", "--replicas=3", "--port=80"),
    ("job", "once", "--image=tiny:1"),
    ("cronjob", "often", "--image=tiny:1", "--schedule=*/5 * * * *"),
    ("service", "clusterip", "web", "--tcp=80:8080"),
    ("service", "nodeport", "web-np", "--tcp=80"),
    ("ingress", "web", "--rule=web.example/=web:80"),
    ("quota", "most", "--hard=pods=10,requests.cpu=4"),
    ("priorityclass", "high", "--value=1000"),
    ("poddisruptionbudget", "web", "--selector=app=web", "--min-available=1"),
    ("role", "reader", "--verb=get,list", "--resource=pods"),
    ("clusterrole", "reader", "--verb=get", "--resource=nodes"),
    ("rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot"),
    ("clusterrolebinding", "reader", "--clusterrole=reader", "--user=ann"),
    ("serviceaccount", "robot"),
)
"""What `kubectl create` makes without a file."""

_METADATA = {"metadata": {"name": "it"}}
_TEMPLATE = {
    "metadata": {"labels": {"app": "it"}},
    "spec": {"containers": [{"name": "c1", "image": "tiny:1"}]},
}
_SELECTED = {"selector": {"matchLabels": {"app": "it"}}, "template": _TEMPLATE}
_WRITTEN: dict[str, dict[str, Any]] = {
    "apps/v1 ReplicaSet": {"spec": {"replicas": 2, **_SELECTED}},
    "apps/v1 DaemonSet": {"spec": _SELECTED},
    "apps/v1 StatefulSet": {"spec": {"serviceName": "it", **_SELECTED}},
    "apps/v1 ControllerRevision": {"revision": 1, "data": {"a": "b"}},
    "node.k8s.io/v1 RuntimeClass": {"handler": "vm", "overhead": {"podFixed": {"memory": "30Mi"}}},
    "v1 Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "discovery.k8s.io/v1 EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    "networking.k8s.io/v1 NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "it"}}}},
    "networking.k8s.io/v1 IngressClass": {"spec": {"controller": "example.com/it"}},
    "v1 PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "v1 PersistentVolume": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/it"}}
    },
    "storage.k8s.io/v1 StorageClass": {"provisioner": "example.com/it"},
    "autoscaling.k8s.io/v1 VerticalPodAutoscaler": {
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
        }
    },
    "v1 LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
}

_HEADERS = {
    "deploy": "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR",
    "rs": "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR",
    "ds": "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE CONTAINERS IMAGES SELECTOR",
    "sts": "NAME READY AGE CONTAINERS IMAGES",
    "jobs": "NAME STATUS COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR",
    "cj": "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE CONTAINERS IMAGES SELECTOR",
    "controllerrevisions": "NAME CONTROLLER REVISION AGE",
    "svc": "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR",
    "ep": "NAME ENDPOINTS AGE",
    "endpointslices": "NAME ADDRESSTYPE PORTS ENDPOINTS AGE",
    "ing": "NAME CLASS HOSTS ADDRESS PORTS AGE",
    "ingressclasses": "NAME CONTROLLER PARAMETERS AGE",
    "netpol": "NAME POD-SELECTOR AGE",
    "quota": "NAME REQUEST LIMIT AGE",
    "pc": "NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY",
    "runtimeclasses": "NAME HANDLER AGE",
    "pdb": "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE",
    "roles": "NAME CREATED AT",
    "clusterroles": "NAME CREATED AT",
    "rolebindings": "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS",
    "clusterrolebindings": "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS",
    "pvc": "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE VOLUMEMODE",
    "pv": "NAME CAPACITY ACCESS MODES RECLAIM POLICY STATUS CLAIM STORAGECLASS "
    "VOLUMEATTRIBUTESCLASS REASON AGE VOLUMEMODE",
    "vpa": "NAME MODE CPU MEM PROVIDED AGE",
    "sc": "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION AGE",
}


def _documents() -> str:
    documents = []
    for name, body in _WRITTEN.items():
        version, kind = name.split()
        documents.append(yaml.safe_dump({"apiVersion": version, "kind": kind, **_METADATA, **body}))
    return "---\n".join(documents)


async def test_each_kind_is_made_shown_described_and_deleted(cluster: Cluster) -> None:
    for arguments in _GENERATED:
        assert " created" in (await cluster.kubectl("create", *arguments)).ok()
    made = (await cluster.kubectl("create", "-f", "-", stdin=_documents())).ok()
    assert made.count(" created\n") == len(_WRITTEN)
    for kind, header in _HEADERS.items():
        table = (await cluster.kubectl("get", kind, "-o", "wide")).ok().splitlines()
        assert table[0].split() == header.split(), kind
        assert len(table) > 1, kind
    everything = (await cluster.kubectl("get", "all", "-o", "name")).ok().split()
    assert {item.partition("/")[0] for item in everything} == {
        "service", "daemonset.apps", "deployment.apps", "replicaset.apps", "statefulset.apps", "cronjob.batch",
        "job.batch",
    }  # fmt: skip
    described = (await cluster.kubectl("describe", ",".join(_HEADERS))).ok()
    for told in ("StrategyType:", "RollingUpdateStrategy:", "Schedule:", "PodSelector:", "Min available:", "Overhead:"):
        assert told in described
    deleted = await cluster.kubectl("delete", "-f", "-", stdin=_documents())
    assert deleted.ok().count("deleted") == len(_WRITTEN)


async def test_deployments_scale_and_keep_their_selector(cluster: Cluster) -> None:
    (await cluster.kubectl("create", "deployment", "web", "--image=tiny:1", "--replicas=3")).ok()
    (await cluster.kubectl("scale", "deployment", "web", "--replicas=5")).ok()
    scale = json.loads((await cluster.kubectl("get", "deployment", "web", "--subresource=scale", "-o", "json")).ok())
    assert scale["apiVersion"] == "autoscaling/v1"
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    refused = await cluster.kubectl("scale", "deployment", "web", "--replicas=4", "--current-replicas=3")
    assert "Expected replicas to be 3, was 5" in refused.refused()
    shown = json.loads((await cluster.kubectl("get", "deploy", "web", "-o", "json")).ok())
    assert shown["metadata"]["generation"] == 2
    assert shown["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    (await cluster.kubectl("set", "image", "deployment/web", "tiny=tiny:2")).ok()
    (await cluster.kubectl("rollout", "pause", "deployment/web")).ok()
    assert "web" in (await cluster.kubectl("get", "deploy", "web", "-o", "wide")).ok()
    patch = json.dumps({"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert "field is immutable" in (await cluster.kubectl("patch", "deployment", "web", "-p", patch)).refused()


_BAD = {
    "Deployment": (
        {"spec": {"selector": {"matchLabels": {"app": "other"}}, "template": _TEMPLATE}},
        "`selector` does not match template `labels`",
    ),
    "ReplicaSet": ({"spec": {"template": _TEMPLATE}}, "spec.selector: Required value"),
    "StatefulSet": (
        {"spec": {**_SELECTED, "podManagementPolicy": "Some"}},
        'Unsupported value: "Some": supported values: "OrderedReady", "Parallel"',
    ),
    "Job": ({"spec": {"template": _TEMPLATE}}, 'Required value: valid values: "OnFailure", "Never"'),
    "CronJob": (
        {"spec": {"schedule": "5 61 * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}},
        "expected exactly 5 fields, found 4: [5 61 * *]",
    ),
    "PersistentVolumeClaim": ({"spec": {}}, "at least 1 access mode is required"),
    "PriorityClass": ({"value": 2000000000}, "maximum allowed value of a user defined priority is 1000000000"),
}
_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "PersistentVolumeClaim": "v1"}


@pytest.mark.parametrize("kind", _BAD)
async def test_what_is_wrong_is_told_in_the_servers_words(cluster: Cluster, kind: str) -> None:
    body, told = _BAD[kind]
    version = _VERSIONS.get(kind, "scheduling.k8s.io/v1" if kind == "PriorityClass" else "apps/v1")
    text = yaml.safe_dump({"apiVersion": version, "kind": kind, **_METADATA, **body})
    assert told in (await cluster.kubectl("create", "-f", "-", stdin=text)).refused()


async def test_api_resources_and_explain(cluster: Cluster) -> None:
    listed = (await cluster.kubectl("api-resources", "--no-headers")).ok()
    lines = {(line.split()[0], line.split()[-3]) for line in listed.splitlines()}
    assert {
        ("deployments", "apps/v1"),
        ("poddisruptionbudgets", "policy/v1"),
        ("runtimeclasses", "node.k8s.io/v1"),
    } <= lines
    for path, told in {
        "deployment.spec.strategy.rollingUpdate": "maxSurge",
        "cronjob.spec.jobTemplate.spec.template.spec.containers": "image",
        "pdb.spec": "minAvailable",
        "svc.spec.ports": "targetPort",
        "pvc.spec.resources": "requests",
        "role.rules": "nonResourceURLs",
    }.items():
        assert told in (await cluster.kubectl("explain", path)).ok()
