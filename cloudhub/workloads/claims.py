"""A StatefulSet's volume claims: one of each template for every pod, with a name that stays. Pure.

Nothing here binds or provisions them (docs/adr/0006). Who owns a claim decides what becomes of it, and the garbage
collector does the rest. `whenDeleted: Delete`: the set owns it; `whenScaled: Delete`: a pod that is to go owns its own;
else nobody does, and the claim outlives them. As the reference's stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cloudhub.workloads import pods
from cloudhub.workloads.actions import Action, Create, Update
from kubeapi.core import Pod
from kubeapi.meta import ObjectMeta, OwnerReference
from kubeapi.storage import PersistentVolumeClaim
from kubeapi.workloads import StatefulSet

Claims = Mapping[str, PersistentVolumeClaim]
"""The namespace's, by name."""


def mount(statefulset: StatefulSet, pod: Pod) -> None:
    """Its claims among the pod's volumes, in place of those of the same names."""
    templates = statefulset.spec.volume_claim_templates
    own = {item.metadata.name for item in templates}
    others = [volume for volume in pod.spec.volumes if volume.get("name") not in own]
    mounted = [
        {
            "name": item.metadata.name,
            "persistentVolumeClaim": {"claimName": claim_name(item, pod.metadata.name)},
        }
        for item in templates
    ]
    pod.spec.volumes = [*mounted, *others]


def claim_name(template: PersistentVolumeClaim, pod: str) -> str:
    return f"{template.metadata.name}-{pod}"


def names(statefulset: StatefulSet, pod: str) -> list[str]:
    return [claim_name(item, pod) for item in statefulset.spec.volume_claim_templates]


def before(statefulset: StatefulSet, pod: str, claims: Claims) -> list[Action] | None:
    """What is to be made before that pod is; None: a claim of that name is going, or goes with the pod before this one,
    and must be gone first."""
    actions: list[Action] = []
    for template in statefulset.spec.volume_claim_templates:
        name = claim_name(template, pod)
        found = claims.get(name)
        if found is None:
            message = f"create Claim {name} Pod {pod} in StatefulSet {statefulset.metadata.name} success"
            actions.append(Create(_claim(statefulset, template, name), message))
        elif found.metadata.deletion_timestamp or any(item.kind == "Pod" for item in found.metadata.owner_references):
            return None
    return actions


def owners(statefulset: StatefulSet, mine: Sequence[Pod], condemned: Sequence[Pod], claims: Claims) -> list[Action]:
    """Claims whose owner is not the one that the retention policy asks for."""
    going = {pod.metadata.name for pod in condemned}
    return [
        Update(_owned(claim, statefulset, wanted))
        for pod in mine
        for name in names(statefulset, pod.metadata.name)
        if (claim := claims.get(name)) is not None and not claim.metadata.deletion_timestamp
        if (wanted := _owner(statefulset, pod, going)) != _owner_now(claim, statefulset)
    ]


def _owner(statefulset: StatefulSet, pod: Pod, going: set[str]) -> OwnerReference | None:
    policy = statefulset.spec.persistent_volume_claim_retention_policy
    if policy is None:
        return None
    if policy.when_scaled == "Delete" and pod.metadata.name in going:
        meta = pod.metadata
        return OwnerReference(api_version=pod.api_version, kind=pod.kind, name=meta.name, uid=meta.uid or "")
    return pods.owned_by(statefulset) if policy.when_deleted == "Delete" else None


def _is_ours(reference: OwnerReference, statefulset: StatefulSet) -> bool:
    return reference.uid == statefulset.metadata.uid or reference.kind == "Pod"


def _owner_now(claim: PersistentVolumeClaim, statefulset: StatefulSet) -> OwnerReference | None:
    return next((item for item in claim.metadata.owner_references if _is_ours(item, statefulset)), None)


def _owned(
    claim: PersistentVolumeClaim, statefulset: StatefulSet, owner: OwnerReference | None
) -> PersistentVolumeClaim:
    claim = claim.copied()
    others = [item for item in claim.metadata.owner_references if not _is_ours(item, statefulset)]
    claim.metadata.owner_references = [*others, *([owner] if owner else [])]
    return claim


def _claim(statefulset: StatefulSet, template: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    policy, meta = statefulset.spec.persistent_volume_claim_retention_policy, template.metadata.copied()
    selector = statefulset.spec.selector
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=statefulset.metadata.namespace,
            labels=meta.labels | (selector.match_labels if selector else {}),
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            owner_references=[pods.owned_by(statefulset)] if policy and policy.when_deleted == "Delete" else [],
        ),
        spec=template.spec.copied(),
    )
