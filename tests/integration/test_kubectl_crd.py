"""Real kubectl with kinds that a CustomResourceDefinition brings: from `create` to the last object's end."""

from __future__ import annotations

import asyncio

import yaml

from tests.integration.test_kubectl_api import Cluster, cluster

__all__ = ["cluster"]

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A job that comes back.
        properties:
          spec:
            type: object
            description: What is wished.
            required: [cronSpec]
            properties:
              cronSpec: {type: string, pattern: '^(\\S+\\s+){4}\\S+$', description: When it runs.}
              image: {type: string, default: 'tiny:1'}
              replicas: {type: integer, minimum: 1, maximum: 10, default: 1}
              mode: {type: string, enum: [fast, slow]}
          status:
            type: object
            properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}
    selectableFields: [{jsonPath: .spec.mode}]
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.selector
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Image, type: string, jsonPath: .spec.image, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"""
NAME = "crontabs.stable.example.com"
OBJECT = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: mine, labels: {app: it}}
spec: {cronSpec: '* * * * *', mode: fast}
"""


async def _defined(cluster: Cluster) -> None:
    created = await cluster.kubectl("create", "-f", "-", stdin=CRD)
    assert created.ok() == f"customresourcedefinition.apiextensions.k8s.io/{NAME} created\n"
    waited = await cluster.kubectl("wait", "--for=condition=Established", f"crd/{NAME}", "--timeout=60s")
    assert waited.ok().endswith("condition met\n")


async def test_a_kind_of_ones_own(cluster: Cluster) -> None:
    await _defined(cluster)
    listed = (await cluster.kubectl("api-resources", "--api-group=stable.example.com")).ok()
    assert listed.splitlines()[1].split() == ["crontabs", "ct", "stable.example.com/v1", "true", "CronTab"]
    (await cluster.kubectl("apply", "-f", "-", stdin=OBJECT)).ok()
    table = (await cluster.kubectl("get", "ct", "-o", "wide")).ok().splitlines()
    assert table[0].split() == ["NAME", "SPEC", "REPLICAS", "IMAGE", "AGE"]
    assert table[1].split()[:8] == ["mine", "*", "*", "*", "*", "*", "1", "tiny:1"]
    assert "crontab.stable.example.com/mine" in (await cluster.kubectl("get", "all")).ok()
    explained = (await cluster.kubectl("explain", "ct.spec.cronSpec")).ok()
    assert "When it runs." in explained
    recursive = (await cluster.kubectl("explain", "ct", "--recursive")).ok()
    assert "A job that comes back." in recursive
    assert "enum: fast, slow" in recursive
    assert "while the VM runs" in (await cluster.kubectl("explain", "pod.spec.containers.resources")).ok()
    described = (await cluster.kubectl("describe", "ct", "mine")).ok()
    assert "Cron Spec:  * * * * *" in described
    assert (await cluster.kubectl("get", "ct", "--field-selector=spec.mode=fast", "-o", "name")).ok()
    assert not (await cluster.kubectl("get", "ct", "--field-selector=spec.mode=slow", "-o", "name")).ok()


async def test_every_way_to_change_a_custom_object(cluster: Cluster) -> None:
    await _defined(cluster)
    (await cluster.kubectl("apply", "-f", "-", stdin=OBJECT)).ok()
    slow = OBJECT.replace("fast", "slow")
    assert "configured" in (await cluster.kubectl("apply", "-f", "-", stdin=slow)).ok()
    assert "unchanged" in (await cluster.kubectl("apply", "-f", "-", stdin=slow)).ok()
    assert "mode: slow" in (await cluster.kubectl("diff", "-f", "-", stdin=OBJECT)).out
    (await cluster.kubectl("scale", "ct", "mine", "--replicas=3")).ok()
    too_many = (await cluster.kubectl("scale", "ct", "mine", "--replicas=30")).refused()
    assert "spec.replicas: Invalid value: 30: spec.replicas in body should be less than or equal to 10" in too_many
    wrong = await cluster.kubectl("patch", "ct", "mine", "--type=merge", "-p", '{"spec":{"cronSpec":"x","mode":"no"}}')
    assert '* spec.mode: Unsupported value: "no": supported values: "fast", "slow"' in wrong.refused()
    (await cluster.kubectl("patch", "ct", "mine", "--type=json", "-p", '[{"op":"remove","path":"/spec/mode"}]')).ok()
    strategic = await cluster.kubectl("patch", "ct", "mine", "--type=strategic", "-p", '{"spec":{"mode":"fast"}}')
    assert "strategic" in strategic.refused()
    status = '{"status":{"phase":"ready","replicas":3}}'
    (await cluster.kubectl("patch", "ct", "mine", "--subresource=status", "--type=merge", "-p", status)).ok()
    (await cluster.kubectl("wait", "ct/mine", "--for=jsonpath={.status.phase}=ready", "--timeout=60s")).ok()
    (await cluster.kubectl("label", "ct", "mine", "a=b")).ok()
    (await cluster.kubectl("annotate", "ct", "mine", "c=d")).ok()
    conflict = await cluster.kubectl(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=OBJECT.replace("* * *'", "* * 1'")
    )
    assert ".spec.cronSpec" in conflict.refused()
    forced = await cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", "-", stdin=OBJECT
    )
    assert forced.ok().endswith("serverside-applied\n")
    shown = yaml.safe_load((await cluster.kubectl("get", "ct", "mine", "-o", "yaml")).ok())
    assert shown["spec"] == {"cronSpec": "* * * * *", "image": "tiny:1", "mode": "fast", "replicas": 3}
    assert shown["status"] == {"phase": "ready", "replicas": 3}
    stray = await cluster.kubectl("create", "-f", "-", stdin=OBJECT.replace("mine", "two").replace("mode", "modus"))
    assert 'strict decoding error: unknown field "spec.modus"' in stray.refused()
    (await cluster.kubectl("delete", "ct", "mine")).ok()


async def test_watching_and_the_end_of_a_kind(cluster: Cluster) -> None:
    await _defined(cluster)
    async with cluster.running("get", "ct", "--watch", "--no-headers") as lines, asyncio.timeout(60):
        (await cluster.kubectl("create", "-f", "-", stdin=OBJECT)).ok()
        assert (await lines.readline()).startswith(b"mine")
    deleted = await cluster.kubectl("delete", "crd", NAME, "--timeout=60s")
    assert deleted.ok() == f'customresourcedefinition.apiextensions.k8s.io "{NAME}" deleted\n'
    assert (await cluster.kubectl("get", "crd", "-o", "name")).ok() == ""
    await _defined(cluster)
    assert (await cluster.kubectl("get", "ct", "-o", "name")).ok() == ""


async def test_a_name_of_the_servers_own_is_refused(cluster: Cluster) -> None:
    built_in = CRD.replace("crontabs", "leases").replace("stable.example.com", "coordination.k8s.io")
    refused = await cluster.kubectl("create", "-f", "-", stdin=built_in)
    assert "leases.coordination.k8s.io is built into this server" in refused.refused()


async def test_a_schema_that_is_not_structural_is_refused(cluster: Cluster) -> None:
    refused = await cluster.kubectl("create", "-f", "-", stdin=CRD.replace("cronSpec: {type: string,", "cronSpec: {"))
    where = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[cronSpec].type"
    assert f"{where}: Required value: must not be empty for specified object fields" in refused.refused()
