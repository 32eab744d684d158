"""Real kubectl applies, edits, replaces and diffs, by itself and by the server, and moves from one to the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from kubeapi.core import ConfigMap, Pod
from tests.integration.test_kubectl_api import Cluster, Ran, cluster, manifest

__all__ = ["cluster"]

_ENDPOINTS = Path(__file__).parents[1] / "data" / "kubernetes" / "kubectl-endpoints.tsv"
_LOGGED = re.compile(r'PATCH"? (?:url=")?(https://[^ "]+)"? (?:status=")?(\d{3}) ')
"""Of kubectl 1.37 and, without names, of older ones."""


def recorded(name: str) -> Iterator[tuple[str, dict[str, list[str]], int]]:
    """The PATCH requests that a command made of a real server: path, query, status."""
    for line in _ENDPOINTS.read_text().splitlines():
        command, method, path, query, _, _, status, *_ = line.split("\t")
        if (command, method) == (name, "PATCH"):
            yield path.replace("/demo/", "/default/"), parse_qs(query), int(status)


def requested(ran: Ran) -> list[tuple[str, dict[str, list[str]], int]]:
    """The same of a command that ran with -v=6."""
    found = []
    for url, status in _LOGGED.findall(ran.err):
        parts = urlsplit(url)
        found.append((parts.path, parse_qs(parts.query), int(status)))
    return found


async def apply(cluster: Cluster, text: str, *arguments: str) -> Ran:
    return await cluster.kubectl("apply", "--server-side", "-v=6", "-f", "-", *arguments, stdin=text)


async def managers(cluster: Cluster, kind: str, name: str) -> dict[tuple[str, str, str], Any]:
    shown = (await cluster.kubectl("get", kind, name, "-o", "json", "--show-managed-fields")).ok()
    entries = json.loads(shown)["metadata"].get("managedFields", [])
    return {(item["manager"], item["operation"], item.get("subresource", "")): item["fieldsV1"] for item in entries}


def config(name: str, data: dict[str, str]) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


async def test_server_side_apply_as_recorded(cluster: Cluster) -> None:
    """apply-ssa, -again, -conflict, -resize, -resize-force of kubectl-endpoints.tsv."""
    made = await apply(cluster, manifest("k2", nodeName="n1"))
    assert made.ok() == "pod/k2 serverside-applied\n"
    assert requested(made) == list(recorded("apply-ssa"))
    again = await apply(cluster, manifest("k2", nodeName="n1"))
    assert again.ok() == "pod/k2 serverside-applied\n"
    assert requested(again) == list(recorded("apply-ssa-again"))

    changed = manifest("k2", nodeName="n1").replace("image: tiny", "image: other")
    conflict = await apply(cluster, changed, "--field-manager=other")
    assert requested(conflict) == list(recorded("apply-ssa-conflict"))
    told = 'Apply failed with 1 conflict: conflict with "kubectl": .spec.containers[name="c1"].image'
    assert told in conflict.refused()
    (await apply(cluster, changed, "--field-manager=other", "--force-conflicts")).ok()
    owners = await managers(cluster, "pod", "k2")
    assert "f:image" in owners["other", "Apply", ""]["f:spec"]["f:containers"]['k:{"name":"c1"}']
    assert "f:image" not in owners["kubectl", "Apply", ""]["f:spec"]["f:containers"]['k:{"name":"c1"}']

    bigger = {"name": "c1", "resources": {"requests": {"cpu": "300m"}}}
    wish = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "k2"}, "spec": {"containers": [bigger]}}
    )
    refused = await apply(cluster, wish, "--subresource=resize")
    assert requested(refused) == list(recorded("apply-ssa-resize"))
    assert '.spec.containers[name="c1"].resources.requests.cpu' in refused.refused()
    forced = await apply(cluster, wish, "--subresource=resize", "--force-conflicts")
    assert requested(forced) == list(recorded("apply-ssa-resize-force"))
    pod = await cluster.objects.get(Pod, "default", "k2")
    assert pod.spec.containers[0].requests["cpu"] == "300m"
    assert ("kubectl", "Apply", "resize") in await managers(cluster, "pod", "k2")
    assert "managedFields" not in (await cluster.kubectl("get", "pod", "k2", "-o", "yaml")).ok()


async def test_what_is_no_longer_applied_goes(cluster: Cluster) -> None:
    (await apply(cluster, config("c", {"a": "1", "b": "2"}))).ok()
    (await apply(cluster, config("c", {"b": "2", "d": "4"}), "--field-manager=second")).ok()
    (await apply(cluster, config("c", {"a": "1"}))).ok()
    found = await cluster.objects.get(ConfigMap, "default", "c")
    assert found.data == {"a": "1", "b": "2", "d": "4"}, "b is the second one's, too"
    (await apply(cluster, config("c", {"d": "4"}), "--field-manager=second")).ok()
    found = await cluster.objects.get(ConfigMap, "default", "c")
    assert found.data == {"a": "1", "d": "4"}
    dry = await apply(cluster, config("c", {"e": "5"}), "--dry-run=server")
    assert dry.ok() == "configmap/c serverside-applied (server dry run)\n"
    assert (await cluster.objects.get(ConfigMap, "default", "c")).data == {"a": "1", "d": "4"}


async def test_from_client_side_apply_to_the_server_s(cluster: Cluster) -> None:
    (await cluster.kubectl("apply", "-f", "-", stdin=config("c", {"a": "1", "b": "2"}))).ok()
    assert ("kubectl-client-side-apply", "Update", "") in await managers(cluster, "configmap", "c")
    assert "serverside-applied" in (await apply(cluster, config("c", {"a": "3"}))).ok()
    found = await cluster.objects.get(ConfigMap, "default", "c")
    assert found.data == {"a": "3"}, "what client-side apply made and is no longer applied goes, too"
    owners = await managers(cluster, "configmap", "c")
    assert ("kubectl-client-side-apply", "Update", "") not in owners
    assert owners["kubectl", "Apply", ""]["f:data"] == {"f:a": {}}
    # And back: kubectl compares with the annotation, which has followed.
    (await cluster.kubectl("apply", "-f", "-", stdin=config("c", {"x": "1"}))).ok()
    assert (await cluster.objects.get(ConfigMap, "default", "c")).data == {"x": "1"}


async def test_what_somebody_changed_since_is_a_conflict(cluster: Cluster) -> None:
    (await cluster.kubectl("apply", "-f", "-", stdin=config("c", {"a": "1"}))).ok()
    patch = json.dumps({"data": {"a": "2"}})
    (await cluster.kubectl("patch", "configmap", "c", "-p", patch, "--field-manager=hand")).ok()
    refused = (await apply(cluster, config("c", {"a": "3"}))).refused()
    assert 'conflict with "hand" using v1: .data.a' in refused


async def test_mistakes_in_an_apply(cluster: Cluster) -> None:
    unknown = await apply(cluster, manifest("one", bogus=1))
    assert "failed to create typed patch object (default/one; /v1, Kind=Pod): .spec.bogus" in unknown.refused()
    assert "field not declared in schema" in unknown.err
    long = await apply(cluster, config("c", {}), f"--field-manager={'x' * 129}")
    assert 'The PatchOptions "" is invalid: fieldManager: Too long' in long.refused()


async def test_edit_replace_and_diff(cluster: Cluster) -> None:
    (await cluster.kubectl("apply", "-f", "-", stdin=config("c", {"a": "1"}))).ok()
    same = await cluster.kubectl("diff", "-f", "-", stdin=config("c", {"a": "1"}))
    assert (same.code, same.out) == (0, ""), same.err
    for way in ((), ("--server-side",)):
        differs = await cluster.kubectl("diff", *way, "-f", "-", stdin=config("c", {"a": "2"}))
        assert differs.code == 1, differs.err
        assert '-  a: "1"\n+  a: "2"' in differs.out
    (await cluster.kubectl("replace", "-f", "-", stdin=config("c", {"a": "3"}))).ok()
    assert (await cluster.objects.get(ConfigMap, "default", "c")).data == {"a": "3"}
    assert ("kubectl-replace", "Update", "") in await managers(cluster, "configmap", "c")
    forced = await cluster.kubectl("replace", "--force", "-f", "-", stdin=config("c", {"a": "4"}))
    assert "replaced" in forced.ok()

    editor = cluster.directory / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/a: \\"4\\"/a: \\"5\\"/" "$1"\n')
    editor.chmod(0o755)
    edited = await cluster.kubectl("edit", "configmap", "c", environment={"KUBE_EDITOR": str(editor)})
    assert edited.ok() == "configmap/c edited\n"
    assert (await cluster.objects.get(ConfigMap, "default", "c")).data == {"a": "5"}
    assert ("kubectl-edit", "Update", "") in await managers(cluster, "configmap", "c")


async def test_lists_with_keys_of_other_kinds(cluster: Cluster) -> None:
    """A Service's ports by their number, both ways."""

    def service(*ports: int) -> str:
        spec = {"selector": {"app": "x"}, "ports": [{"name": f"p{port}", "port": port} for port in ports]}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})

    async def ports() -> set[int]:
        shown = json.loads((await cluster.kubectl("get", "service", "s", "-o", "json")).ok())
        return {item["port"] for item in shown["spec"]["ports"]}

    (await cluster.kubectl("apply", "-f", "-", stdin=service(80, 81))).ok()
    assert (await cluster.kubectl("apply", "-f", "-", stdin=service(81, 82))).ok() == "service/s configured\n"
    assert await ports() == {81, 82}
    (await cluster.kubectl("replace", "--force", "-f", "-", stdin=service(81, 82))).ok()
    (await apply(cluster, service(82, 83), "--field-manager=other")).ok()
    assert await ports() == {81, 82, 83}
    (await apply(cluster, service(83), "--field-manager=other")).ok()
    assert await ports() == {81, 82, 83}, "82 is its creator's, too"


async def test_subresources_by_edit_and_replace(cluster: Cluster) -> None:
    """edit-resize and replace-resize of kubectl-endpoints.tsv."""
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("k1", nodeName="n1"))).ok()
    editor = cluster.directory / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/cpu: 250m/cpu: 300m/' \"$1\"\n")
    editor.chmod(0o755)
    edited = await cluster.kubectl(
        "edit", "pod", "k1", "--subresource=resize", "-v=6", environment={"KUBE_EDITOR": str(editor)}
    )
    edited.ok()
    assert requested(edited) == list(recorded("edit-resize"))
    whole = (await cluster.kubectl("get", "pod", "k1", "-o", "yaml")).ok().replace("cpu: 300m", "cpu: 350m")
    (await cluster.kubectl("replace", "--subresource=resize", "-f", "-", stdin=whole)).ok()
    pod = await cluster.objects.get(Pod, "default", "k1")
    assert pod.spec.containers[0].requests["cpu"] == "350m"
    owners = await managers(cluster, "pod", "k1")
    assert {("kubectl-replace", "Update", "resize")} <= owners.keys()
