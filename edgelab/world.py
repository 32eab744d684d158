"""What the steps of the main job act on and look at: a box, kubectl, and the inside of the guests.

Claims are about facts seen from outside Copepod: what kubectl prints, what the guest's own kernel says, what libvirt's
domain holds. A claim that is not true raises `FalseClaim`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgelab import nodestore
from edgelab.box import Box
from edgelab.effects import Recorder
from edgelab.kubectl import Kubectl
from edgelab.waiting import until_none
from kubeapi import quantity
from vmruntime.api import Runtime, VmStatus
from vmruntime.connect import open_runtime

THROUGHPUT_SECONDS = 4
SPIN = f"""
read a _ < /proc/uptime; s=${{a%.*}}
while read a _ < /proc/uptime; [ ${{a%.*}} -eq $s ]; do :; done
e=$((${{a%.*}} + {THROUGHPUT_SECONDS})); n=0
while read a _ < /proc/uptime; [ ${{a%.*}} -lt $e ]; do
  i=0; while [ $i -lt 100 ]; do i=$((i + 1)); done; n=$((n + 1))
done
echo $n
"""
"""Busy work for a whole number of the guest's seconds; prints how much was done. Needs nothing but a POSIX shell."""


class FalseClaim(Exception):
    """What was claimed is not so; the message says what was seen instead."""


@dataclass
class World:
    box: Box
    kubectl: Kubectl
    runtime: Runtime
    recorder: Recorder
    manifests: Path
    """configs/examples."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What an earlier step saw and a later one compares with."""

    # -- the hub's side ---------------------------------------------------------------------------------------------

    async def pod(self, name: str) -> Mapping[str, Any]:
        found = await self.kubectl.get("pod", name)
        claim(found is not None, f"the hub has no pod {name}")
        assert found is not None
        return found

    async def patch_resources(self, name: str, container: str, resources: Mapping[str, Any]) -> None:
        patch = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        await self.kubectl.ok("patch", "pod", name, "--subresource", "resize", "--patch", json.dumps(patch))

    async def resized(self, name: str, timeout: float = 60) -> Mapping[str, Any]:
        """Wait until the hub shows the wish in force: generation observed, resources equal, no resize condition."""
        pod: Mapping[str, Any] = {}

        async def look() -> str | None:
            nonlocal pod
            pod = await self.pod(name)
            return resize_complaint(pod)

        await until_none(look, f"pod {name}: resize in force", timeout)
        return pod

    # -- the node's side --------------------------------------------------------------------------------------------

    async def vm(self, pod_name: str) -> VmStatus:
        """The pod's VM as libvirt and its guest show it. Raises FalseClaim if there is none."""
        found = [vm for vm in await self.runtime.list() if vm.owner.pod == pod_name]
        claim(len(found) == 1, f"pod {pod_name} has {len(found)} VMs on the node, not 1")
        return await self.runtime.inspect(found[0].uuid)

    async def guest(self, pod_name: str, command: str, timeout: float = 60) -> str:
        """What a shell command prints in the pod's guest."""
        vm = await self.vm(pod_name)
        result = await self.runtime.exec(vm.uuid, ["/bin/sh", "-c", command], timeout=timeout)
        claim(result.code == 0, f"`{command}` in {pod_name} ended with {result.code}: {result.stderr.decode()}")
        return result.stdout.decode().strip()

    async def throughput(self, pod_name: str, enough: float | None = None) -> int:
        """Work done in a few seconds inside the guest. Other load on the machine can only lower it, so the best of two
        counts, or of as many (up to six) as it takes to see `enough`."""
        best = 0
        for tried in range(1, 7):
            best = max(best, int(await self.guest(pod_name, SPIN)))
            if tried >= 2 and (enough is None or best >= enough):
                break
        return best

    async def node_status(self, uid: str) -> Mapping[str, Any] | None:
        """The pod's status in the node's own store, as the API writes it."""
        records = await nodestore.pod_records(self.box.node_state(0))
        record = records.get(uid)
        if record is None or record.status is None:
            return None
        return record.status.to_dict()

    async def sides_agree(self, name: str, timeout: float = 60) -> None:
        """Wait until hub and node hold the same status for the pod."""

        async def look() -> str | None:
            pod = await self.pod(name)
            mine = await self.node_status(pod["metadata"]["uid"])
            return "the node has none" if mine is None else status_difference(pod["status"], mine)

        await until_none(look, f"pod {name}: equal status on both sides", timeout)

    async def node_ready(self, wanted: str, timeout: float = 90) -> None:
        """Wait until the hub shows the node's condition Ready as `wanted` (True, Unknown)."""

        async def look() -> str | None:
            node = await self.kubectl.get("node", self.box.node_names[0])
            conditions = by_type(node["status"].get("conditions", ()) if node else ())
            seen = conditions.get("Ready", {}).get("status", "absent")
            return None if seen == wanted else f"it is {seen}"

        await until_none(look, f"node Ready={wanted}", timeout)


@asynccontextmanager
async def opened(box: Box, manifests: Path) -> AsyncIterator[World]:
    """A world over a box with one real node."""
    installation = nodestore.installation(box.node_state(0))
    runtime = open_runtime("libvirt", installation=installation)
    try:
        async with Recorder(runtime) as recorder:
            yield World(box, box.kubectl(), runtime, recorder, manifests)
    finally:
        await runtime.close()


def claim(true: bool, otherwise: str) -> None:
    if not true:
        raise FalseClaim(otherwise)


def resize_complaint(pod: Mapping[str, Any]) -> str | None:
    """Why the pod's resize is not in force yet, by the API's own fields; None when it is."""
    status, generation = pod["status"], pod["metadata"].get("generation", 0)
    observed = status.get("observedGeneration", 0)
    if observed != generation:
        return f"observedGeneration {observed} of {generation}"
    for condition in status.get("conditions", ()):
        if condition["type"] in ("PodResizePending", "PodResizeInProgress"):
            return f"{condition['type']} {condition.get('reason', '')}: {condition.get('message', '')}"
    shown = {c["name"]: c for c in status.get("containerStatuses", ())}
    for container in pod["spec"]["containers"]:
        actual = shown.get(container["name"], {}).get("resources", {})
        if not same_resources(container.get("resources", {}), actual):
            return f"{container['name']}: wished {container.get('resources')}, in force {actual}"
    return None


def unready_reason(pod: Mapping[str, Any]) -> str:
    """Why a pod is not Ready, in the words of its own status: what kubectl's `wait` does not tell."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        for kind, state in container.get("state", {}).items():
            if kind != "running":
                return f"{container['name']} is {kind}: {state.get('reason', '')}: {state.get('message', '')}"
    for condition in status.get("conditions", ()):
        if condition["status"] != "True" and condition.get("message"):
            return f"{condition['type']} {condition.get('reason', '')}: {condition['message']}"
    return f"phase {status.get('phase', 'unknown')}"


def same_resources(wished: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Amounts are compared, not spellings: 1000m is 1."""
    return all(_amounts(wished.get(part, {})) == _amounts(actual.get(part, {})) for part in ("requests", "limits"))


def _amounts(resources: Mapping[str, str]) -> dict[str, int]:
    read = {"cpu": quantity.cpu_millis, "memory": quantity.memory_bytes}
    return {name: read[name](text) for name, text in resources.items() if name in read}


def status_difference(hub: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Where the hub's copy says other than the node; None where it says all that the node said.

    The hub may say more. PodScheduled is the scheduler's own word, which the node only repeats; and since when a pod is
    Ready the hub knows otherwise after it has called it not Ready for its node's silence.
    """
    theirs, own = by_type(hub.get("conditions", ())), by_type(node.get("conditions", ()))
    differing = [kind for kind in own if kind != "PodScheduled" and _said(own[kind]) != _said(theirs.get(kind, {}))]
    differing += [key for key in node if key != "conditions" and node[key] != hub.get(key)]
    if not differing:
        return None
    hub_part, node_part = ({key: side.get(key) for key in differing} for side in ({**hub, **theirs}, {**node, **own}))
    return f"the hub has {hub_part}, the node {node_part}"


def _said(condition: Mapping[str, Any]) -> dict[str, Any]:
    dated = condition.get("type") != "Ready"
    return {key: value for key, value in condition.items() if dated or key != "lastTransitionTime"}


def by_type(conditions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {condition["type"]: condition for condition in conditions}
