"""Versions of a DaemonSet's or StatefulSet's template, kept as ControllerRevisions for `kubectl rollout undo`. Pure.

Equality is by content; the hash only names. As the reference's controller/history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cloudhub.workloads import pods
from cloudhub.workloads.actions import Action, Create, Delete, Update
from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.workloads import ControllerRevision, PodTemplateSpec

HASH_LABEL = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class Revisions:
    current: ControllerRevision | None
    """Of today's template; None: it is being made."""
    actions: tuple[Action, ...] = ()
    """To be done, and seen, before pods are."""


def plan(
    owner: KubeObject,
    template: PodTemplateSpec,
    owned: Sequence[ControllerRevision],
    taken: frozenset[str],
    used: frozenset[str],
    limit: int | None,
) -> Revisions:
    """`taken`: names of all revisions in the namespace; `used`: names that pods or the status refer to; `limit`: how
    many others to keep."""
    data = content(template)
    ordered = sorted(owned, key=lambda item: (item.revision, item.metadata.name))
    newest = ordered[-1].revision if ordered else 0
    same = [item for item in ordered if item.data == data]
    if not same:
        return Revisions(None, (Create(_new(owner, template, data, taken, newest + 1)),))
    current = same[-1]
    if current.revision < newest:  # rolled back to
        raised = current.copied()
        raised.revision = newest + 1
        return Revisions(current, (Update(raised),))
    idle = [item for item in ordered if item is not current and item.metadata.name not in used]
    surplus = max(len(idle) - limit, 0) if limit is not None else 0
    return Revisions(current, tuple(Delete(item) for item in idle[:surplus]))


def content(template: PodTemplateSpec) -> dict[str, Any]:
    """A patch that brings the template back."""
    return {"spec": {"template": template.to_dict() | {"$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    data = dict(((revision.data or {}).get("spec") or {}).get("template") or {})
    data.pop("$patch", None)
    return PodTemplateSpec.from_dict(data)


def short_hash(revision: ControllerRevision) -> str:
    return revision.metadata.labels.get(HASH_LABEL, revision.metadata.name)


def _new(
    owner: KubeObject, template: PodTemplateSpec, data: dict[str, Any], taken: frozenset[str], number: int
) -> ControllerRevision:
    salt = 0
    while f"{owner.metadata.name}-{pods.content_hash(data, salt)}" in taken:
        salt += 1
    short = pods.content_hash(data, salt)
    meta = ObjectMeta(
        name=f"{owner.metadata.name}-{short}",
        namespace=owner.metadata.namespace,
        labels=template.metadata.labels | {HASH_LABEL: short},
        owner_references=[pods.owned_by(owner)],
    )
    return ControllerRevision(metadata=meta, data=data, revision=number)
