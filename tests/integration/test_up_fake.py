"""`copepod up --fake-vms` as a user runs it: real processes, real broker, real kubectl; only the VMs are pretended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgelab.box import Box, BoxConfig, Links
from edgelab.broker import free_port
from edgelab.faults import severed
from edgelab.kubectl import Kubectl, KubectlFailed, find_kubectl
from edgelab.settings import LEASE_TIMEOUT
from edgelab.waiting import until, until_none
from edgelab.world import resize_complaint

PATIENCE = 90.0
EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"


@dataclass
class Up:
    process: asyncio.subprocess.Process
    kubectl: Kubectl
    state: Path

    def pids(self) -> dict[str, int]:
        return {file.stem: int(file.read_text()) for file in (self.state / "run").glob("*.pid")}

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


async def spawn(state: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edgelab", "up", "--fake-vms", "--state", str(state), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@asynccontextmanager
async def up(state: Path, *arguments: str) -> AsyncIterator[Up]:
    process = await spawn(state, *arguments)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 2 * PATIENCE)).decode()
        if not line:
            _, err = await process.communicate()
            pytest.fail(f"`copepod up` ended with {process.returncode}: {err.decode()}")
        name, _, file = line.strip().partition("=")
        assert name == "KUBECONFIG"
        yield Up(process, Kubectl(Path(file), find_kubectl()), state)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def ready(kubectl: Kubectl, name: str) -> None:
    await kubectl.ok("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


async def patch(kubectl: Kubectl, name: str, resources: dict[str, dict[str, str]]) -> None:
    spec = {"spec": {"containers": [{"name": "vm", "resources": resources}]}}
    await kubectl.ok("patch", "pod", name, "--subresource", "resize", "--patch", json.dumps(spec))


async def resized(kubectl: Kubectl, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = {}

    async def look() -> str | None:
        nonlocal pod
        pod = dict(await kubectl.get("pod", name) or {})
        return resize_complaint(pod)

    await until_none(look, f"{name} resized", 60)
    return pod


async def test_a_day_with_kubectl(tmp_path: Path) -> None:
    async with up(tmp_path / "lab", "--nodes", "2") as lab:
        nodes = (await lab.kubectl.ok("get", "nodes", "--no-headers")).splitlines()
        assert [line.split()[:2] for line in nodes] == [["node-1", "Ready"], ["node-2", "Ready"]]
        await lab.kubectl.ok("create", "-f", str(EXAMPLES / "micro-vm.yaml"))
        await ready(lab.kubectl, "micro-vm")
        await patch(lab.kubectl, "micro-vm", {"requests": {"cpu": "700m"}, "limits": {"cpu": "700m"}})
        pod = await resized(lab.kubectl, "micro-vm")
        assert pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "700m"
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        await lab.kubectl.ok("delete", "pod", "micro-vm", "--timeout=60s")
        assert await lab.kubectl.get("pod", "micro-vm") is None
        children = lab.pids()
        assert set(children) == {"broker", "hub", "fleet"}
        assert await lab.end() == 0
        assert all(gone(pid) for pid in children.values())
        assert lab.process.stdout is not None
        assert await lab.process.stdout.read() == b"", "one line only on stdout"


async def test_the_same_state_directory_resumes_the_same_cluster(tmp_path: Path) -> None:
    async with up(tmp_path / "lab") as lab:
        first = lab.kubectl.kubeconfig.read_text()
        await lab.kubectl.ok("create", "-f", str(EXAMPLES / "burst.yaml"))
        await ready(lab.kubectl, "burst")
        before = await lab.kubectl.get("pod", "burst")
        assert await lab.end() == 0
    async with up(tmp_path / "lab") as lab:
        assert lab.kubectl.kubeconfig.read_text() == first
        after = await lab.kubectl.get("pod", "burst")
        assert before is not None
        assert after is not None
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["containerStatuses"][0]["restartCount"] == 0, "S-41: the VM was adopted"


async def test_the_examples_do_what_their_comments_say(tmp_path: Path) -> None:
    async with up(tmp_path / "lab") as lab:
        for name in ("burst", "resize-policies"):
            await lab.kubectl.ok("create", "-f", str(EXAMPLES / f"{name}.yaml"))
            await ready(lab.kubectl, name)
        await patch(lab.kubectl, "resize-policies", {"limits": {"cpu": "500m"}})
        pod = await resized(lab.kubectl, "resize-policies")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        await patch(lab.kubectl, "resize-policies", {"requests": {"memory": "160Mi"}, "limits": {"memory": "160Mi"}})
        pod = await resized(lab.kubectl, "resize-policies")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
        await patch(lab.kubectl, "burst", {"limits": {"cpu": "2", "memory": "224Mi"}})
        await resized(lab.kubectl, "burst")
        await patch(lab.kubectl, "burst", {"limits": {"memory": "600Mi"}})  # beyond its annotation's 512Mi

        async def infeasible() -> str | None:
            conditions = (await lab.kubectl.get("pod", "burst") or {})["status"]["conditions"]
            reasons = {c["type"]: c.get("reason") for c in conditions}
            return None if reasons.get("PodResizePending") == "Infeasible" else str(reasons)

        await until_none(infeasible, "S-69: a wish beyond the maximum is Infeasible", 30)


async def test_top_shows_what_nodes_and_pods_use_now(tmp_path: Path) -> None:
    """`kubectl top` asks the nodes; of a pod that nobody runs it says that there are no metrics."""
    async with up(tmp_path / "state", "--nodes", "2") as lab:
        kubectl = lab.kubectl
        await kubectl.ok("create", "-f", str(EXAMPLES / "micro-vm.yaml"))
        await ready(kubectl, "micro-vm")
        assert await kubectl.ok("label", "pod", "micro-vm", "tier=edge")
        nodes = (await kubectl.ok("top", "nodes", "--no-headers")).split("\n")
        assert [line.split()[0] for line in nodes if line] == ["node-1", "node-2"]
        header, line = (await kubectl.ok("top", "pods", "-l", "tier=edge", "--containers")).splitlines()
        assert header.split() == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
        name, container, cpu, memory = line.split()
        assert (name, container) == ("micro-vm", "vm")
        assert 0 < int(cpu.removesuffix("m")) < 100
        assert 0 < int(memory.removesuffix("Mi")) < 96
        assert (await kubectl.ok("get", "pods.metrics.k8s.io", "-o", "name")).split() == [
            "podmetrics.metrics.k8s.io/micro-vm"
        ]
        with pytest.raises(KubectlFailed, match=r'podmetrics\.metrics\.k8s\.io "default/none" not found'):
            await kubectl.ok("top", "pod", "none")
        await kubectl.ok("delete", "pod", "micro-vm", "--wait")
        none = await kubectl.run("top", "pods")
        assert "No resources found in default namespace." in none.stderr


async def test_a_second_up_on_one_state_directory_is_refused(tmp_path: Path) -> None:
    async with up(tmp_path / "lab") as lab:
        second = await spawn(tmp_path / "lab")
        out, err = await asyncio.wait_for(second.communicate(), PATIENCE)
        assert second.returncode == 1
        assert out == b""
        assert f"another copepod (pid {lab.process.pid}) is using" in err.decode()
        assert lab.process.returncode is None


async def test_nothing_lingers_when_the_starter_is_killed(tmp_path: Path) -> None:
    async with up(tmp_path / "lab") as lab:
        children = lab.pids()
        lab.process.kill()
        await lab.process.wait()
        await until(lambda: all(gone(pid) for pid in children.values()), "all children gone", PATIENCE)
    async with up(tmp_path / "lab") as lab:  # and what it left is no hindrance
        assert await lab.end() == 0


async def test_a_hub_that_dies_is_started_again_on_the_asked_port(tmp_path: Path) -> None:
    """S-80, as far as the lab goes: nodes and clients notice nothing but a pause."""
    port = free_port()
    async with up(tmp_path / "lab", "--api-port", str(port)) as lab:
        assert f":{port}" in lab.kubectl.kubeconfig.read_text()
        await lab.kubectl.ok("create", "-f", str(EXAMPLES / "micro-vm.yaml"))
        first = lab.pids()["hub"]
        os.kill(first, signal.SIGKILL)

        async def answers() -> str | None:
            try:
                pod = await lab.kubectl.get("pod", "micro-vm")
            except KubectlFailed as error:
                return str(error)
            return None if pod is not None else "the pod is lost"

        await until(lambda: lab.pids().get("hub") not in (None, first), "another hub runs", PATIENCE)
        await until_none(answers, "the API answers and has the pod", PATIENCE)
        await ready(lab.kubectl, "micro-vm")


async def test_every_example_manifest_is_taken_and_runs(tmp_path: Path) -> None:
    """What we hand out as an example works as it stands."""
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert len(files) >= 3
    async with Box(BoxConfig(tmp_path / "lab", fake_vms=True), lambda _: None) as box:
        kubectl = box.kubectl()
        for file in files:
            made = await kubectl.ok("create", "-f", str(file))
            for line in made.splitlines():
                kind_and_name = line.split()[0]
                if kind_and_name.startswith("pod/"):
                    await ready(kubectl, kind_and_name.removeprefix("pod/"))


async def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    async with await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        process = await spawn(tmp_path / "lab", "--api-port", str(port))
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert f"port {port} is in use" in err.decode()


async def test_s05_s08_a_cut_node_hears_the_newest_wish_and_the_deletion_once_it_is_back(tmp_path: Path) -> None:
    """S-05 and S-08 through the unprivileged proxy: cut without a close, restored, converged."""
    config = BoxConfig(tmp_path / "lab", fake_vms=True, links=Links.PROXY, supervise=False)
    async with Box(config, lambda _: None) as box:
        kubectl = box.kubectl()
        for name in ("burst", "micro-vm"):
            await kubectl.ok("create", "-f", str(EXAMPLES / f"{name}.yaml"))
            await ready(kubectl, name)
        async with severed(box.links[0]):
            await node_ready(kubectl, "Unknown", LEASE_TIMEOUT * 4)
            for limit in ("300m", "400m", "500m"):
                await patch(kubectl, "burst", {"limits": {"cpu": limit}})
            await kubectl.ok("delete", "pod", "micro-vm", "--wait=false")
            terminating = await kubectl.get("pod", "micro-vm")
            assert terminating is not None
            assert "deletionTimestamp" in terminating["metadata"]
        await node_ready(kubectl, "True", 60)
        pod = await resized(kubectl, "burst")
        assert pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] == "500m"
        await kubectl.ok("wait", "--for=delete", "pod/micro-vm", "--timeout=60s")
        log = (box.layout.log("fleet")).read_text()
        assert "limit_millicores=500" in log
        assert "limit_millicores=300" not in log
        assert "limit_millicores=400" not in log


async def node_ready(kubectl: Kubectl, wanted: str, timeout: float) -> None:
    async def look() -> str | None:
        node = await kubectl.get("node", "node-1") or {}
        seen = {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"]
        return None if seen == wanted else f"it is {seen}"

    await until_none(look, f"node Ready={wanted}", timeout)
