"""`copepod up --fake-vms` as strangers drive it: kubectl, raw HTTPS and signals; nothing of its inside is touched.

One lab serves most tests here; each has its own namespace, so that none sees another's pods.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import signal
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from edgelab.kubectl import Kubectl, KubectlFailed
from edgelab.waiting import until_none
from tests.integration.test_up_fake import Up, gone, up

pytestmark = pytest.mark.asyncio(loop_scope="module")

RESIZE = "application/strategic-merge-patch+json"
PENDING = "PodResizePending"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    async with up(tmp_path_factory.mktemp("blackbox") / "lab", "--nodes", "3") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def kube(lab: Up, request: pytest.FixtureRequest) -> AsyncIterator[Kube]:
    namespace = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:60].strip("-")
    await lab.kubectl.ok("create", "namespace", namespace)
    async with Http.of(lab.kubectl) as http:
        yield Kube(lab.kubectl, http, namespace)
    await lab.kubectl.ok("delete", "namespace", namespace, "--timeout=60s")


class Http:
    """A client that knows nothing but the kubeconfig."""

    def __init__(self, base: str, token: str, session: aiohttp.ClientSession) -> None:
        self.base, self.token, self._session = base, token, session

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, kubectl: Kubectl) -> AsyncIterator[Http]:
        view = json.loads(await kubectl.ok("config", "view", "--raw", "-o", "json"))
        cluster, user = view["clusters"][0]["cluster"], view["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        trust = ssl.create_default_context(cadata=authority)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            yield cls(cluster["server"], user["token"], session)

    async def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", token: str | None = None
    ) -> tuple[int, Any]:
        data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", "Content-Type": kind}
        async with self._session.request(method, self.base + path, data=data, headers=headers) as response:
            return response.status, await response.json(content_type=None)

    async def lines(self, path: str) -> AsyncIterator[Any]:
        """Of a watch."""
        async with self._session.get(self.base + path, headers={"Authorization": f"Bearer {self.token}"}) as response:
            async for line in response.content:
                yield json.loads(line)


class Kube:
    """One namespace of the lab."""

    def __init__(self, kubectl: Kubectl, http: Http, namespace: str) -> None:
        self.kubectl, self.http, self.namespace = kubectl, http, namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    async def phases(self, name: str) -> list[str]:
        """As a watcher sees them, doubles in a row left out, until it has ended."""
        path = f"{self.pods}?watch=1&fieldSelector=metadata.name={name}&timeoutSeconds=30"
        seen: list[str] = []
        async for event in self.http.lines(path):
            phase = event["object"]["status"]["phase"]
            if seen[-1:] != [phase]:
                seen.append(phase)
            if phase in ("Succeeded", "Failed"):
                break
        return seen

    async def ok(self, *arguments: str) -> str:
        return await self.kubectl.ok("-n", self.namespace, *arguments)

    async def create(self, *pods: dict[str, Any]) -> None:
        for pod in pods:
            status, answer = await self.http.call("POST", self.pods, pod)
            assert status == 201, answer

    async def get(self, name: str) -> dict[str, Any]:
        status, pod = await self.http.call("GET", f"{self.pods}/{name}")
        assert status == 200, pod
        return dict(pod)

    async def resize(self, name: str, resources: dict[str, dict[str, str]]) -> tuple[int, Any]:
        patch = {"spec": {"containers": [{"name": "vm", "resources": resources}]}}
        return await self.http.call("PATCH", f"{self.pods}/{name}/resize", patch, kind=RESIZE)

    async def wait(self, condition: str, *names: str) -> None:
        await self.ok("wait", f"--for={condition}", *(f"pod/{name}" for name in names), "--timeout=60s")

    async def ready(self, *names: str) -> None:
        await self.wait("condition=Ready", *names)


def pod(name: str, *, cpu: str = "100m", command: Sequence[str] = (), **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "96Mi"}, "limits": {"cpu": cpu, "memory": "128Mi"}}
    container = {"name": "vm", "image": "copepod/micro:latest", "resources": resources, "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def conditions(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in item["status"]["conditions"]}


def limits(item: dict[str, Any]) -> dict[str, str]:
    statuses = item["status"].get("containerStatuses") or [{}]
    return dict(statuses[0].get("resources", {}).get("limits", {}))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_a_signal_ends_it_with_0_and_nothing_lingers(tmp_path: Path, number: signal.Signals) -> None:
    async with up(tmp_path / "lab") as lab:
        children = lab.pids()
        lab.process.send_signal(number)
        assert await asyncio.wait_for(lab.process.wait(), 90) == 0
        assert [name for name, pid in children.items() if not gone(pid)] == []
        assert list((lab.state / "run").glob("*.pid")) == []


async def test_who_is_not_known_gets_401_and_health_is_for_all(lab: Up) -> None:
    async with Http.of(lab.kubectl) as http:
        assert (await http.call("GET", "/api/v1/pods", token="wrong"))[0] == 401
    assert await lab.kubectl.ok("get", "--raw", "/healthz") == "ok"
    assert (await lab.kubectl.ok("get", "--raw", "/readyz?verbose")).rstrip().endswith("readyz check passed")
    assert json.loads(await lab.kubectl.ok("get", "--raw", "/version"))["major"] == "1"


BAD: tuple[tuple[str, dict[str, Any] | bytes, int, str], ...] = (
    ("name", pod("Not_A_Name"), 422, "RFC 1123"),
    ("quantity", pod("p", cpu="lots"), 400, "quantities must match"),
    ("negative", pod("p", cpu="-1"), 422, "greater than or equal to 0"),
    ("unknown field", {**pod("p"), "spec": {**pod("p")["spec"], "wheels": 4}}, 400, 'unknown field "spec.wheels"'),
    ("kind", {**pod("p"), "kind": "Node"}, 400, "must be of type Pod"),
    ("no containers", {**pod("p"), "spec": {"containers": []}}, 422, "spec.containers: Required value"),
    ("policy", pod("p", restartPolicy="Sometimes"), 422, "Unsupported value"),
    ("not JSON", b"{", 400, "unexpected end of JSON input"),
    ("deep", b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "nested"),
    ("huge", b'{"a":"' + b"x" * 4_000_000 + b'"}', 413, "too large"),
)


async def test_bad_input_is_refused_with_the_reason_and_nothing_is_made(kube: Kube) -> None:
    for what, body, code, text in BAD:
        status, answer = await kube.http.call("POST", kube.pods + "?fieldValidation=Strict", body)
        assert (status, text in answer["message"]) == (code, True), (what, answer)
    await kube.create(pod("twice"))
    assert (await kube.http.call("POST", kube.pods, pod("twice")))[1]["reason"] == "AlreadyExists"
    assert (await kube.http.call("POST", "/api/v1/namespaces/nowhere/pods", pod("p")))[0] == 404
    status, answer = await kube.http.call("DELETE", "/api/v1/namespaces/default")
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert await kube.ok("get", "pods", "-o", "name") == "pod/twice\n"


async def test_phases_follow_exit_codes_and_restart_policies(kube: Kube) -> None:
    await kube.create(
        pod("ok", command=["true"], restartPolicy="Never"),
        pod("bad", command=["sh", "-c", "exit 3"], restartPolicy="Never"),
        pod("again", command=["false"], restartPolicy="OnFailure"),
    )
    watching = asyncio.create_task(kube.phases("ok"))
    await kube.wait("jsonpath={.status.phase}=Succeeded", "ok")
    await kube.wait("jsonpath={.status.phase}=Failed", "bad")
    await kube.wait("jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff", "again")
    ended = (await kube.get("bad"))["status"]["containerStatuses"][0]
    assert (ended["state"]["terminated"]["exitCode"], ended["restartCount"]) == (3, 0)
    assert (await kube.get("again"))["status"]["containerStatuses"][0]["restartCount"] >= 1
    assert conditions(await kube.get("ok"))["Ready"]["reason"] == "PodCompleted"
    assert await watching == ["Pending", "Running", "Succeeded"]


async def test_the_newest_of_many_resizes_wins_and_none_is_a_conflict(kube: Kube) -> None:
    await kube.create(pod("p"))
    await kube.ready("p")
    wishes = [{"requests": {"cpu": f"{cpu}m"}, "limits": {"cpu": f"{cpu}m"}} for cpu in range(200, 400, 10)]
    answers = await asyncio.gather(*(kube.resize("p", wish) for wish in wishes))
    assert {status for status, _ in answers} == {200}
    status, wished = await kube.resize("p", {"requests": {"cpu": "150m"}, "limits": {"cpu": "700m"}})
    assert status == 200
    await kube.wait(f"jsonpath={{.status.observedGeneration}}={wished['metadata']['generation']}", "p")
    seen = await kube.get("p")
    assert limits(seen)["cpu"] == "700m", "observed means: in force, or a condition says why not"
    assert seen["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_resize_that_cannot_be_is_refused_or_told(kube: Kube) -> None:
    await kube.create(pod("p"))
    await kube.ready("p")
    for resources, text in (
        ({"limits": {"cpu": "lots"}}, "quantities must match"),
        ({"limits": {"cpu": "50m"}}, "less than or equal to cpu limit"),
        ({"requests": {"memory": "128Mi"}}, "QOS Class may not change"),
    ):
        status, answer = await kube.resize("p", resources)
        assert (status, text in answer["message"]) == (422, True), answer
    assert (await kube.resize("p", {"limits": {"memory": "100Gi"}}))[0] == 200
    await kube.wait(f"condition={PENDING}", "p")
    pending = conditions(await kube.get("p"))[PENDING]
    assert (pending["reason"], "max-memory" in pending["message"]) == ("Infeasible", True)
    assert (await kube.resize("p", {"limits": {"memory": "200Mi"}}))[0] == 200
    await kube.wait("jsonpath={.status.containerStatuses[0].resources.limits.memory}=200Mi", "p")
    assert PENDING not in conditions(await kube.get("p"))


async def test_room_that_ended_pods_held_is_free_and_waiters_get_it(kube: Kube) -> None:
    """A simulated node has 16 CPUs: each of these pods needs a node for itself."""
    await kube.create(*(pod(f"done-{i}", cpu="10", command=["true"], restartPolicy="Never") for i in range(3)))
    await kube.wait("jsonpath={.status.phase}=Succeeded", "done-0", "done-1", "done-2")
    await kube.create(*(pod(f"big-{i}", cpu="10") for i in range(3)))
    await kube.ready("big-0", "big-1", "big-2")
    await kube.create(pod("waits", cpu="10"))
    await kube.wait("condition=PodScheduled=False", "waits")
    assert "3 Insufficient cpu" in conditions(await kube.get("waits"))["PodScheduled"]["message"]
    await kube.ok("delete", "pod", "big-0", "--grace-period=0", "--force")  # its VM goes later than its object
    await kube.ready("waits")


async def test_one_name_may_come_and_go_quickly(kube: Kube) -> None:
    for _ in range(10):
        await kube.create(pod("same", cpu="10", nodeName="node-2"))
        status, _answer = await kube.http.call("DELETE", f"{kube.pods}/same?gracePeriodSeconds=0")
        assert status == 200
    await kube.create(pod("same", cpu="10", nodeName="node-2"))
    await kube.ready("same")
    assert (await kube.get("same"))["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_pod_waits_for_the_configmap_it_names(lab: Up, kube: Kube) -> None:
    wanting = pod("wanting")
    wanting["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "late"}}]
    await kube.create(wanting)
    waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerConfigError"
    await kube.wait(waiting, "wanting")
    assert 'configmap "late" not found' in await kube.ok("describe", "pod", "wanting")
    await kube.ok("create", "configmap", "late", "--from-literal=a=b")
    await kube.ready("wanting")


async def test_many_pods_at_once_come_and_go(lab: Up, kube: Kube) -> None:
    names = [f"p{i}" for i in range(30)]
    await kube.create(*(pod(name, cpu="20m") for name in names))
    await kube.ready(*names)
    await kube.ok("delete", "pods", "--all", "--timeout=60s")
    events = json.loads(await kube.ok("get", "events", "-o", "json"))["items"]
    assert _most(item["involvedObject"]["name"] for item in events) <= 4, "Scheduled, Started, Killing, and no spam"
    nodes = json.loads(await lab.kubectl.ok("get", "nodes", "-o", "json"))["items"]
    assert {conditions(node)["Ready"]["status"] for node in nodes} == {"True"}


def _most(names: Iterable[str]) -> int:
    counted = list(names)
    return max(counted.count(name) for name in counted)


async def test_s80_s32_what_is_killed_comes_back_and_nothing_acknowledged_is_lost(lab: Up, kube: Kube) -> None:
    """S-80, S-21, S-32: hub, broker and nodes die one after another while pods are made, resized and deleted."""
    made: dict[str, str] = {}
    stop = asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            name, cpu = f"p{len(made)}", f"{110 + len(made)}m"
            with contextlib.suppress(aiohttp.ClientError):
                status, _ = await kube.http.call("POST", kube.pods, pod(name))
                if status in (201, 409):  # 409: the answer to the one before was lost with the hub
                    wish = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
                    if (await kube.resize(name, wish))[0] == 200:
                        made[name] = cpu
            await asyncio.sleep(0.05)

    async def restarted(name: str, before: int) -> None:
        async def look() -> str | None:
            return f"{name} is down" if lab.pids().get(name) in (None, before) else None

        await until_none(look, f"{name} started again", 20)

    working = asyncio.create_task(work())
    for name in ("hub", "broker", "fleet"):
        await until_none(partial(_fewer, made, len(made) + 5), "work goes on", 30)
        victim = lab.pids()[name]
        os.kill(victim, signal.SIGKILL)
        await restarted(name, victim)
    stop.set()
    await working

    async def look() -> str | None:
        try:
            items = json.loads(await kube.ok("get", "pods", "-o", "json"))["items"]
        except KubectlFailed as error:
            return str(error)
        seen = {item["metadata"]["name"]: item for item in items}
        missing = [name for name in made if name not in seen]
        late = [name for name, cpu in made.items() if name in seen and limits(seen[name]).get("cpu") != cpu]
        restarts = [item for item in items if item["status"].get("containerStatuses", [{}])[0].get("restartCount")]
        assert not missing, f"lost: {missing}"
        assert not restarts, "a VM outlives its agent (S-41)"
        return f"not resized yet: {late}" if late else None

    await until_none(look, "everything acknowledged is in force", 60)


async def _fewer(made: dict[str, str], wanted: int) -> str | None:
    return f"{len(made)} made" if len(made) < wanted else None
