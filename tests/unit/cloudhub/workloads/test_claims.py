"""Volume claims of a StatefulSet: made before their pods, kept or given up as its policy says."""

from __future__ import annotations

from typing import Any

import pytest

from cloudhub.workloads.actions import Plan, Update
from cloudhub.workloads.statefulsets import plan
from kubeapi.core import Pod
from kubeapi.kinds.apps import default_stateful_set, validate_stateful_set
from kubeapi.storage import PersistentVolumeClaim
from kubeapi.workloads import StatefulSet
from tests.support.workloads import NOW, created, statefulset, steps
from tests.unit.cloudhub.workloads.test_statefulsets import OLD, PARALLEL, at

TEMPLATE = {"metadata": {"name": "data", "labels": {"tier": "disk"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def keeps(deleted: str = "Retain", scaled: str = "Retain", replicas: int = 3, **spec: Any) -> StatefulSet:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    more = {"volumeClaimTemplates": [TEMPLATE], "persistentVolumeClaimRetentionPolicy": policy}
    return statefulset(replicas, spec=more | spec)


def claim(index: int, *owners: dict[str, Any], **more: Any) -> PersistentVolumeClaim:
    meta = {"name": f"data-web-{index}", "namespace": "default", "ownerReferences": list(owners)}
    return PersistentVolumeClaim.from_dict({"metadata": meta | more})


def planned(wish: StatefulSet, mine: list[Pod], *claims: PersistentVolumeClaim) -> Plan:
    held = {item.metadata.name: item for item in claims}
    return plan(wish, mine, (OLD,), frozenset(), NOW, held)


def owners(found: Plan) -> dict[str, list[str]]:
    written = [action.obj for action in found.actions if isinstance(action, Update)]
    return {item.metadata.name: [ref.kind for ref in item.metadata.owner_references] for item in written}


OF_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web"} | {
    "controller": True,
    "blockOwnerDeletion": True,
}
OF_POD = {"apiVersion": "v1", "kind": "Pod", "name": "web-2", "uid": "uid-web-2"}


def test_a_claim_comes_before_its_pod_and_stays_for_the_next() -> None:
    first = planned(keeps(), [])
    assert steps(first) == ["+PersistentVolumeClaim data-web-0", "+Pod web-0"]
    made, pod = created(first)
    assert (made.metadata.labels, made.metadata.owner_references) == ({"tier": "disk", "app": "web"}, [])
    assert pod.spec.volumes[0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    assert steps(planned(keeps(), [], claim(0))) == ["+Pod web-0"]


def test_all_at_once_where_order_does_not_matter() -> None:
    found = steps(planned(keeps(replicas=2, **PARALLEL), [], claim(1)))
    assert found == ["+PersistentVolumeClaim data-web-0", "+Pod web-0", "+Pod web-1"]


@pytest.mark.parametrize(
    "going", [claim(0, deletionTimestamp="2026-01-01T00:00:00Z"), claim(0, OF_POD | {"name": "web-0", "uid": "old"})]
)
def test_no_pod_is_made_on_a_claim_that_goes(going: PersistentVolumeClaim) -> None:
    assert steps(planned(keeps(), [], going)) == []


@pytest.mark.parametrize(
    ("deleted", "scaled", "before", "after"),
    [
        ("Retain", "Retain", (), {}),
        ("Retain", "Retain", (OF_SET,), {0: [], 1: [], 2: []}),
        ("Delete", "Retain", (), {0: ["StatefulSet"], 1: ["StatefulSet"], 2: ["StatefulSet"]}),
        ("Delete", "Retain", (OF_SET,), {}),
        ("Retain", "Delete", (), {2: ["Pod"]}),
        ("Delete", "Delete", (OF_SET,), {2: ["Pod"]}),
    ],
)
def test_whose_claims_are_when_the_third_pod_is_to_go(
    deleted: str, scaled: str, before: tuple[dict[str, Any], ...], after: dict[int, list[str]]
) -> None:
    mine = [at(index) for index in range(3)]
    found = planned(keeps(deleted, scaled, replicas=2), mine, *(claim(index, *before) for index in range(3)))
    assert owners(found) == {f"data-web-{index}": kinds for index, kinds in after.items()}
    assert ("-Pod web-2" in steps(found)) is not bool(after)


def test_the_pod_goes_once_its_claim_knows_its_owner() -> None:
    mine = [at(index) for index in range(3)]
    found = planned(keeps("Retain", "Delete", replicas=2), mine, claim(0), claim(1), claim(2, OF_POD))
    assert steps(found) == ["-Pod web-2"]


def test_a_mount_of_a_claim_is_a_mount_of_a_volume() -> None:
    wish = keeps()
    wish.spec.template.spec.containers[0].volume_mounts = (
        type(wish.spec.template.spec.containers[0])
        .from_dict({"volumeMounts": [{"name": "data", "mountPath": "/data"}]})
        .volume_mounts
    )
    default_stateful_set(wish)
    assert [str(cause) for cause in validate_stateful_set(wish)] == []
    wish.spec.volume_claim_templates = []
    assert any("volumeMounts[0].name" in str(cause) for cause in validate_stateful_set(wish))
