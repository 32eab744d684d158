"""Workload controllers as people use them: the real hub and real agents in this process, and real kubectl; the network
is in memory and the VMs are pretended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from edgelab.kubectl import Kubectl, find_kubectl
from kubeapi.core import Node, Pod
from kubeapi.meta import KubeObject
from kubeapi.storage import PersistentVolumeClaim
from kubeapi.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from tests.support.boxes import Box
from tests.support.hub import Lab, in_memory, lab, until

FOREVER = ["sleep", "100000"]


@dataclass
class Cluster:
    lab: Lab
    kubectl: Kubectl
    boxes: list[Box]

    async def create(self, *manifests: Mapping[str, Any]) -> None:
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        await self.kubectl.ok("create", "-f", "-", stdin=json.dumps(document))

    async def get(self, model: type[Any], name: str) -> Any:
        return await self.lab.objects.get(model, "default", name)

    async def pods(self, app: str) -> list[Pod]:
        found = await self.lab.objects.list(Pod, "default")
        return [pod for pod in found.items if pod.metadata.labels.get("app") == app]

    async def names(self, model: type[KubeObject]) -> list[str]:
        return [item.metadata.name for item in (await self.lab.objects.list(model, "default")).items]

    async def rolled_out(self, what: str) -> str:
        return await self.kubectl.ok("rollout", "status", what, "--timeout=60s")

    async def offline(self, box: Box) -> None:
        await box.stop()
        await until(lambda: self.lab.ready(box.name, "Unknown"), f"{box.name} is missed")


@asynccontextmanager
async def cluster(tmp_path: Path, nodes: int = 2) -> AsyncIterator[Cluster]:
    network = in_memory()
    async with lab(tmp_path / "hub", network, lease_timeout=1.0) as made:
        kubectl = Kubectl(made.hub.kubeconfig, find_kubectl())
        boxes = [Box(f"n{number}", tmp_path / f"n{number}", network) for number in range(nodes)]
        try:
            for box in boxes:
                box.start()
            for box in boxes:
                await until(partial(made.ready, box.name, "True"), f"{box.name} is Ready")
            yield Cluster(made, kubectl, boxes)
        finally:
            for box in boxes:
                await box.stop()


def template(app: str, command: list[str], **spec: Any) -> dict[str, Any]:
    container = {
        "name": "vm",
        "image": "copepod/micro:1",
        "command": command,
        "resources": {"limits": {"cpu": "100m", "memory": "96Mi"}},
    }
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"app": name}}, "template": template(name, FOREVER)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body | spec}


def job(name: str, command: list[str], **spec: Any) -> dict[str, Any]:
    body = {"template": template(name, command, restartPolicy="Never")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body | spec}


def images(pods: list[Pod]) -> list[str]:
    return sorted(pod.spec.containers[0].image for pod in pods if not pod.metadata.deletion_timestamp)


async def test_a_deployment_s_life_with_kubectl(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        ok = here.kubectl.ok
        await here.create(workload("Deployment", "web", replicas=2))
        assert "successfully rolled out" in await here.rolled_out("deployment/web")
        await ok("scale", "deployment/web", "--replicas=3")
        await ok("set", "image", "deployment/web", "vm=copepod/micro:2")
        await here.rolled_out("deployment/web")
        assert images(await here.pods("web")) == ["copepod/micro:2"] * 3
        assert [line.split()[0] for line in (await ok("rollout", "history", "deployment/web")).splitlines()[2:4]] == [
            "1",
            "2",
        ]
        await ok("rollout", "undo", "deployment/web")
        await here.rolled_out("deployment/web")
        assert images(await here.pods("web")) == ["copepod/micro:1"] * 3
        await ok("rollout", "pause", "deployment/web")
        await ok("set", "image", "deployment/web", "vm=copepod/micro:3")
        await ok("scale", "deployment/web", "--replicas=1")

        async def one_old() -> bool:
            return images(await here.pods("web")) == ["copepod/micro:1"]

        await until(one_old, "paused, it scales and does not roll")
        await ok("rollout", "resume", "deployment/web")
        await here.rolled_out("deployment/web")
        assert images(await here.pods("web")) == ["copepod/micro:3"]
        assert "ScalingReplicaSet" in await ok("describe", "deployment", "web")


async def test_s84_nothing_is_piled_up_behind_a_cut_link(tmp_path: Path) -> None:
    """S-84: an offline node's pods are neither replaced nor deleted; the rest of the fleet is updated without it, and
    the node when it is back."""
    async with cluster(tmp_path) as here:
        await here.create(workload("Deployment", "web", replicas=4), workload("DaemonSet", "agent"))
        await here.rolled_out("deployment/web")
        await here.rolled_out("daemonset/agent")
        before = {pod.metadata.uid for pod in (*await here.pods("web"), *await here.pods("agent"))}
        box = here.boxes[1]
        running = set(box.host.vms)
        await here.offline(box)

        async def told() -> bool:
            deployment, daemonset = await here.get(Deployment, "web"), await here.get(DaemonSet, "agent")
            status = daemonset.status
            return (
                deployment.status.ready_replicas == deployment.status.available_replicas != 4
                and (deployment.status.replicas, status.desired_number_scheduled) == (4, 2)
                and (status.number_ready, status.number_unavailable) == (1, 1)
            )

        await until(told, "the numbers are honest")
        assert {pod.metadata.uid for pod in (*await here.pods("web"), *await here.pods("agent"))} == before
        await here.kubectl.ok("set", "image", "daemonset/agent", "vm=copepod/micro:2")

        async def updated(on: str) -> bool:
            found = [pod for pod in await here.pods("agent") if pod.spec.node_name == on]
            return images(found) == ["copepod/micro:2"] and (found[0].status.phase == "Running")

        await until(lambda: updated("n0"), "the node that is there is updated")
        stale = [pod for pod in await here.pods("agent") if pod.spec.node_name == "n1"]
        assert images(stale) == ["copepod/micro:1"]
        assert stale[0].metadata.uid in before
        assert set(box.host.vms) == running
        box.start()
        await until(lambda: updated("n1"), "back again, it is updated")
        await here.rolled_out("daemonset/agent")
        assert {pod.metadata.uid for pod in await here.pods("web")} < before


async def test_a_deleted_pod_on_an_offline_node_is_replaced_once_and_elsewhere(tmp_path: Path) -> None:
    """S-84: no pile of Terminating pods, and nothing new is bound to the node that is away."""
    async with cluster(tmp_path) as here:
        await here.create(workload("Deployment", "web", replicas=2))
        await here.rolled_out("deployment/web")
        await here.offline(here.boxes[1])
        victims = [pod for pod in await here.pods("web") if pod.spec.node_name == "n1"]
        for pod in victims:
            await here.kubectl.ok("delete", "pod", pod.metadata.name, "--wait=false", "--grace-period=1")

        async def replaced() -> bool:
            alive = [pod for pod in await here.pods("web") if not pod.metadata.deletion_timestamp]
            return len(alive) == 2 and {pod.spec.node_name for pod in alive} == {"n0"}

        await until(replaced, "both run on the node that is there")
        assert len(await here.pods("web")) == 2 + len(victims)
        here.boxes[1].start()

        async def cleared() -> bool:
            return len(await here.pods("web")) == 2

        await until(cleared, "back again, the old ones end")


async def test_a_pod_that_asks_for_it_is_given_up_when_its_node_is_silent(tmp_path: Path) -> None:
    """S-84: autonomy is configurable, by the usual toleration with seconds."""
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    movable = template("moves", FOREVER, tolerations=[toleration | {"tolerationSeconds": 1}])
    async with cluster(tmp_path) as here:
        await here.create(workload("Deployment", "moves", replicas=2, template=movable))
        await here.create(workload("Deployment", "stays", replicas=2))
        for name in ("moves", "stays"):
            await here.rolled_out(f"deployment/{name}")
        before = {pod.metadata.uid for pod in await here.pods("stays")}
        await here.offline(here.boxes[1])

        async def moved() -> bool:
            return [pod.spec.node_name for pod in await here.pods("moves")] == ["n0", "n0"]

        await until(moved, "both run on the node that is there")
        assert {pod.metadata.uid for pod in await here.pods("stays")} == before


async def test_s84_a_node_may_give_its_pods_up_and_its_daemon_stays(tmp_path: Path) -> None:
    """S-84: autonomy is configurable by node, for pods that say nothing themselves."""
    async with cluster(tmp_path) as here:
        await here.create(workload("Deployment", "web", replicas=2))
        await here.create(workload("DaemonSet", "daemon"))
        await here.rolled_out("deployment/web")
        await here.rolled_out("daemonset/daemon")
        daemons = {pod.metadata.uid for pod in await here.pods("daemon")}
        refused = await here.kubectl.run("annotate", "node", "n1", "copepod.dev/give-up-after=soon")
        assert refused.code == 1
        assert 'copepod.dev/give-up-after]: Invalid value: "soon": must be whole seconds' in refused.stderr
        await here.kubectl.ok("annotate", "node", "n1", "copepod.dev/give-up-after=1")
        await here.offline(here.boxes[1])

        async def moved() -> bool:
            return [pod.spec.node_name for pod in await here.pods("web")] == ["n0", "n0"]

        await until(moved, "both run on the node that is there")
        assert {pod.metadata.uid for pod in await here.pods("daemon")} == daemons


async def test_a_statefulset_in_order(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        await here.create(workload("StatefulSet", "db", replicas=3, serviceName="db"))
        await here.rolled_out("statefulset/db")
        pods = await here.pods("db")
        assert [pod.metadata.name for pod in pods] == ["db-0", "db-1", "db-2"]
        started = [pod.status.condition("Ready").last_transition_time for pod in pods]  # type: ignore[union-attr]
        assert started == sorted(started, key=str)
        partition = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}
        await here.kubectl.ok("patch", "statefulset", "db", "-p", json.dumps(partition))
        await here.kubectl.ok("set", "image", "statefulset/db", "vm=copepod/micro:2")
        assert "1 new pods have been updated" in await here.rolled_out("statefulset/db")
        found = [pod.spec.containers[0].image for pod in await here.pods("db")]
        assert found == ["copepod/micro:1", "copepod/micro:1", "copepod/micro:2"]
        partition["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0
        await here.kubectl.ok("patch", "statefulset", "db", "-p", json.dumps(partition))

        async def all_new() -> bool:
            status = (await here.get(StatefulSet, "db")).status
            return bool(status.updated_replicas == 3 and status.current_revision == status.update_revision)

        await until(all_new, "every pod is of the new revision")
        await here.kubectl.ok("scale", "statefulset/db", "--replicas=1")

        async def one() -> bool:
            return [pod.metadata.name for pod in await here.pods("db")] == ["db-0"]

        await until(one, "the highest ordinals go")


async def test_a_statefulset_s_claims_stay_or_go_as_it_says(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = template("disks", FOREVER)
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}], "serviceName": "disks"}
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        more = claims | {"template": made, "persistentVolumeClaimRetentionPolicy": policy}
        await here.create(workload("StatefulSet", "disks", replicas=2, **more))
        await here.rolled_out("statefulset/disks")

        async def held(*names: str) -> bool:
            return await here.names(PersistentVolumeClaim) == list(names)

        assert await held("data-disks-0", "data-disks-1")
        assert "data-disks-1" in await here.kubectl.ok("describe", "pod", "disks-1")
        await here.kubectl.ok("scale", "statefulset/disks", "--replicas=1")
        await until(lambda: held("data-disks-0"), "the second claim goes with its pod")
        await here.kubectl.ok("scale", "statefulset/disks", "--replicas=2")
        await here.rolled_out("statefulset/disks")
        assert await held("data-disks-0", "data-disks-1")
        await here.kubectl.ok("delete", "statefulset", "disks")
        await until(held, "all go with the set")


async def test_jobs_end_well_and_badly(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        fails = ["sh", "-c", "sleep 0.1; exit 3"]
        await here.create(
            job("good", ["sleep", "0.2"], completions=3, parallelism=2),
            job("each", ["true"], completions=2, parallelism=2, completionMode="Indexed"),
            job("bad", fails, backoffLimit=0),
            job("late", FOREVER, activeDeadlineSeconds=1),
            job("brief", ["true"], ttlSecondsAfterFinished=0),
        )
        wait = ("wait", "--timeout=60s")
        await here.kubectl.ok(*wait, "--for=condition=Complete", "job/good", "job/each")
        await here.kubectl.ok(*wait, "--for=condition=Failed", "job/bad", "job/late")
        good = (await here.get(Job, "good")).status
        assert (good.succeeded, good.failed, good.active) == (3, None, None)
        assert (await here.get(Job, "each")).status.completed_indexes == "0,1"
        reasons = {
            name: [item.reason for item in (await here.get(Job, name)).status.conditions if item.type == "Failed"]
            for name in ("bad", "late")
        }
        assert reasons == {"bad": ["BackoffLimitExceeded"], "late": ["DeadlineExceeded"]}

        async def gone() -> bool:
            return "brief" not in await here.names(Job) and not await here.pods("brief")

        await until(gone, "the job with a ttl and its pods")
        await here.kubectl.ok("delete", "job", "good", "bad", "late", "each", "--timeout=60s")

        async def cleared() -> bool:
            return await here.names(Pod) == []

        await until(cleared, "pods go with their jobs, finalizers and all")


async def test_a_job_s_policies_with_kubectl(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        codes = {"operator": "In", "values": [3]}
        policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
        fails, each = ["sh", "-c", "sleep 0.1; exit 3"], {"completions": 3, "completionMode": "Indexed"}
        enough = {"rules": [{"succeededCount": 1}]}
        await here.create(
            job("strict", fails, podFailurePolicy=policy),
            job("some", fails, backoffLimitPerIndex=0, parallelism=3, **each),
            job("first", ["true"], successPolicy=enough, **each),
        )
        wait = ("wait", "--timeout=60s")
        await here.kubectl.ok(*wait, "--for=condition=Failed", "job/strict", "job/some")
        await here.kubectl.ok(*wait, "--for=condition=Complete", "job/first")
        described = await here.kubectl.ok("describe", "job", "strict")
        assert "failed with exit code 3 matching FailJob rule at index 0" in described
        status = (await here.get(Job, "some")).status
        assert (status.completed_indexes, status.failed_indexes) == (None, "0-2")
        assert "Job has failed indexes" in await here.kubectl.ok("describe", "job", "some")
        assert (len(await here.pods("strict")), len(await here.pods("first"))) == (1, 1)


async def test_a_job_that_waits_for_real_ends_hears_of_all_of_them(tmp_path: Path) -> None:
    """Deleted on a living node, and lost with its node: neither says a phase of its own."""
    async with cluster(tmp_path) as here:
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        await here.create(job("long", FOREVER, podFailurePolicy={"rules": rules}, backoffLimit=1))

        async def running_but(*others: str) -> Pod | None:
            found = [pod for pod in await here.pods("long") if pod.status.phase == "Running"]
            return found[0] if len(found) == 1 and found[0].metadata.name not in others else None

        first: Pod = await until(running_but, "it runs")
        await here.kubectl.ok("delete", "pod", first.metadata.name, "--timeout=60s")
        second: Pod = await until(lambda: running_but(first.metadata.name), "one in its place")
        (box,) = [box for box in here.boxes if box.name == second.spec.node_name]
        await here.offline(box)
        await here.kubectl.ok("delete", "node", box.name)
        third: Pod = await until(lambda: running_but(first.metadata.name, second.metadata.name), "and elsewhere")
        assert third.spec.node_name != box.name
        assert (await here.get(Job, "long")).status.failed == 1, "what was lost with its node counts nowhere"


async def test_a_cronjob_runs_at_its_time(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("tick", ["true"])["spec"]}}
        cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}
        await here.create(cron)
        now = datetime.now(UTC)
        new_year = datetime(now.year + 1, 1, 1, tzinfo=UTC)
        here.lab.clock.offset = new_year + timedelta(seconds=5) - now
        # Timers run by the loop's time, which has not jumped: a change makes the controller look at the clock again.
        await here.kubectl.ok("annotate", "cronjob", "tick", "it=is-time")

        async def ran() -> bool:
            return bool((await here.get(CronJob, "tick")).status.last_successful_time)

        await until(ran, "it ran, and ended well")
        assert len(await here.names(Job)) == 1
        status = (await here.get(CronJob, "tick")).status
        assert status.last_schedule_time == new_year.strftime("%Y-%m-%dT%H:%M:%SZ")
        await here.kubectl.ok("delete", "cronjob", "tick", "--timeout=60s")

        async def cleared() -> bool:
            return not await here.names(Job) and not await here.names(Pod)

        await until(cleared, "its job and the job's pods go with it")


async def test_what_becomes_of_dependents(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        ok = here.kubectl.ok
        await here.create(*(workload("Deployment", name, replicas=1) for name in ("back", "front", "orphan")))
        for name in ("back", "front", "orphan"):
            await here.rolled_out(f"deployment/{name}")
        await ok("delete", "deployment", "front", "--cascade=foreground", "--timeout=60s")
        assert not await here.pods("front"), "foreground: dependents first"
        await ok("delete", "deployment", "back", "--timeout=60s")

        async def background() -> bool:
            return not await here.pods("back")

        await until(background, "background: dependents afterwards")
        await ok("delete", "deployment", "orphan", "--cascade=orphan", "--timeout=60s")
        kept = (await here.lab.objects.list(ReplicaSet, "default")).items
        assert [item.metadata.labels["app"] for item in kept] == ["orphan"]
        assert kept[0].metadata.owner_references == []
        before = [pod.metadata.uid for pod in await here.pods("orphan")]
        await here.create(workload("Deployment", "orphan", replicas=1))
        await here.rolled_out("deployment/orphan")
        assert [pod.metadata.uid for pod in await here.pods("orphan")] == before, "and taken in again"


async def test_a_node_that_is_cordoned_keeps_its_daemon(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        await here.kubectl.ok("cordon", "n0")
        assert (await here.lab.objects.get(Node, None, "n0")).spec.unschedulable
        await here.create(workload("DaemonSet", "agent"))
        await here.rolled_out("daemonset/agent")
        assert len(await here.pods("agent")) == 1


async def test_a_namespace_goes_with_all_its_workloads(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes=1) as here:
        await here.kubectl.ok("create", "namespace", "shop")
        items = [workload("Deployment", "web", replicas=1), workload("DaemonSet", "agent"), job("late", FOREVER)]
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        await here.kubectl.ok("create", "-n", "shop", "-f", "-", stdin=document)
        await here.kubectl.ok("rollout", "status", "-n", "shop", "deployment/web", "--timeout=60s")
        await here.kubectl.ok("delete", "namespace", "shop", "--timeout=60s")
        assert (await here.lab.objects.list(Pod)).items == ()
