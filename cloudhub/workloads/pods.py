"""What all planners ask of pods, and how a pod comes out of a template. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import orjson

from cloudhub.workloads.actions import Action, Adopt, Update
from cloudhub.workloads.cluster import controller_of
from kubeapi.clock import later, parse_timestamp, timestamp
from kubeapi.core import Pod
from kubeapi.labelselector import LabelSelector, matches
from kubeapi.meta import KubeObject, ObjectMeta, OwnerReference
from kubeapi.workloads import PodTemplateSpec

T = TypeVar("T", bound=KubeObject)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names (k8s.io/apimachinery/pkg/util/rand): no vowels, no words."""
_HASH_LENGTH = 10
_REST_FIRST, _REST_MOST = 10.0, 300.0


def finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def active(pod: Pod) -> bool:
    """Runs, or will: neither ended nor being deleted."""
    return not finished(pod) and not pod.metadata.deletion_timestamp


def terminating(pod: Pod) -> bool:
    return not finished(pod) and bool(pod.metadata.deletion_timestamp)


def ready(pod: Pod) -> bool:
    condition = pod.status.condition("Ready")
    return condition is not None and condition.status == "True"


def unavailable_for(pod: Pod, min_ready_seconds: int | None, now: datetime) -> float | None:
    """Seconds until a Ready pod has been so for `min_ready_seconds` (0: it is available); None: it is not Ready."""
    condition = pod.status.condition("Ready")
    if condition is None or condition.status != "True":
        return None
    if not min_ready_seconds:
        return 0.0
    if not condition.last_transition_time:
        return None
    due = later(parse_timestamp(condition.last_transition_time), min_ready_seconds)
    return max((due - now).total_seconds(), 0.0)


def available(pod: Pod, min_ready_seconds: int | None, now: datetime) -> bool:
    return unavailable_for(pod, min_ready_seconds, now) == 0.0


def next_available(pods: Iterable[Pod], min_ready_seconds: int | None, now: datetime) -> float | None:
    """Seconds until the next Ready pod becomes available."""
    waits = [unavailable_for(pod, min_ready_seconds, now) for pod in pods if active(pod)]
    return min((seconds for seconds in waits if seconds), default=None)


def sooner(*waits: float | None) -> float | None:
    return min((seconds for seconds in waits if seconds is not None), default=None)


def failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and not pod.metadata.deletion_timestamp


def rest_left(pods: Iterable[Pod], now: datetime) -> float:
    """Seconds to wait before something is made in place of these failed pods: 10 s after the youngest was made, doubled
    with each of the others. A node that refuses what is sent to it must not be sent the next in the same instant."""
    made = [parse_timestamp(pod.metadata.creation_timestamp or timestamp(now)) for pod in pods]
    if not made:
        return 0.0
    delay = min(_REST_FIRST * 2.0 ** min(len(made) - 1, 10), _REST_MOST)
    return max((later(max(made), delay) - now).total_seconds(), 0.0)


def deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Who goes first when there are too many (the reference's ActivePodsWithRanks): unbound, not started, not Ready,
    cheap to delete, Ready for the shortest time, restarted most, youngest."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}

    def rank(pod: Pod) -> tuple[Any, ...]:
        restarts = max((item.restart_count for item in pod.status.container_statuses), default=0)
        return (
            bool(pod.spec.node_name),
            phases.get(pod.status.phase or "Pending", 2),
            ready(pod),
            _deletion_cost(pod),
            _NewestFirst(_ready_since(pod)),
            -restarts,
            _NewestFirst(pod.metadata.creation_timestamp or ""),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _ready_since(pod: Pod) -> str:
    condition = pod.status.condition("Ready")
    return (condition.last_transition_time or "") if condition and condition.status == "True" else ""


@dataclass(frozen=True, slots=True)
class _NewestFirst:
    text: str

    def __lt__(self, other: _NewestFirst) -> bool:
        return self.text > other.text


# Making pods


def owned_by(owner: KubeObject) -> OwnerReference:
    meta = owner.metadata
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=meta.name,
        uid=meta.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def from_template(template: PodTemplateSpec, owner: KubeObject, *, name: str = "", prefix: str = "") -> Pod:
    """A new pod of `owner`'s, with that name, or with one that begins with `prefix`."""
    copy = template.copied()
    meta = copy.metadata
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generate_name=None if name else prefix or f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            owner_references=[owned_by(owner)],
        ),
        spec=copy.spec,
    )


def content_hash(data: Any, salt: int = 0) -> str:
    """A short name for some content. It names only: equality is decided by comparing the contents themselves."""
    digest = blake2b(orjson.dumps([data, salt], option=orjson.OPT_SORT_KEYS), digest_size=8).digest()
    number = int.from_bytes(digest)
    letters = []
    for _ in range(_HASH_LENGTH):
        number, index = divmod(number, len(_SAFE))
        letters.append(_SAFE[index])
    return "".join(letters)


# Whose they are


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    mine: tuple[T, ...]
    actions: tuple[Action, ...]
    """Adoptions and releases: to be done, and seen, before anything else."""


def claim(owner: KubeObject, selector: LabelSelector | None, candidates: Sequence[T]) -> Claim[T]:
    """Adopt what matches and has no controller; release what is ours and does not match any more."""
    mine: list[T] = []
    actions: list[Action] = []
    for item in candidates:
        controller = controller_of(item)
        fits = selects(selector, item.metadata.labels)
        if controller is None:
            if fits and not item.metadata.deletion_timestamp and not owner.metadata.deletion_timestamp:
                adopted = item.copied()
                adopted.metadata.owner_references.append(owned_by(owner))
                actions.append(Adopt(adopted))
        elif fits:
            mine.append(item)
        elif not owner.metadata.deletion_timestamp:
            released = item.copied()
            released.metadata.owner_references = [
                reference for reference in released.metadata.owner_references if reference.uid != owner.metadata.uid
            ]
            actions.append(Update(released))
    return Claim(tuple(mine), tuple(actions))


def selects(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    """An empty selector selects nothing here: validation refuses it, and it must never claim a whole namespace."""
    return selector is not None and not selector.empty and matches(selector, labels)


def amount(value: int | str | None, total: int, *, up: bool) -> int:
    """An IntOrString (`2`, `"25%"`) of `total`, rounded up or down. Raises ValueError."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * total
    return -(-share // 100) if up else share // 100
