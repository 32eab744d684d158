"""What nodes say, and what it makes of the hub's objects. Pure.

The node owns the truth about its VMs and itself: status, and nothing else, is taken from it. The hub keeps what is its
own: specs, identities, the PodScheduled condition, and conditions that neither side's rules know (readiness gates). Why
a pod is made to go (DisruptionTarget) either side may say; what was said stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloudhub.view import STATUS_SOURCE
from edgelink.api import UpItem
from kubeapi.core import Event, Node, Pod, PodCondition, PodStatus
from kubeapi.meta import ObjectMeta, camel

_NODES_OWN = frozenset(
    {
        "Ready",
        "Initialized",
        "ContainersReady",
        "PodReadyToStartContainers",
        "PodResizePending",
        "PodResizeInProgress",
    }
)
_NAME_MAX = 253


class BadItem(Exception):
    """An item that cannot be applied, now or later. `kind` groups them for counting and logging."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Report(BaseModel):
    model_config = ConfigDict(alias_generator=camel, frozen=True)

    namespace: str
    name: str
    uid: str = Field(min_length=1)


class StatusReport(_Report):
    kind: Literal["PodStatus"]
    observed_generation: int = 0
    sequence: int = 0
    status: dict[str, Any]


class GoneReport(_Report):
    """The node has torn the pod down."""

    kind: Literal["PodGone"]


Reported = StatusReport | GoneReport | Node | Event


@dataclass(frozen=True, slots=True)
class Origin:
    node: str
    store: str


def parse(item: UpItem, node: str) -> Reported:
    """Raises BadItem."""
    try:
        value = orjson.loads(item.value)
        kind = value["kind"]
        match item.lane, kind:
            case "level", "PodStatus":
                return StatusReport.model_validate(value)
            case "level", "PodGone":
                return GoneReport.model_validate(value)
            case "level", "Node":
                return _node(Node.from_dict(value), node)
            case "log", "Event":
                return _event(Event.from_dict(value))
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise BadItem("malformed", f"{item.lane} {item.subject}: {_first_line(error)}") from error
    raise BadItem("unknown", f"{item.lane} {item.subject}: kind {str(kind)[:60]!r} is not known here")


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"[:200]
    return f"{type(error).__name__}: {error}"[:200]


def _node(reported: Node, node: str) -> Node:
    if reported.metadata.name != node:
        raise BadItem("foreign", f"it speaks for node {reported.metadata.name[:60]!r}")
    return reported


def _event(event: Event) -> Event:
    if not event.metadata.name or len(event.metadata.name) > _NAME_MAX or "/" in event.metadata.name:
        raise BadItem("malformed", f"an Event's name {event.metadata.name[:60]!r} is not a name")
    return event


def with_status(pod: Pod, report: StatusReport, origin: Origin) -> Pod | None:
    """`pod` with the status reported, or None when what is stored is newer. Raises BadItem."""
    _require_own(pod, origin.node)
    if _is_older(pod, report, origin.store):
        return None
    try:
        status = PodStatus.from_dict(report.status)
    except ValidationError as error:
        raise BadItem("malformed", f"status of pod {report.namespace}/{report.name}: {_first_line(error)}") from error
    status.observed_generation = report.observed_generation or status.observed_generation
    status.conditions = [
        *_kept(pod.status, status),
        *(item for item in status.conditions if item.type != "PodScheduled"),
    ]
    status.qos_class = status.qos_class or pod.status.qos_class
    metadata = pod.metadata.copied()
    metadata.annotations[STATUS_SOURCE] = f"{origin.store}/{report.sequence}"
    return pod.model_copy(update={"metadata": metadata, "status": status})


def _kept(before: PodStatus, reported: PodStatus) -> list[PodCondition]:
    named = {item.type for item in reported.conditions} - {"PodScheduled"}
    return [item for item in before.conditions if item.type not in named | _NODES_OWN]


def _is_older(pod: Pod, report: StatusReport, store: str) -> bool:
    if report.observed_generation < (pod.status.observed_generation or 0):
        return True
    source, _, sequence = pod.metadata.annotations.get(STATUS_SOURCE, "").rpartition("/")
    return source == store and sequence.isdecimal() and report.sequence < int(sequence)


def _require_own(pod: Pod, node: str) -> None:
    if pod.spec.node_name != node:
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise BadItem("foreign", f"it speaks for pod {where}, which is bound to {pod.spec.node_name or 'no node'!r}")


def torn_down(pod: Pod, origin: Origin) -> Pod | None:
    """What is left of a pod that its node has torn down: None = nothing, remove it. A pod that is not being deleted
    stays as it is, and one that finalizers hold waits for them alone: as failed, if its node has not said how it ended,
    so that a Job that waits for its end sees it, and nobody counts its room. Raises BadItem."""
    _require_own(pod, origin.node)
    if not pod.metadata.deletion_timestamp:
        return pod
    if not pod.metadata.finalizers:
        return None
    released = pod.copied()
    released.metadata.deletion_grace_period_seconds = 0
    if released.status.phase != "Succeeded":
        released.status.phase = "Failed"
    return released


def with_report(stored: Node | None, reported: Node, uid: str, now: str) -> Node:
    """The hub's Node after the node's own report: created with `uid` where there is none. Labels and annotations that
    the node names become what it says; others, and the spec (cordon, taints), are people's and stay."""
    if stored is None:
        stored = fresh_node(reported.metadata.name, uid, now)
    node = stored.copied()
    node.metadata.labels |= reported.metadata.labels
    node.metadata.annotations |= reported.metadata.annotations
    node.status = reported.status.copied()
    return node


def fresh_node(name: str, uid: str, now: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    return Node(metadata=ObjectMeta(name=name, uid=uid, creation_timestamp=now, labels=labels))


def stored_event(event: Event, uid: str, now: str) -> Event:
    """As the hub keeps it: an identity of the hub's, in the namespace of what it is about."""
    event = event.copied()
    event.metadata = ObjectMeta(
        name=event.metadata.name,
        namespace=event.involved_object.namespace or event.metadata.namespace or "default",
        uid=uid,
        creation_timestamp=now,
        labels=event.metadata.labels,
        annotations=event.metadata.annotations,
    )
    return event
