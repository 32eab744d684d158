"""Kubernetes events, as they go into the outbox. Reasons and wording are the kubelet's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from kubeapi.clock import parse_timestamp
from kubeapi.core import Event, EventSource, ObjectReference, Pod
from kubeapi.meta import ObjectMeta
from metastore.api import Enqueue, Lane

COMPONENT = "copepod-edgecore"
NAME_MAX = 253
"""Characters; the longest name that the hub takes."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event before it has a time and a place."""

    reason: str
    message: str
    warning: bool = False


def about_pod(pod: Pod) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
    )


def about_node(name: str) -> ObjectReference:
    """As a kubelet names its node: by its name, also as UID, which is where `kubectl describe node` looks."""
    return ObjectReference(api_version="v1", kind="Node", name=name, uid=name)


def enqueue(about: ObjectReference, note: Note, node: str, when: str, serial: int) -> Enqueue:
    """`serial` counts this agent's events; the same event sent twice has the same name."""
    event = Event(
        metadata=ObjectMeta(name=_name(about, note, node, when, serial), namespace=about.namespace or "default"),
        involved_object=about,
        reason=note.reason,
        message=note.message,
        type="Warning" if note.warning else "Normal",
        source=EventSource(component=COMPONENT, host=node),
        first_timestamp=when,
        last_timestamp=when,
        count=1,
        reporting_component=COMPONENT,
        reporting_instance=node,
    )
    return Enqueue(Lane.LOG, "events", event.to_json())


def _name(about: ObjectReference, note: Note, node: str, when: str, serial: int) -> str:
    """Begins with the time and the serial, as client-go's names do: those of one second, which is as fine as an
    event's times are, are listed (by name) in the order in which they happened."""
    identity = f"{about.uid}/{node}/{serial}/{note.reason}/{when}"
    tail = hashlib.sha256(identity.encode()).hexdigest()[:6]
    suffix = f".{int(parse_timestamp(when).timestamp()):08x}{serial:08x}{tail}"
    return (about.name or "")[: NAME_MAX - len(suffix)] + suffix


def resize_detail(pod: Pod, error: str | None = None) -> str:
    """The JSON that the kubelet appends to its resize events."""
    containers = [
        {"name": container.name, "resources": container.resources.to_dict() if container.resources else {}}
        for container in pod.spec.containers
    ]
    detail: dict[str, object] = {"containers": containers, "generation": pod.metadata.generation or 0}
    if error is not None:
        detail["error"] = error
    return orjson.dumps(detail).decode()
