"""Looks at a whole lab from outside: the hub by its API, each node by its own store, its VMs and its agent's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgecore.agent import STORE_FILE
from edgecore.record import RECORDS, PodRecord
from edgelab import nodestore
from edgelab.box import Box
from edgelab.client import Client
from edgelab.invariants import Seen, acts_of, faults_of
from vmruntime.api import Runtime
from vmruntime.connect import open_runtime
from vmruntime.fake import FakeHost

PODS = "/api/v1/namespaces/default/pods"


async def hub_pods(client: Client) -> dict[str, Mapping[str, Any]]:
    """By name. Raises ApiUnavailable."""
    return {pod["metadata"]["name"]: pod for pod in (await client.get(PODS))["items"]}


async def look(box: Box, client: Client) -> Seen:
    """Raises ApiUnavailable, NoStore, VmError: whatever could not be looked at now."""
    seen = Seen(pods=await hub_pods(client))
    statuses: dict[str, Mapping[str, Any]] = {}
    vms: dict[str, Counter[str]] = {}
    waiting: dict[str, int] = {}
    for index, name in enumerate(box.node_names):
        vms[name] = await _vms(box, index)
        async with nodestore.opened(box.node_state(index) / STORE_FILE) as store:
            waiting[name] = len(await store.outbox())
            records = [PodRecord.from_json(row.value) for row in (await store.list(RECORDS)).rows]
            keys = [row.key.name for row in (await store.list(RECORDS)).rows]
        statuses |= {uid: r.status.to_dict() for uid, r in zip(keys, records, strict=True) if r.status is not None}
    seen.statuses, seen.vms, seen.waiting = statuses, vms, waiting
    events = (await client.get("/api/v1/events"))["items"]
    seen.silences = [event["message"] for event in events if event["reason"] == "NodeNotReady" and _of_node(event)]
    read_logs(box, seen)
    return seen


def _of_node(event: Mapping[str, Any]) -> bool:
    return bool(event["involvedObject"].get("kind") == "Node")


def read_logs(box: Box, seen: Seen) -> None:
    for child in (box.hub, *box.agents):
        log = _log(child.spec.log)
        seen.faults += faults_of(child.name, log)
        if child is not box.hub:
            seen.acts += acts_of(log)


def _log(path: Path) -> str:
    """With what was set aside when it grew too long."""
    files = (path.with_name(path.name + ".1"), path)
    return "".join(file.read_text(errors="replace") for file in files if file.exists())


async def _vms(box: Box, index: int) -> Counter[str]:
    runtime = _runtime(box, index)
    try:
        return Counter(vm.owner.pod_uid for vm in await runtime.list())
    finally:
        await runtime.close()


def _runtime(box: Box, index: int) -> Runtime:
    state = box.node_state(index)
    installation = nodestore.installation(state)
    if box.facts.fake_vms:
        return open_runtime("fake", installation=installation, fake_host=FakeHost(path=box.fake_vms(index)))
    return open_runtime("libvirt", installation=installation)
