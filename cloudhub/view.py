"""What one node should hold: the pods bound to it and what they need, dependencies first. Pure.

A view carries the wish only. Status is the node's own truth and comes from there; sending it back down would answer
every status with a delta. Hence an item's revision is not the row's: it is a fingerprint of what the node is meant to
see, equal as long as that is equal. Views at two revisions, and digests, compare by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from edgelink.api import Item, ItemKey, View

PODS = "pods"
CONFIG_MAPS = "configmaps"
SECRETS = "secrets"
KINDS = (CONFIG_MAPS, SECRETS, PODS)
"""Everything that can be in a view, in the order of sending."""

STATUS_SOURCE = "copepod.dev/status-source"
"""Annotation of a Pod, kept by the hub: which node store its status came from, and its number there (`store/number`).
An older one never replaces it (S-85)."""

_NOT_FOR_NODES = ("resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the hub's store, as far as a view is concerned."""

    key: ItemKey
    uid: str
    value: bytes


Lookup = Callable[[str, str], Mapping[str, Stored]]
"""(kind, namespace) → the objects there by name, all true at the view's revision."""


def view(node: str, revision: int, pods: Iterable[Stored], lookup: Lookup) -> View:
    """Everything `node` should hold at `revision`. What a pod needs but does not exist (yet) is left out: it enters
    the view when it is created (S-87)."""
    mine = [pod for pod in pods if bound_to(pod.value) == node]
    wanted = sorted({need for pod in mine for need in needs(pod.value)}, key=_order)
    found = (lookup(need.kind, need.namespace).get(need.name) for need in wanted)
    stored = [*(item for item in found if item is not None), *sorted(mine, key=lambda pod: pod.key)]
    return View(revision, {item.key: _item(item) for item in stored})


@lru_cache(maxsize=8192)
def bound_to(pod: bytes) -> str:
    """The node a stored pod is bound to, or an empty string. Finished pods stay until they are removed: a node that
    lost its store must learn that they have run."""
    spec = orjson.loads(pod).get("spec") or {}
    return str(spec.get("nodeName") or "")


@lru_cache(maxsize=1024)
def needs(pod: bytes) -> tuple[ItemKey, ...]:
    """The ConfigMaps and Secrets a stored pod refers to: envFrom, env, volumes (projected too), imagePullSecrets."""
    document = orjson.loads(pod)
    namespace = document["metadata"].get("namespace") or ""
    references = dict.fromkeys(_references(document.get("spec") or {}))
    return tuple(ItemKey(kind, namespace, name) for kind, name in references if name)


def nodes_concerned(kind: str, before: bytes | None, after: bytes | None) -> frozenset[str] | None:
    """Whose view a change of one object may change; None: that cannot be told from the object alone."""
    if kind != PODS:
        return None
    if before and after and _shown(before) == _shown(after):
        return frozenset()
    return frozenset(node for value in (before, after) if value and (node := bound_to(value)))


def _order(key: ItemKey) -> tuple[int, ItemKey]:
    return KINDS.index(key.kind), key


@lru_cache(maxsize=2048)
def _shown(value: bytes) -> tuple[bytes, int]:
    """What the node is shown, and its fingerprint (53 bits: exact in every JSON implementation)."""
    document = orjson.loads(value)
    document.pop("status", None)
    metadata = document["metadata"]
    for name in _NOT_FOR_NODES:
        metadata.pop(name, None)
    annotations = metadata.get("annotations") or {}
    if annotations.pop(STATUS_SOURCE, None) and not annotations:
        del metadata["annotations"]
    shown = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return shown, int.from_bytes(blake2b(shown, digest_size=8).digest()) >> 11


def _item(stored: Stored) -> Item:
    value, fingerprint = _shown(stored.value)
    return Item(stored.key, stored.uid, fingerprint, value)


def _references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for secret in spec.get("imagePullSecrets") or ():
        yield SECRETS, secret.get("name", "")
    for container in _containers(spec):
        yield from _container_references(container)
    for volume in spec.get("volumes") or ():
        yield from _volume_references(volume)


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _container_references(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield CONFIG_MAPS, (source.get("configMapRef") or {}).get("name", "")
        yield SECRETS, (source.get("secretRef") or {}).get("name", "")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield CONFIG_MAPS, (source.get("configMapKeyRef") or {}).get("name", "")
        yield SECRETS, (source.get("secretKeyRef") or {}).get("name", "")


def _volume_references(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield CONFIG_MAPS, (volume.get("configMap") or {}).get("name", "")
    yield SECRETS, (volume.get("secret") or {}).get("secretName", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield CONFIG_MAPS, (source.get("configMap") or {}).get("name", "")
        yield SECRETS, (source.get("secret") or {}).get("name", "")
