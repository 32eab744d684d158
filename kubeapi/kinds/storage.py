"""PersistentVolumeClaim, PersistentVolume, StorageClass: stored so that charts install; nothing binds them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi.ages import age
from kubeapi.columns import NONE
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, forbidden, invalid, required
from kubeapi.kinds.common import STATUS, ObjectStrategy, one_of, wide
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, ResourceType, Table
from kubeapi.storage import DEFAULT_CLASS, GROUP, PersistentVolume, PersistentVolumeClaim, StorageClass
from kubeapi.validation import validate_amounts

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET = "<unset>"


def _access(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _validate_modes(modes: Sequence[str]) -> list[Cause]:
    if not modes:
        return [required("spec.accessModes", "at least 1 access mode is required")]
    causes: list[Cause] = []
    for mode in modes:
        causes += one_of("spec.accessModes", mode, tuple(_MODES))
    return causes


# PersistentVolumeClaim


def _default_claim(obj: PersistentVolumeClaim) -> None:
    obj.spec.volume_mode = obj.spec.volume_mode or "Filesystem"


def _prepare_claim(obj: PersistentVolumeClaim) -> None:
    obj.status.phase = "Pending"


def _validate_claim(obj: PersistentVolumeClaim) -> Sequence[Cause]:
    causes = _validate_modes(obj.spec.access_modes)
    if "storage" not in obj.spec.resources.requests:
        causes.append(required("spec.resources[storage]"))
    return [*causes, *validate_amounts(obj.spec.resources.requests, "spec.resources.requests")]


def _claim_update(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Sequence[Cause]:
    was, now = old.spec.to_dict(), new.spec.to_dict()
    for name in ("resources", "volumeAttributesClassName", *([] if was.get("volumeName") else ["volumeName"])):
        was.pop(name, None)
        now.pop(name, None)
    if was == now:
        return []
    detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden("spec", detail)]


def _claim_cells(obj: PersistentVolumeClaim, now: datetime) -> Sequence[Cell]:
    bound = obj.spec.volume_name
    return (
        obj.metadata.name,
        "Terminating" if obj.metadata.deletion_timestamp else obj.status.phase or "",
        bound or "",
        obj.status.capacity.get("storage", "") if bound else "",
        _access(obj.status.access_modes) if bound else "",
        obj.spec.storage_class_name or "",
        obj.spec.volume_attributes_class_name or _UNSET,
        age(obj.metadata.creation_timestamp, now),
        obj.spec.volume_mode or _UNSET,
    )


CLAIMS: ResourceType[PersistentVolumeClaim] = ResourceType(
    model=PersistentVolumeClaim,
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    short_names=("pvc",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Status"),
            Column("Volume"),
            Column("Capacity"),
            Column("Access Modes"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            AGE_COLUMN,
            wide("VolumeMode"),
        ),
        _claim_cells,
    ),
    strategy=ObjectStrategy(
        validate=_validate_claim,
        compare=_claim_update,
        default=_default_claim,
        prepare=_prepare_claim,
        generation=False,
    ),
)


# PersistentVolume


def _default_volume(obj: PersistentVolume) -> None:
    spec = obj.spec
    spec.persistent_volume_reclaim_policy = spec.persistent_volume_reclaim_policy or "Retain"
    spec.volume_mode = spec.volume_mode or "Filesystem"


def _prepare_volume(obj: PersistentVolume) -> None:
    obj.status.phase = "Pending"


def _validate_volume(obj: PersistentVolume) -> Sequence[Cause]:
    spec = obj.spec
    causes = _validate_modes(spec.access_modes)
    if "storage" not in spec.capacity:
        causes.append(required("spec.capacity"))
    causes += validate_amounts(spec.capacity, "spec.capacity")
    if not spec.sources:
        causes.append(required("spec", "must specify a volume type"))
    elif len(spec.sources) > 1:
        causes.append(forbidden(f"spec.{max(spec.sources)}", "may not specify more than 1 volume type"))
    policies = ("Delete", "Recycle", "Retain")
    causes += one_of("spec.persistentVolumeReclaimPolicy", spec.persistent_volume_reclaim_policy, policies)
    return causes


def _volume_update(new: PersistentVolume, old: PersistentVolume) -> Sequence[Cause]:
    data = new.spec.model_extra or {}, old.spec.model_extra or {}
    if all(data[0].get(name) == data[1].get(name) for name in new.spec.sources | old.spec.sources):
        return []
    return [forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")]


def _volume_cells(obj: PersistentVolume, now: datetime) -> Sequence[Cell]:
    spec = obj.spec
    claim = spec.claim_ref
    return (
        obj.metadata.name,
        spec.capacity.get("storage", ""),
        _access(spec.access_modes),
        spec.persistent_volume_reclaim_policy or "",
        "Terminating" if obj.metadata.deletion_timestamp else obj.status.phase or "",
        f"{claim.namespace}/{claim.name}" if claim else "",
        spec.storage_class_name or "",
        spec.volume_attributes_class_name or _UNSET,
        obj.status.reason or "",
        age(obj.metadata.creation_timestamp, now),
        spec.volume_mode or _UNSET,
    )


VOLUMES: ResourceType[PersistentVolume] = ResourceType(
    model=PersistentVolume,
    kind="PersistentVolume",
    plural="persistentvolumes",
    singular="persistentvolume",
    namespaced=False,
    short_names=("pv",),
    subresources=(STATUS,),
    table=Table(
        (
            NAME_COLUMN,
            Column("Capacity"),
            Column("Access Modes"),
            Column("Reclaim Policy"),
            Column("Status"),
            Column("Claim"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            Column("Reason"),
            AGE_COLUMN,
            wide("VolumeMode"),
        ),
        _volume_cells,
    ),
    strategy=ObjectStrategy(
        namespaced=False,
        validate=_validate_volume,
        compare=_volume_update,
        default=_default_volume,
        prepare=_prepare_volume,
        generation=False,
    ),
)


# StorageClass


def _default_class(obj: StorageClass) -> None:
    obj.reclaim_policy = obj.reclaim_policy or "Delete"
    obj.volume_binding_mode = obj.volume_binding_mode or "Immediate"


def _validate_class(obj: StorageClass) -> Sequence[Cause]:
    causes = [] if obj.provisioner else [required("provisioner")]
    causes += one_of("reclaimPolicy", obj.reclaim_policy, ("Delete", "Retain"))
    return [*causes, *one_of("volumeBindingMode", obj.volume_binding_mode, ("Immediate", "WaitForFirstConsumer"))]


def _class_update(new: StorageClass, old: StorageClass) -> Sequence[Cause]:
    causes = []
    if new.parameters != old.parameters:
        causes.append(forbidden("parameters", "updates to parameters are forbidden."))
    if new.provisioner != old.provisioner:
        causes.append(forbidden("provisioner", "updates to provisioner are forbidden."))
    if new.reclaim_policy != old.reclaim_policy:
        causes.append(forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    if new.volume_binding_mode != old.volume_binding_mode:
        causes.append(invalid("volumeBindingMode", new.volume_binding_mode, IMMUTABLE))
    return causes


def _class_cells(obj: StorageClass, now: datetime) -> Sequence[Cell]:
    default = obj.metadata.annotations.get(DEFAULT_CLASS) == "true"
    return (
        f"{obj.metadata.name} (default)" if default else obj.metadata.name,
        obj.provisioner,
        obj.reclaim_policy or NONE,
        obj.volume_binding_mode or NONE,
        bool(obj.allow_volume_expansion),
        age(obj.metadata.creation_timestamp, now),
    )


STORAGE_CLASSES: ResourceType[StorageClass] = ResourceType(
    model=StorageClass,
    kind="StorageClass",
    plural="storageclasses",
    singular="storageclass",
    group=GROUP,
    namespaced=False,
    short_names=("sc",),
    table=Table(
        (
            NAME_COLUMN,
            Column("Provisioner"),
            Column("ReclaimPolicy"),
            Column("VolumeBindingMode"),
            Column("AllowVolumeExpansion", type="boolean"),
            AGE_COLUMN,
        ),
        _class_cells,
    ),
    strategy=ObjectStrategy(
        namespaced=False,
        validate=_validate_class,
        compare=_class_update,
        default=_default_class,
        generation=False,
    ),
)

KINDS = (CLAIMS, STORAGE_CLASSES, VOLUMES)
