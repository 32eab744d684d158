"""The daemons: memory and idle CPU of an agent with VMs, and what one change of status costs on wire and disk."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bench.result import Result
from edgelab import clean, nodestore
from edgelab.box import Box, BoxConfig, Links
from edgelab.kubectl import Kubectl
from edgelab.proxy import ProxyLink
from edgelab.waiting import until_none
from edgelab.world import resize_complaint

STATE = Path(os.environ.get("COPEPOD_TEST_STATE", "/var/lib/copepod-test")) / "bench"
VMS = 5
IDLE_SECONDS = 30.0
CHANGES = 40
KUBEEDGE_RSS_MIB, KUBEEDGE_IDLE = 96.0, 0.33
"""Its edgecore, idle, without pods and without its container runtime (docs/performance-ground.md)."""


def _pod(name: str, cpu: str) -> str:
    resources = {"cpu": cpu, "memory": "96Mi"}
    container = {
        "name": "vm",
        "image": "copepod/micro:latest",
        "resources": {"limits": resources, "requests": resources},
    }
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )


async def agent() -> list[Result]:
    """One agent with five real VMs."""
    async with _real_lab() as box:
        kubectl = box.kubectl()
        names = [f"bench-{number}" for number in range(VMS)]
        for name in names:
            await _create(kubectl, name, "100m")
        pods = [f"pod/{name}" for name in names]
        await kubectl.ok("wait", "--for=condition=Ready", *pods, "--timeout=300s", timeout=310)
        process = psutil.Process(box.agents[0].pid)
        cpu, written = await _idle(process)
        rss = process.memory_info().rss / (1 << 20)
    peer = "KubeEdge edgecore, idle, no pods"
    return [
        Result("agent_rss_5_vms", rss, "MiB", KUBEEDGE_RSS_MIB, peer),
        Result("agent_idle_cpu_5_vms", cpu, "% of a core", KUBEEDGE_IDLE, peer, f"over {IDLE_SECONDS:.0f} s"),
        Result("agent_idle_writes", written * 86400 / IDLE_SECONDS / 1e6, "MB a day"),
    ]


@asynccontextmanager
async def _real_lab() -> AsyncIterator[Box]:
    """One real node, and nothing of it left; if we are killed, it lies where `make clean` finds its VMs."""
    await clean.clean(STATE, _silent)
    try:
        async with Box(BoxConfig(STATE), _silent) as box:
            yield box
    finally:
        await clean.clean(STATE, _silent)


async def _idle(process: psutil.Process) -> tuple[float, int]:
    """CPU in % of a core and bytes written, over a while in which nothing is asked of it."""
    await asyncio.sleep(5)  # what the last change set going has ended
    before, io_before = process.cpu_times(), process.io_counters().write_bytes
    await asyncio.sleep(IDLE_SECONDS)
    after, io_after = process.cpu_times(), process.io_counters().write_bytes
    spent = (after.user + after.system) - (before.user + before.system)
    return 100 * spent / IDLE_SECONDS, io_after - io_before


async def traffic() -> list[Result]:
    """A resize of a simulated VM, seen at the node's end of the link and by what each process wrote to disk."""
    with tempfile.TemporaryDirectory(prefix="copepod-bench-") as directory:
        config = BoxConfig(Path(directory) / "state", fake_vms=True, links=Links.PROXY)
        async with Box(config, _silent) as box:
            kubectl = box.kubectl()
            await _create(kubectl, "bench", "100m")
            await kubectl.ok("wait", "--for=condition=Ready", "pod/bench", "--timeout=60s", timeout=70)
            link = box.links[0]
            assert isinstance(link, ProxyLink)
            node, hub = psutil.Process(box.agents[0].pid), psutil.Process(box.hub.pid)
            up, down, rows = link.bytes_up, link.bytes_down, await _statuses(box)
            disks = node.io_counters().write_bytes, hub.io_counters().write_bytes
            for number in range(CHANGES):
                await _resize(kubectl, f"{200 + number}m")
            changes = max(await _statuses(box) - rows, 1)
            wire_up, wire_down = link.bytes_up - up, link.bytes_down - down
            node_disk = node.io_counters().write_bytes - disks[0]
            hub_disk = hub.io_counters().write_bytes - disks[1]
    note = f"{changes} status changes of {CHANGES} resizes"
    return [
        Result("wire_up_per_status_change", wire_up / changes, "B", note=note),
        Result("wire_down_per_status_change", wire_down / changes, "B", note="deltas, acknowledgements and leases"),
        Result("disk_node_per_status_change", node_disk / changes / 1024, "KiB", note="records, outbox and their log"),
        Result("disk_hub_per_status_change", hub_disk / changes / 1024, "KiB"),
    ]


async def _statuses(box: Box) -> int:
    """How many statuses the node has sent."""
    records = await nodestore.pod_records(box.node_state(0))
    return sum(record.sequence for record in records.values())


async def _create(kubectl: Kubectl, name: str, cpu: str) -> None:
    await kubectl.ok("create", "-f", "-", stdin=_pod(name, cpu))


async def _resize(kubectl: Kubectl, cpu: str) -> None:
    resources = {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}
    patch = {"spec": {"containers": [{"name": "vm", "resources": resources}]}}
    await kubectl.ok("patch", "pod", "bench", "--subresource", "resize", "--patch", json.dumps(patch))

    async def look() -> str | None:
        pod = await kubectl.get("pod", "bench")
        return resize_complaint(pod) if pod else "the pod is gone"

    await until_none(look, "resize in force", 30)


def _silent(_line: str) -> None:
    return None
