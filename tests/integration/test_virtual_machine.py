"""Arktos' form of pods by real kubectl: made, shown, resized by a plain patch, switched off, rolled out; and by clients
that do not know it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from edgelab.box import Box, BoxConfig
from edgelab.kubectl import Kubectl
from edgelab.waiting import until_none
from edgelab.world import resize_complaint
from kubeapi.core import Pod
from tests.integration.test_kubectl_api import Cluster, Ran, cluster

__all__ = ["cluster"]

EXAMPLE = (Path(__file__).parents[2] / "configs" / "examples" / "virtual-machine.yaml").read_text()
NAME = "virtual-machine"
BIGGER = {"requests": {"cpu": "700m"}, "limits": {"cpu": "700m"}}


def machine(**change: Any) -> str:
    return json.dumps({"spec": {"virtualMachine": change}})


async def patch(cluster: Cluster, wish: str, *more: str) -> Ran:
    return await cluster.kubectl("patch", "pod", NAME, "--patch", wish, *more)


async def stored(cluster: Cluster) -> Pod:
    """Machine and mirror are in step whenever one looks."""
    pod = await cluster.objects.get(Pod, "default", NAME)
    vm, mirror = pod.spec.virtual_machine, pod.spec.containers[0]
    assert vm is not None
    assert (vm.name, vm.image, vm.resources) == (mirror.name, mirror.image, mirror.resources)
    return pod


async def bound(cluster: Cluster) -> None:
    """The example, on node n1 (4 CPUs, 4Gi)."""
    (await cluster.kubectl("create", "-f", "-", stdin=EXAMPLE.replace("spec:\n", "spec:\n  nodeName: n1\n", 1))).ok()


async def test_apply_diff_and_replace_find_nothing_to_change(cluster: Cluster) -> None:
    apply = ("apply", "-f", "-")
    assert (await cluster.kubectl(*apply, stdin=EXAMPLE)).ok() == f"pod/{NAME} created\n"
    assert (await cluster.kubectl(*apply, stdin=EXAMPLE)).ok() == f"pod/{NAME} unchanged\n"
    assert (await cluster.kubectl("diff", "-f", "-", stdin=EXAMPLE)).ok() == ""
    (await cluster.kubectl("replace", "-f", "-", stdin=EXAMPLE)).ok()
    assert (await stored(cluster)).metadata.generation == 1
    larger = EXAMPLE.replace("        cpu: 250m", "        cpu: 300m")
    diff = (await cluster.kubectl("diff", "-f", "-", stdin=larger)).out
    assert diff.count("+        cpu: 300m\n") == 4, "requests and limits, of the machine and of its mirror"
    assert (await cluster.kubectl(*apply, stdin=larger)).ok() == f"pod/{NAME} configured\n"
    assert (await stored(cluster)).spec.containers[0].limits["cpu"] == "300m"
    again = (await cluster.kubectl("get", "pod", NAME, "-o", "yaml")).ok()
    assert (await cluster.kubectl(*apply, stdin=again)).ok() == f"pod/{NAME} configured\n", "its annotation at most"
    assert (await stored(cluster)).metadata.generation == 2


async def test_a_plain_patch_resizes_as_arktos_did(cluster: Cluster) -> None:
    await bound(cluster)
    assert (await patch(cluster, machine(resources=BIGGER))).ok() == f"pod/{NAME} patched\n"
    assert (await stored(cluster)).spec.containers[0].limits == {"cpu": "700m", "memory": "96Mi"}
    (await patch(cluster, machine(resources={"limits": {"cpu": "800m"}, "requests": {"cpu": "800m"}}), "--type=merge"))
    assert (await stored(cluster)).spec.containers[0].limits["cpu"] == "800m"
    # And by the subresource, of either of the two.
    for wish in (
        machine(resources=BIGGER),
        json.dumps({"spec": {"containers": [{"name": "vm", "resources": BIGGER}]}}),
    ):
        (await patch(cluster, machine(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}))).ok()
        (await patch(cluster, wish, "--subresource=resize")).ok()
        assert (await stored(cluster)).spec.containers[0].limits["cpu"] == "700m"


async def test_a_plain_patch_is_refused_as_the_subresource_refuses(cluster: Cluster) -> None:
    await bound(cluster)
    huge = {"limits": {"cpu": "64"}, "requests": {"cpu": "64"}}
    for wish, told in (
        (huge, "node didn't have enough allocatable resources: cpu, requested: 64000, allocatable: 4000"),
        ({"requests": {"cpu": "1m"}}, "Pod QOS Class may not change as a result of resizing"),
        ({"limits": {"cpu": "1m"}}, "spec.virtualMachine.resources.requests: Invalid value: "),
        (
            {"limits": {"memory": None}},
            "spec.virtualMachine.resources.limits: Forbidden: resource limits cannot be",
        ),
        (
            {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}},
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
    ):
        assert told in (await patch(cluster, machine(resources=wish))).refused()
    most = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}}
    most["spec"] = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
    (await cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(most))).ok()
    told = "maximum cpu usage per Container is 2, but limit is 3"
    assert (
        told in (await patch(cluster, machine(resources={"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}))).refused()
    )
    (await cluster.kubectl("create", "quota", "q", "--hard=requests.cpu=1")).ok()
    told = "exceeded quota: q, requested: requests.cpu=1250m, used: requests.cpu=250m, limited: requests.cpu=1"
    half = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "1500m"}}
    assert told in (await patch(cluster, machine(resources=half))).refused()
    assert (await stored(cluster)).metadata.generation == 1
    (await patch(cluster, machine(resources=BIGGER))).ok()


async def test_what_else_may_change(cluster: Cluster) -> None:
    await bound(cluster)
    for wish in ("Shutdown", "Running", "Paused"):
        (await patch(cluster, machine(powerSpec=wish))).ok()
    refused = (await patch(cluster, machine(powerSpec="off"))).refused()
    assert 'Unsupported value: "off": supported values: "Running", "Paused", "Shutdown", "Suspended"' in refused
    refused = (await patch(cluster, machine(userData="eA=="))).refused()
    assert "pod updates may not change fields other than" in refused
    assert "+ spec.virtualMachine.userData" in refused
    (await cluster.kubectl("set", "image", f"pod/{NAME}", "vm=copepod/micro:2")).ok()
    assert (await stored(cluster)).spec.containers[0].image == "copepod/micro:2"
    (await patch(cluster, machine(image="copepod/micro:3"))).ok()
    assert (await stored(cluster)).spec.containers[0].image == "copepod/micro:3"


async def test_it_is_shown(cluster: Cluster) -> None:
    await bound(cluster)
    described = (await cluster.kubectl("describe", "pod", NAME)).ok()
    assert "Image:      copepod/micro:latest" in described
    explained = (await cluster.kubectl("explain", "pod.spec.virtualMachine.powerSpec")).ok()
    assert "`Shutdown` or `Suspended`" in explained
    header, row = (await cluster.kubectl("get", "pods", "-o", "wide")).ok().splitlines()
    assert header.split("  ")[-1].strip() == "VM MEMORY"
    assert row.split()[-3:] == ["<unknown>", "<none>/250m", "<none>/96Mi"]
    assert "POWER" not in (await cluster.kubectl("get", "pods")).ok()


async def test_a_client_that_does_not_know_the_form_writes_back(cluster: Cluster) -> None:
    """What a typed client does: it cuts what it does not know, changes something else, and puts the whole back."""
    await bound(cluster)
    text = (await cluster.kubectl("get", "pod", NAME, "-o", "json")).ok()
    cut = json.loads(text)
    del cut["spec"]["virtualMachine"]
    cut["metadata"]["labels"] = {"seen": "yes"}
    cut["spec"]["containers"][0]["image"] = "copepod/micro:2"
    (await cluster.kubectl("replace", "-f", "-", stdin=json.dumps(cut))).ok()
    pod = await stored(cluster)
    assert pod.metadata.labels == {"seen": "yes"}
    assert pod.spec.containers[0].image == "copepod/micro:2"
    cut["metadata"].pop("resourceVersion")
    cut["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "96Mi"}}
    refused = (await cluster.kubectl("replace", "-f", "-", stdin=json.dumps(cut))).refused()
    assert "pod updates may not change fields other than" in refused
    (await cluster.kubectl("replace", "--subresource=resize", "-f", "-", stdin=json.dumps(cut))).ok()
    assert (await stored(cluster)).spec.containers[0].limits["cpu"] == "1"


async def test_kubectl_edit_reaches_the_mirror(cluster: Cluster) -> None:
    """kubectl itself cannot edit a field of pods that it does not know; the container it can."""
    await bound(cluster)
    editor = cluster.directory / "editor"
    editor.write_text("#!/bin/sh\nsed -i '0,/copepod.micro:latest/s//copepod\\/micro:2/' $1\n")
    editor.chmod(0o755)
    (await cluster.kubectl("edit", "pod", NAME, environment={"KUBE_EDITOR": str(editor)})).ok()
    assert (await stored(cluster)).spec.containers[0].image == "copepod/micro:2"


async def test_server_side_apply_owns_both_and_conflicts_on_both(cluster: Cluster) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    (await cluster.kubectl(*apply, stdin=EXAMPLE)).ok()
    before = await stored(cluster)
    (await cluster.kubectl(*apply, stdin=EXAMPLE)).ok()
    assert (await stored(cluster)).metadata.resource_version == before.metadata.resource_version
    owned = {item["manager"]: item["fieldsV1"]["f:spec"] for item in before.metadata.managed_fields}["kubectl"]
    assert "f:image" in owned["f:virtualMachine"]
    assert "f:image" in owned["f:containers"]['k:{"name":"vm"}']
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}}
    for spec in (
        {"virtualMachine": {"name": "vm", "resources": BIGGER}},
        {"containers": [{"name": "vm", "resources": BIGGER}]},
    ):
        wish = yaml.safe_dump(head | {"spec": spec})
        told = (await cluster.kubectl(*apply, "--field-manager=other", "--subresource=resize", stdin=wish)).refused()
        assert '.spec.containers[name="vm"].resources.limits.cpu' in told
    forced = ("--field-manager=other", "--subresource=resize", "--force-conflicts")
    (await cluster.kubectl(*apply, *forced, stdin=wish)).ok()
    assert (await stored(cluster)).spec.containers[0].limits["cpu"] == "700m"
    told = (await cluster.kubectl(*apply, stdin=EXAMPLE)).refused()
    assert 'conflicts with "other" with subresource "resize"' in told


# With nodes


async def pod_of(kubectl: Kubectl, name: str) -> dict[str, Any]:
    return dict(await kubectl.get("pod", name) or {})


async def shows(kubectl: Kubectl, name: str, **wanted: Any) -> dict[str, Any]:
    """Wait until virtualMachineStatus has these values, and the newest wish is in force."""
    pod: dict[str, Any] = {}

    async def look() -> str | None:
        nonlocal pod
        pod = await pod_of(kubectl, name)
        status = pod.get("status", {}).get("virtualMachineStatus", {})
        seen = {key: status.get(key) for key in wanted}
        return None if seen == wanted else str(seen)

    await until_none(look, f"{name} shows {wanted}", 60)
    return pod


async def test_the_example_lives_through_a_day(tmp_path: Path) -> None:
    """Created, shown, resized by a plain patch, switched off and on; then as the template of a Deployment."""
    async with Box(BoxConfig(tmp_path / "lab", fake_vms=True), lambda _: None) as box:
        kubectl = box.kubectl()
        await kubectl.ok("create", "-f", "-", stdin=EXAMPLE)
        pod = await shows(kubectl, NAME, state="active", powerState="running", ready=True, restartCount=0)
        status = pod["status"]["virtualMachineStatus"]
        assert pod["status"]["containerStatuses"][0]["containerID"] == f"copepod://{status['virtualMachineId']}"
        row = (await kubectl.ok("get", "pod", NAME, "-o", "wide", "--no-headers")).split()
        assert row[-3:] == ["running", "250m/250m", "96Mi/96Mi"]
        assert "node-1" in row

        await kubectl.ok("patch", "pod", NAME, "--patch", machine(resources=BIGGER))

        async def resized() -> str | None:
            return resize_complaint(await pod_of(kubectl, NAME))

        await until_none(resized, "resized in place", 60)
        pod = await shows(kubectl, NAME, restartCount=0, powerState="running")
        assert pod["status"]["virtualMachineStatus"]["allocatedResources"]["limits"]["cpu"] == "700m"
        assert pod["status"]["virtualMachineStatus"]["resources"]["limits"]["cpu"] == "700m"

        await kubectl.ok("patch", "pod", NAME, "--patch", machine(powerSpec="Shutdown"))
        pod = await shows(kubectl, NAME, state="stopped", powerState="shutdown", ready=False)
        assert (await kubectl.ok("get", "pod", NAME, "--no-headers")).split()[2] == "PoweredOff"
        await kubectl.ok("patch", "pod", NAME, "--patch", machine(powerSpec="Running"))
        await shows(kubectl, NAME, state="active", powerState="running", ready=True, restartCount=1)
        await kubectl.ok("delete", "pod", NAME, "--timeout=60s")
        await rolled_out(kubectl)


def deployment() -> str:
    labels = {"app": "edge"}
    template = {"metadata": {"labels": labels}, "spec": yaml.safe_load(EXAMPLE)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "edge"}, "spec": spec})


async def rolled_out(kubectl: Kubectl) -> None:
    """One revision however often it is applied; another by a patch of the machine; back by a client that cuts it."""

    async def sets() -> int:
        return len((await kubectl.ok("get", "rs", "-l", "app=edge", "-o", "name")).splitlines())

    async def image() -> tuple[str, str]:
        found = await kubectl.get("deployment", "edge")
        assert found is not None
        spec = found["spec"]["template"]["spec"]
        return spec["virtualMachine"]["image"], spec["containers"][0]["image"]

    await kubectl.ok("apply", "-f", "-", stdin=deployment())
    await kubectl.ok("rollout", "status", "deployment/edge", "--timeout=60s", timeout=70)
    assert "unchanged" in await kubectl.ok("apply", "-f", "-", stdin=deployment())
    await kubectl.ok("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=deployment())
    await kubectl.ok("rollout", "status", "deployment/edge", "--timeout=60s", timeout=70)
    assert await sets() == 1
    wish = {"spec": {"template": {"spec": {"virtualMachine": {"image": "copepod/micro:next"}}}}}
    await kubectl.ok("patch", "deployment", "edge", "--patch", json.dumps(wish))
    await kubectl.ok("rollout", "status", "deployment/edge", "--timeout=60s", timeout=70)
    assert (await image(), await sets()) == (("copepod/micro:next", "copepod/micro:next"), 2)
    await kubectl.ok("rollout", "undo", "deployment/edge")
    await kubectl.ok("rollout", "status", "deployment/edge", "--timeout=60s", timeout=70)
    assert (await image(), await sets()) == (("copepod/micro:latest", "copepod/micro:latest"), 2)
    names = (
        await kubectl.ok("get", "pods", "-l", "app=edge", "-o", "jsonpath={.items[*].spec.virtualMachine.name}")
    ).split()
    assert names[-1:] == ["vm"]
