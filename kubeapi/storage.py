"""Volumes and their classes: stored so that charts install; nothing provisions or binds them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from kubeapi.core import ObjectReference, ResourceList
from kubeapi.labelselector import LabelSelector
from kubeapi.meta import Condition, KubeModel, KubeObject, Timestamp

GROUP = "storage.k8s.io"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class VolumeResources(KubeModel):
    limits: ResourceList = Field(default_factory=dict)
    requests: ResourceList = Field(default_factory=dict)


class PersistentVolumeClaimSpec(KubeModel):
    access_modes: list[str] = Field(default_factory=list)
    selector: LabelSelector | None = None
    resources: VolumeResources = Field(default_factory=VolumeResources)
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: dict[str, Any] | None = None
    data_source_ref: dict[str, Any] | None = None
    volume_attributes_class_name: str | None = None


class ClaimCondition(Condition):
    last_probe_time: Timestamp | None = None


class PersistentVolumeClaimStatus(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset(
        {"allocatedResourceStatuses", "allocatedResources", "modifyVolumeStatus"}
    )
    phase: str | None = None
    access_modes: list[str] = Field(default_factory=list)
    capacity: ResourceList = Field(default_factory=dict)
    conditions: list[ClaimCondition] = Field(default_factory=list)
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(KubeObject):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = Field(default_factory=PersistentVolumeClaimStatus)


class PersistentVolumeSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset(
        {
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
            "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk",
            "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
        }
    )  # fmt: skip
    capacity: ResourceList = Field(default_factory=dict)
    access_modes: list[str] = Field(default_factory=list)
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str | None = None
    storage_class_name: str | None = None
    mount_options: list[str] = Field(default_factory=list)
    volume_mode: str | None = None
    node_affinity: dict[str, Any] | None = None
    volume_attributes_class_name: str | None = None

    @property
    def sources(self) -> set[str]:
        """The kinds of volume that are named: exactly one should be."""
        return set(self.model_extra or {}) & self.also


class PersistentVolumeStatus(KubeModel):
    phase: str | None = None
    message: str | None = None
    reason: str | None = None
    last_phase_transition_time: Timestamp | None = None


class PersistentVolume(KubeObject):
    api_version: str = "v1"
    kind: str = "PersistentVolume"
    spec: PersistentVolumeSpec = Field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = Field(default_factory=PersistentVolumeStatus)


class StorageClass(KubeObject):
    api_version: str = f"{GROUP}/v1"
    kind: str = "StorageClass"
    provisioner: str = ""
    parameters: dict[str, str] = Field(default_factory=dict)
    reclaim_policy: str | None = None
    mount_options: list[str] = Field(default_factory=list)
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[dict[str, Any]] = Field(default_factory=list)
