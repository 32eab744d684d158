"""Short ways to write down workloads and their pods, for tables of plans."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from cloudhub.workloads import pods
from cloudhub.workloads.actions import Action, Create, Delete, Plan, SetStatus, Tell, Update
from kubeapi.clock import timestamp
from kubeapi.core import Pod
from kubeapi.meta import KubeObject
from kubeapi.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LABELS = {"app": "web"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "vm", "image": "copepod/micro:1"}]},
}

T = TypeVar("T", bound=KubeObject)


def ago(seconds: float) -> str:
    return timestamp(NOW - timedelta(seconds=seconds))


def _made(model: type[T], spec: dict[str, Any], more: dict[str, Any]) -> T:
    meta = {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 1, "creationTimestamp": ago(3600)}
    meta |= more.pop("metadata", {})
    return model.from_dict({"metadata": meta, "spec": spec, "status": more.pop("status", {})})


def replicaset(replicas: int = 3, **more: Any) -> ReplicaSet:
    selector = {"matchLabels": LABELS}
    spec = {"replicas": replicas, "selector": selector, "template": TEMPLATE} | more.pop("spec", {})
    return _made(ReplicaSet, spec, more)


def deployment(replicas: int = 3, *, surge: Any = 1, unavailable: Any = 0, **more: Any) -> Deployment:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": TEMPLATE,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    return _made(Deployment, spec | more.pop("spec", {}), more)


def daemonset(**more: Any) -> DaemonSet:
    spec = {
        "selector": {"matchLabels": LABELS},
        "template": TEMPLATE,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": 10,
    }
    return _made(DaemonSet, spec | more.pop("spec", {}), more)


def statefulset(replicas: int = 3, **more: Any) -> StatefulSet:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": TEMPLATE,
        "serviceName": "web",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
    }
    return _made(StatefulSet, spec | more.pop("spec", {}), more)


def job(**more: Any) -> Job:
    spec = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "selector": {"matchLabels": LABELS},
        "template": TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}},
    }
    return _made(Job, spec | more.pop("spec", {}), more)


def cronjob(schedule: str = "*/5 * * * *", **more: Any) -> CronJob:
    spec: dict[str, Any] = {
        "schedule": schedule,
        "concurrencyPolicy": "Allow",
        "jobTemplate": {"spec": {"template": TEMPLATE}},
    }
    spec |= {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    return _made(CronJob, spec | more.pop("spec", {}), more)


def pod(
    owner: KubeObject | None,
    name: str,
    *,
    phase: str = "Running",
    ready: bool = True,
    since: float = 60,
    node: str = "n1",
    deleted: bool = False,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Pod:
    """`since`: seconds for which it has been Ready, or not."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": LABELS | (labels or {}),
        "creationTimestamp": ago(600),
        "deletionTimestamp": ago(1) if deleted else None,
        "ownerReferences": [pods.owned_by(owner).to_dict()] if owner else [],
    } | more.pop("metadata", {})
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ago(since)}]
    status = {"phase": phase, "conditions": conditions} | more.pop("status", {})
    spec = {"nodeName": node or None, "containers": TEMPLATE["spec"]["containers"]} | more.pop("spec", {})
    return Pod.from_dict({"metadata": meta, "spec": spec, "status": status})


def said(actions: Iterable[Action]) -> list[str]:
    """In short: `+Pod web-`, `-Pod web-1`, `~ReplicaSet web-x 3`, `status`, `! reason`."""
    return [text for action in actions if (text := _short(action))]


def steps(plan: Plan) -> list[str]:
    """`said`, without status and events."""
    return [text for text in said(plan.actions) if text[0] in "+-~"]


def _short(action: Action) -> str:
    match action:
        case Create(obj):
            return f"+{obj.kind} {obj.metadata.name or obj.metadata.generate_name}"
        case Delete(obj):
            return f"-{obj.kind} {obj.metadata.name}"
        case SetStatus():
            return "status"
        case Tell(reason=reason):
            return f"! {reason}"
        case Update(obj):
            size = obj.spec.replicas if isinstance(obj, ReplicaSet) else ""
            return f"~{obj.kind} {obj.metadata.name} {size}".rstrip()
        case _:
            return f"={action.obj.kind} {action.obj.metadata.name}"


def status_of(plan: Plan) -> Any:
    """What the plan would write; None: nothing."""
    written = [action.obj for action in plan.actions if isinstance(action, SetStatus)]
    return written[0].status if written else None  # type: ignore[attr-defined]


def created(plan: Plan) -> list[Any]:
    return [action.obj for action in plan.actions if isinstance(action, Create)]
