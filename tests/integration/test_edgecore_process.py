"""The node daemon as it is started in production: its own process, exit codes, supervisor, a real broker and hub."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgelab import nodestore
from kubeapi.core import Node, Pod
from metastore.sql import open_store
from tests.support import libvirtd
from tests.support.edgecoreprocess import PATIENCE, configure, run, started
from tests.support.hub import Lab, lab, over_mqtt, until
from tests.support.mosquitto import BINARY, Mosquitto, running_mosquitto
from vmruntime.connect import open_runtime

NODE = "edge-1"
needs_mosquitto = pytest.mark.skipif(BINARY is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    directory = tmp_path / "broker"
    directory.mkdir()
    with running_mosquitto(directory, ("hub", NODE)) as mosquitto:
        yield mosquitto


def with_broker(directory: Path, broker: Mosquitto, *, password: str = "secret", **tables: Any) -> Path:
    secret = directory / "broker-password"
    secret.write_text(password + "\n")
    return configure(directory, broker={"port": broker.port, "password_file": str(secret)}, **tables)


# -- it cannot start ------------------------------------------------------------------------------------------------


def test_help_and_version() -> None:
    assert "--config" in run("--help").stdout
    assert run("--version").stdout.startswith("edgecore, version ")


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({"node": {"nmae": "a"}}, "node.nmae: unknown key"),
        ({"node": {"name": "a", "memory": "much"}}, "node.memory: "),
        ({"broker": {"port": 0}}, "broker.port: "),
        ({"broker": {"host": ""}}, "broker.host: "),
        ({"broker": {"cert_file": "/a", "key_file": "/b"}}, "cert_file needs ca_file"),
    ],
)
def test_a_bad_configuration_exits_2_naming_file_and_key(
    tmp_path: Path, tables: dict[str, Any], complaint: str
) -> None:
    config = configure(tmp_path, **tables)
    result = run("--config", str(config))
    assert result.returncode == 2
    assert result.stderr.startswith(f"edgecore: {config}: ")
    assert complaint in result.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("key", ["password_file", "ca_file"])
def test_a_file_of_the_broker_that_cannot_be_read_exits_2_naming_it(tmp_path: Path, key: str) -> None:
    result = run("--config", str(configure(tmp_path, broker={key: str(tmp_path / "none")})))
    assert result.returncode == 2
    assert result.stderr.startswith(f"edgecore: broker.{key}: cannot read {tmp_path}/none")
    assert "Traceback" not in result.stderr


def test_a_ca_file_that_is_no_certificate_exits_2_naming_it(tmp_path: Path) -> None:
    rubbish = tmp_path / "ca.pem"
    rubbish.write_text("rubbish")
    result = run("--config", str(configure(tmp_path, broker={"ca_file": str(rubbish)})))
    assert result.returncode == 2
    assert result.stderr.startswith(f"edgecore: broker: cannot use TLS with {rubbish}: ")
    assert "Traceback" not in result.stderr


def test_an_unusable_state_directory_exits_1_saying_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    _refused(tmp_path, f"cannot open the store {tmp_path}/state/metastore.db")


async def test_a_store_in_use_exits_1_saying_so(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state" / "metastore.db")
    try:
        await asyncio.to_thread(_refused, tmp_path, "metastore.db is open in another process")
    finally:
        await store.close()


async def test_s30_a_file_that_is_no_store_is_kept_aside_and_the_node_starts(tmp_path: Path) -> None:
    file = tmp_path / "state" / "metastore.db"
    file.parent.mkdir()
    file.write_bytes(b"rubbish" * 1000)
    async with started(configure(tmp_path)) as agent:
        await agent.until_says("file is not a database; it was set aside as metastore.db.bad-1")
        assert await agent.end() == 0
    assert file.with_name("metastore.db.bad-1").read_bytes() == b"rubbish" * 1000
    async with started(configure(tmp_path)) as agent:
        assert await agent.end() == 0
        assert not agent.says("set aside"), "what is new is whole"


def _refused(tmp_path: Path, why: str) -> None:
    result = run("--config", str(configure(tmp_path)))
    assert result.returncode == 1
    assert result.stderr.startswith("edgecore: cannot start: ")
    assert why in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "state" / "ready.json").exists()


# -- it stays up ----------------------------------------------------------------------------------------------------


async def test_s02_a_first_start_without_a_broker_stays_up_and_tells_its_supervisor(tmp_path: Path) -> None:
    """S-02: READY without any hub; the watchdog is fed; why the hub is out of reach is said; SIGTERM ends it with 0."""
    async with started(configure(tmp_path), {"WATCHDOG_USEC": "200000"}) as agent:
        why = "hub out of reach: cannot connect to 127.0.0.1:1: "
        await agent.until_says(why)
        await agent.until_told("WATCHDOG=1", times=5)
        assert any(line.startswith(f"STATUS={why}") for line in agent.told)
        assert (tmp_path / "state" / "ready.json").exists()
        assert await agent.end() == 0
        await agent.until_told("STOPPING=1")
    assert not agent.says("Traceback")
    assert agent.log.read_text().count(why) == 1, "each reason is said once, not at every attempt"


@needs_mosquitto
async def test_s02_it_finds_a_broker_that_comes_later(tmp_path: Path, broker: Mosquitto) -> None:
    """S-02: the agent's first start finds no broker; the hub and it meet when there is one."""
    broker.kill()
    async with started(with_broker(tmp_path, broker)) as agent:
        await agent.until_says("hub out of reach: cannot connect to")
        await asyncio.to_thread(broker.start)
        async with lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            assert agent.running


@needs_mosquitto
async def test_a_broker_that_refuses_the_password_is_named_and_tried_again(tmp_path: Path, broker: Mosquitto) -> None:
    async with started(with_broker(tmp_path, broker, password="wrong")) as agent:
        await agent.until_says("hub out of reach: the broker refused the connection: ")
        assert "authori" in agent.log.read_text()
        assert await agent.end() == 0


@needs_mosquitto
async def test_sigterm_leaves_vms_and_the_next_start_finds_them(tmp_path: Path, broker: Mosquitto) -> None:
    """S-41: ended with 0 while its VM runs; started again, the same VM is its pod's, not restarted."""
    config = with_broker(tmp_path, broker)
    async with lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world:
        async with started(config) as agent:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            await world.create("web")
            before = await until(lambda: world.pod_ready("web", "True"), "the pod is Ready")
            assert await agent.end() == 0
        async with started(config) as agent:
            await until(lambda: world.ready(NODE, "True"), "the node is Ready")
            await world.objects.delete(Pod, "default", "web")
            await until(lambda: _absent(world, "web"), "the pod is gone")
            assert "Launch" not in agent.log.read_text()
            assert before.status.container_statuses[0].restart_count == 0


async def _absent(world: Lab, name: str) -> bool:
    listing = await world.objects.list(Pod, "default")
    return all(pod.metadata.name != name for pod in listing.items)


@pytest.mark.parametrize("uri", ["qemu:///system?socket=/nonexistent", "qemu://", "nonsense:///x"])
async def test_an_unusable_hypervisor_does_not_end_the_agent(tmp_path: Path, uri: str) -> None:
    """Whatever keeps the connection from opening, the agent says it and tries again."""
    async with started(configure(tmp_path, runtime={"uri": uri})) as agent:
        await agent.until_says(f"cannot connect to libvirt at {uri}: ")
        assert await agent.end() == 0
    assert not agent.says("Traceback")


@needs_mosquitto
async def test_libvirtd_absent_is_the_nodes_readiness_and_pods_wait_whole(tmp_path: Path, broker: Mosquitto) -> None:
    """The node is there, not Ready, and says why; a pod bound to it waits, nothing of it is made."""
    runtime = {"uri": "qemu:///system?socket=/nonexistent"}
    async with (
        lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world,
        started(with_broker(tmp_path, broker, runtime=runtime)) as agent,
    ):
        await _says_runtime_unavailable(world)
        pod = await world.create("web", nodeName=NODE)
        await _delivered(tmp_path, pod)
        seen = await world.pod("web")
        assert seen.status.phase == "Pending"
        assert seen.status.container_statuses == []
        assert agent.running


async def _says_runtime_unavailable(world: Lab) -> None:
    node: Node = await until(lambda: world.ready(NODE, "False"), "the node is not Ready")
    condition = node.status.condition("Ready")
    assert condition is not None
    assert condition.reason == "RuntimeUnavailable"
    assert "cannot connect to libvirt at qemu:///system?socket=" in (condition.message or "")
    assert "is libvirtd running?" in (condition.message or "")


async def _delivered(tmp_path: Path, pod: Pod) -> None:
    async def held() -> bool:
        async with nodestore.opened(tmp_path / "state" / "metastore.db") as store:
            return any(row.uid == pod.metadata.uid for row in (await store.list("pods")).rows)

    await until(held, "the node holds the pod")


# -- libvirtd comes and goes, on the real one -----------------------------------------------------------------------


class Gate:
    """A way to the real libvirtd that can be shut, so that nobody else on this host loses theirs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._shut = asyncio.Event()

    async def open(self) -> None:
        self._shut.clear()
        self._server = await asyncio.start_unix_server(self._accepted, self.path)

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self.path.unlink(missing_ok=True)
        self._shut.set()
        while self._open:
            await asyncio.gather(*self._open)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: it is known from the moment it is accepted, so that none outlives `shut`."""
        task = asyncio.create_task(self._connect(reader, writer), name="gate")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Never cancelled: a connection that is cancelled while it is made leaves its socket to the collector."""
        far_reader, far_writer = await asyncio.open_unix_connection("/run/libvirt/libvirt-sock")
        ends = [
            asyncio.create_task(_pump(reader, far_writer)),
            asyncio.create_task(_pump(far_reader, writer)),
            asyncio.create_task(self._shut.wait()),
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        for sink in (writer, far_writer):
            sink.transport.abort()  # what is still unsent would keep a closed one open, beyond the test's end
            with contextlib.suppress(OSError):
                await sink.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()


@asynccontextmanager
async def removed_in_the_end(state: Path) -> AsyncIterator[None]:
    """The VMs that this test's node made."""
    try:
        yield
    finally:
        runtime = open_runtime("libvirt", installation=nodestore.installation(state))
        for vm in await runtime.list():
            await runtime.delete(vm.uuid)
        await runtime.close()


@pytest.mark.vm
@needs_mosquitto
@pytest.mark.skipif(bool(libvirtd.unavailable()), reason=libvirtd.unavailable() or "-")
async def test_libvirtd_comes_goes_and_comes_again(tmp_path: Path, broker: Mosquitto) -> None:
    """A pod that was wished without libvirtd starts whole when it comes; its VM outlives libvirtd's next absence."""
    await asyncio.to_thread(libvirtd.ensure)
    gate = Gate(tmp_path / "libvirt.sock")
    runtime = {"uri": f"qemu:///system?socket={gate.path}"}
    config = with_broker(tmp_path, broker, runtime=runtime)
    async with lab(tmp_path / "hub", over_mqtt(broker.port), lease_timeout=10) as world, AsyncExitStack() as cleaning:
        async with started(config) as agent:
            await cleaning.enter_async_context(removed_in_the_end(tmp_path / "state"))
            await _says_runtime_unavailable(world)
            await _delivered(tmp_path, await world.create("web", nodeName=NODE, containers=[micro("100m")]))
            await gate.open()
            node = await _eventually(lambda: world.ready(NODE, "True"), "the node is Ready")
            await _eventually(lambda: world.pod_ready("web", "True"), "the pod is Ready")
            await gate.shut()
            await _eventually(lambda: world.ready(NODE, "False"), "the node is not Ready")
            await world.create("late", nodeName=NODE, containers=[micro("100m")])
            assert await _processes(tmp_path) == 1, "the VM runs on"
            await gate.open()
            await _eventually(lambda: world.pod_ready("late", "True"), "the pod wished meanwhile is Ready")
            assert (await world.pod("web")).status.container_statuses[0].restart_count == 0
            assert await agent.end() == 0
            await gate.shut()
        async with started(config) as agent:
            unready = await until(lambda: world.ready(NODE, "False"), "the node is not Ready")
            assert unready.status.capacity == node.status.capacity, "what is not known has not become nothing"
            assert unready.status.allocatable == node.status.allocatable
            await gate.open()
            await _eventually(lambda: world.ready(NODE, "True"), "the node is Ready")
            for name in ("web", "late"):
                await _eventually(lambda name=name: world.pod_ready(name, "True"), f"{name} is Ready")
                assert (await world.pod(name)).status.container_statuses[0].restart_count == 0
            assert await agent.end() == 0
        await gate.shut()
    assert not agent.says("Traceback")


def micro(cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "96Mi"}
    return {"name": "vm", "image": "copepod/micro:latest", "resources": {"requests": amounts}}


async def _eventually(find: Any, what: str) -> Any:
    """As long as an emulated guest may take."""
    async with asyncio.timeout(PATIENCE * 4):
        while True:
            with contextlib.suppress(AssertionError):
                return await until(find, what)


async def _processes(tmp_path: Path) -> int:
    runtime = open_runtime("libvirt", installation=nodestore.installation(tmp_path / "state"))
    try:
        names = [vm.name for vm in await runtime.list()]
    finally:
        await runtime.close()
    seen = await asyncio.to_thread(subprocess.run, ["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return sum(f"guest={name}," in seen.stdout for name in names)
