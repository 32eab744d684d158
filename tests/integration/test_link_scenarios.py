"""Scenarios of the link on real parts: mosquitto, real agents and hubs; only the VMs are pretended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edgecore.agent import STORE_FILE
from edgelab import nodestore, observer
from edgelab.box import Box, BoxConfig
from edgelab.client import Client
from edgelab.disks import SmallDisk
from edgelab.invariants import Seen
from edgelab.observer import PODS
from edgelab.toml import Table
from edgelab.waiting import until as until_so
from edgelab.waiting import until_none
from edgelink.api import Cursor
from edgelink.messages import Delta, Lease, Welcome
from edgelink.wire import encode
from kubeapi.core import Pod
from metastore.api import Lane
from tests.support.boxes import Box as AgentBox
from tests.support.edgecoreprocess import configure, started
from tests.support.hub import Lab, lab, over_mqtt, until
from tests.support.mosquitto import BINARY, Mosquitto, running_mosquitto

NODE = "edge-1"
LEASE = 1.0
NO_NETWORK = ("unshare", "--net")
"""Not even loopback is up."""

pytestmark = [
    pytest.mark.skipif(BINARY is None, reason="mosquitto is not installed"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_mosquitto(tmp_path, ("hub", NODE)) as found:
        yield found


def with_broker(tmp_path: Path, broker: Mosquitto, **fake: object) -> Path:
    """`fake`: more about the pretended host."""
    password = tmp_path / "password"
    password.write_text("secret")
    settings: Table = {"port": broker.port, "username": NODE, "password_file": str(password)}
    host: Table = {"boot_seconds": 0.1} | {key: str(value) for key, value in fake.items()}
    return configure(tmp_path, broker=settings, runtime={"driver": "fake", "fake": host})


def running_vms(host: Path) -> dict[str, str]:
    """Pod → state of its VM, on the pretended host."""
    return {entry["spec"]["owner"]["pod"]: entry["state"] for entry in _vms(host)}


def boots(host: Path) -> dict[str, int]:
    """Pod → how often its VM was started: an effect, not a message."""
    return {entry["spec"]["owner"]["pod"]: entry["boots"] for entry in _vms(host)}


def _vms(host: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(host.read_text()) if host.exists() else []
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
async def test_s01_s03_after_a_reboot_without_any_network_vms_run_again_from_the_store_alone(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """S-01, S-03: the host lost its VMs, and has no interface up and no address; once it has, both sides agree."""
    config, host = with_broker(tmp_path, broker), tmp_path / "state" / "fake-vms.json"
    async with lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world:
        async with started(config) as agent:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            await world.create("web")
            await until(lambda: world.pod_ready("web", "True"), "the pod is Ready")
            assert await agent.end() == 0
        host.unlink()
        async with started(config, prefix=NO_NETWORK) as agent:
            await until_so(lambda: running_vms(host) == {"web": "running"}, "the VM runs again", 60)
            await agent.until_says("hub out of reach: ")
            assert await agent.end() == 0
        async with started(config) as agent:
            pod = await until(lambda: _restarted(world, "web"), "the hub hears of it")
            assert pod.status.container_statuses[0].restart_count == 1
            assert not agent.says("Launch"), "it was adopted, not started once more"


async def _restarted(world: Lab, name: str) -> Pod | None:
    pod = await world.pod_ready(name, "True")
    return pod if pod and pod.status.container_statuses[0].restart_count else None


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk that can be filled is a mount, which needs root")
async def test_s31_s41_an_agent_starts_on_a_full_disk_and_comes_right_with_room(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """S-31, S-41: killed while the disk is full, it starts again, adopts its VM, and steers it once there is room."""
    config, host = with_broker(tmp_path, broker, file=tmp_path / "vms.json"), tmp_path / "vms.json"
    (tmp_path / "state").mkdir()
    async with SmallDisk(tmp_path / "state", 8) as disk, lab(tmp_path / "hub", over_mqtt(broker.port)) as world:
        async with started(config) as agent:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            await world.create("web")
            await until(lambda: world.pod_ready("web", "True"), "the pod is Ready")
            await disk.fill()
            agent.process.kill()
            await agent.process.wait()
        async with started(config) as agent:
            await agent.until_says("ready.json: No space left on device; it is tried again")
            await world.objects.delete(Pod, "default", "web")
            await agent.until_says("the store cannot write")
            assert running_vms(host) == {"web": "running"}
            await disk.free()
            await until(lambda: _absent(world, "web"), "the pod goes")
            await until_so((tmp_path / "state" / "ready.json").exists, "it is said that the agent is ready", 30)
            assert running_vms(host) == {}
            assert not agent.says("Traceback")


async def _absent(world: Lab, name: str) -> bool:
    return all(pod.metadata.name != name for pod in (await world.objects.list(Pod, "default")).items)


def hostile() -> dict[str, bytes]:
    """By the kind that they are counted as."""
    deep = b'{"v":1,"t":"delta","s":"x","n":1,"b":' + b'{"x":' * 900 + b"1" + b"}" * 901
    return {
        "not JSON": b"\xff\x00\x13rubbish",
        "too deep": deep,
        "too large": b" " * 600_000,
        "of another version": b'{"v":9,"t":"who","s":"x","b":{}}',
        "of no type": b'{"v":1,"t":"bang","s":"x","b":{}}',
        "sealed": b'{"v":1,"t":"who","s":"x","b":null,"seal":"abc"}',
        "of no session": encode(Delta("guessed", 1, 0, "hub", 9, (), (), complete=True, absence=True, digest="")),
        "an answer to nothing": encode(Welcome("guessed", "c.1", 1, "hub", 0)),
        "a lease of another": encode(Lease("guessed", Cursor("hub", 9), "", 0)),
    }


async def test_s26_hostile_messages_through_a_real_broker_end_nothing(
    tmp_path: Path, broker: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    """S-26: in both directions; session, agent and hub go on, and each kind is said once."""
    async with (
        lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world,
        started(with_broker(tmp_path, broker)) as agent,
    ):
        await until(lambda: world.ready(NODE, "True"), "the node is Ready")
        await world.create("before")
        await until(lambda: world.pod_ready("before", "True"), "the pod is Ready")
        for _ in range(2):
            await asyncio.to_thread(publish, broker.port, "hub", f"copepod/lab/{NODE}/down", hostile().values())
            await asyncio.to_thread(publish, broker.port, NODE, f"copepod/lab/{NODE}/up", hostile().values())
        await world.create("after")
        await until(lambda: world.pod_ready("after", "True"), "what is wished afterwards is done")
        assert (await world.pod("before")).status.container_statuses[0].restart_count == 0
        kinds = ("malformed", "oversized", "version", "type", "sealed")
        for text in (agent.log.read_text(), caplog.text):
            assert [text.count(f"are only counted): {kind}:") for kind in kinds] == [1] * len(kinds)
            assert "Traceback" not in text
        assert running_vms(tmp_path / "state" / "fake-vms.json") == {"before": "running", "after": "running"}


def publish(port: int, user: str, topic: str, payloads: Iterable[bytes]) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"intruder-{user}", protocol=mqtt.MQTTv5)
    client.username_pw_set(user, "secret")
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        for payload in payloads:
            client.publish(topic, payload, qos=1).wait_for_publish(10)
    finally:
        client.disconnect()
        client.loop_stop()


# -- stores that are older than they were ---------------------------------------------------------------------------


@asynccontextmanager
async def box(tmp_path: Path) -> AsyncIterator[tuple[Box, Client]]:
    config = BoxConfig(tmp_path / "lab", fake_vms=True, supervise=False, lease=LEASE)
    async with Box(config, lambda _: None) as found:
        yield found, Client(found.kubeconfig)


async def create(client: Client, name: str) -> str:
    amounts = {"cpu": "100m", "memory": "96Mi"}
    container = {"name": "vm", "image": "copepod/micro:latest", "resources": {"requests": amounts, "limits": amounts}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    status, pod = await client.call("POST", PODS, manifest)
    assert status == 201, pod
    return str(pod["metadata"]["uid"])


async def resize(client: Client, name: str, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "96Mi"}
    patch = {"spec": {"containers": [{"name": "vm", "resources": {"requests": amounts, "limits": amounts}}]}}
    kind = "application/strategic-merge-patch+json"
    status, answer = await client.call("PATCH", f"{PODS}/{name}/resize", patch, kind)
    assert status == 200, answer


async def in_force(client: Client, name: str, cpu: str) -> None:
    """Ready, and the hub shows that much CPU in force."""

    async def look() -> str | None:
        pod = (await observer.hub_pods(client)).get(name)
        if pod is None:
            return "it is not there"
        ready = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}.get("Ready")
        shown = [
            c.get("resources", {}).get("limits", {}).get("cpu") for c in pod["status"].get("containerStatuses", ())
        ]
        return None if (ready, shown) == ("True", [cpu]) else f"Ready is {ready}, in force {shown}"

    await until_none(look, f"{name} has {cpu}", 60)


def acts(box: Box, pod: str) -> list[str]:
    seen = Seen()
    observer.read_logs(box, seen)
    assert not seen.faults
    return [act.step for act in seen.acts if act.pod == pod]


async def test_s88_a_node_restored_from_an_image_loses_no_status_and_repeats_nothing(tmp_path: Path) -> None:
    """S-88: its numbers begin again where the hub has heard others already; none of them is taken for a double."""
    async with box(tmp_path) as (found, client):
        await create(client, "web")
        await in_force(client, "web", "100m")
        [fleet] = found.agents
        await fleet.stop()
        store, image = found.node_state(0), tmp_path / "image"
        shutil.copytree(store, image)
        await fleet.start()
        for cpu in ("150m", "160m", "170m"):
            await resize(client, "web", cpu)
            await in_force(client, "web", cpu)
        await create(client, "later")
        await in_force(client, "later", "100m")
        await fleet.stop()
        for file in store.glob("metastore.db*"):
            file.unlink()
        for file in image.glob("metastore.db*"):
            shutil.copy2(file, store)
        await fleet.start()
        await resize(client, "web", "180m")
        await in_force(client, "web", "180m")
        await resize(client, "later", "190m")
        await in_force(client, "later", "190m")
        assert boots(found.fake_vms(0)) == {"web": 1, "later": 1}, (
            "one that the image does not know is adopted, not started anew"
        )
        for name in ("web", "later"):
            assert not {"Stop", "Remove"} & set(acts(found, name))


@pytest.mark.long
async def test_s86_a_hub_restored_from_an_old_backup_deletes_nothing(tmp_path: Path) -> None:
    """S-86: the pod that the backup does not know runs on; what the backup knows is steered by it again."""
    async with box(tmp_path) as (found, client):
        await create(client, "web")
        await in_force(client, "web", "100m")
        await found.hub.stop()
        store, backup = found.layout.hub, tmp_path / "backup"
        shutil.copytree(store, backup)
        await found.hub.start()
        await create(client, "later")
        await in_force(client, "later", "100m")
        await found.hub.stop()
        for file in store.glob("*.db*"):
            file.unlink()
        for file in backup.glob("*.db*"):
            shutil.copy2(file, store)
        await found.hub.start()
        await resize(client, "web", "150m")
        await in_force(client, "web", "150m")
        assert running_vms(found.fake_vms(0)) == {"web": "running", "later": "running"}
        assert not {"Stop", "Remove"} & {*acts(found, "later"), *acts(found, "web")}


async def test_a_box_that_was_replaced_joins_as_the_same_node_and_runs_its_pods(tmp_path: Path) -> None:
    """Store identity: nothing is left of the node, not even its VMs; its new store's numbers begin at one."""
    async with box(tmp_path) as (found, client):
        before = await create(client, "web")
        await in_force(client, "web", "100m")
        for cpu in ("110m", "120m"):  # so that the hub has heard higher numbers than the new store gives out
            await resize(client, "web", cpu)
            await in_force(client, "web", cpu)
        [fleet] = found.agents
        await fleet.stop()
        state = found.node_state(0)
        for file in [*state.glob("metastore.db*"), *state.glob("installation*"), found.fake_vms(0)]:
            file.unlink()
        await fleet.start()
        await until_so(lambda: running_vms(found.fake_vms(0)) == {"web": "running"}, "its VM runs", 60)
        await resize(client, "web", "130m")
        await in_force(client, "web", "130m")
        assert (await observer.hub_pods(client))["web"]["metadata"]["uid"] == before
        assert boots(found.fake_vms(0)) == {"web": 1}


async def test_s10_a_node_removed_while_it_was_off_comes_back_and_what_is_left_over_is_swept(tmp_path: Path) -> None:
    """S-10: its pods went with it at the hub; so their VMs go, and new pods are welcome."""
    async with box(tmp_path) as (found, client):
        await create(client, "web")
        await in_force(client, "web", "100m")
        [fleet] = found.agents
        await fleet.stop()
        assert (await client.call("DELETE", "/api/v1/nodes/node-1"))[0] == 200

        async def pods_gone() -> str | None:
            return ", ".join(await observer.hub_pods(client)) or None

        await until_none(pods_gone, "the hub gives its pods up", 60)
        assert running_vms(found.fake_vms(0)) == {"web": "running"}, "nobody told the node"
        await fleet.start()
        await client.wait_nodes(frozenset(["node-1"]), 60)
        await until_so(lambda: running_vms(found.fake_vms(0)) == {}, "the left over VM is swept", 60)
        await create(client, "new")
        await in_force(client, "new", "100m")
        assert acts(found, "web").count("Remove") == 1


async def test_s22_with_the_broker_away_a_nodes_outbox_holds_each_status_once_and_all_arrives_later(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-22: programs end and start again without anybody to tell; the agent's own work goes on."""
    monkeypatch.setattr("edgecore.worker._BACKOFF_FIRST", 0.1)
    pods = [f"p{n}" for n in range(6)]
    network = over_mqtt(broker.port)
    async with lab(tmp_path / "hub", network) as world:
        node = AgentBox(NODE, tmp_path / "node", network)
        node.start()
        try:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            for name in pods:
                await world.create(name)
            for name in pods:
                await until(partial(world.pod_ready, name, "True"), f"{name} is Ready")
            broker.kill()
            await until(lambda: world.ready(NODE, "Unknown"), "the node is missed")
            for _ in range(3):
                await until_so(partial(_all_run, node), "all VMs run", 60)
                for uuid in list(node.host.vms):
                    node.host.crash(uuid)
            await until_so(partial(_all_run, node), "all VMs run", 60)
            async with nodestore.opened(node.directory / STORE_FILE) as store:
                entries = await store.outbox(10_000)
            levels = [entry.subject for entry in entries if entry.lane is Lane.LEVEL]
            assert len(levels) == len(set(levels)) <= len(pods) + 1
            assert len(entries) - len(levels) >= 3 * len(pods), "what happened is all there, in order"
            broker.start()
            for name in pods:
                await until(partial(_restarts, world, name, 3), f"{name}'s restarts are told")
        finally:
            await node.stop()


def _all_run(node: AgentBox) -> bool:
    return bool(node.host.vms) and all(vm.running for vm in node.host.vms.values())


async def _restarts(world: Lab, name: str, wanted: int) -> bool:
    statuses = (await world.pod(name)).status.container_statuses
    return bool(statuses) and statuses[0].restart_count == wanted
