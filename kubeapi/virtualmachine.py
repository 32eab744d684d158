"""The types of Arktos' VM form: `spec.virtualMachine` and `status.virtualMachineStatus` of a pod.

Names and words on the wire are those of Arktos' core/v1 (CentaurusInfra/arktos), but for two: a resize policy is
written as Kubernetes came to write it (`restartPolicy: NotRequired`), and what the node has allocated stands in the
status, where only a node writes, not in the spec. How machine and container are kept in step:
`kubeapi.virtualmachineform`.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict, Field

from kubeapi.meta import KubeModel
from kubeapi.requirements import ContainerResizePolicy, ResourceRequirements, VolumeDevice, VolumeMount

RUNNING, PAUSED, SHUTDOWN, SUSPENDED = POWER_SPECS = ("Running", "Paused", "Shutdown", "Suspended")
"""What `powerSpec` may wish."""
STOP, TERMINATE = SHUTDOWN_BEHAVIORS = ("stop", "terminate")


class VirtualMachine(KubeModel):
    """The one virtual machine that a pod is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    also: ClassVar[frozenset[str]] = frozenset({"trustedImageCertificate"})
    name: str = ""
    """Also of the container that mirrors it. Cannot be updated."""
    image: str = ""
    image_pull_policy: str | None = None
    resources: ResourceRequirements | None = None
    """The size that is wished: limits are what the guest gets. A patch resizes, as the resize subresource does."""
    resize_policy: list[ContainerResizePolicy] = Field(default_factory=list)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    volume_devices: list[VolumeDevice] = Field(default_factory=list)
    key_pair_name: str | None = None
    """Of a Secret with the public key that may log in."""
    public_key: str | None = None
    """The same, in the place itself: one line of an authorized_keys file."""
    user_data: str | None = None
    """Base64, at most 65535 bytes of it decoded."""
    cloud_init_user_data_script: str | None = None
    """The same as text."""
    boot_volume: str | None = None
    """One of the pod's volumes; without it, the image."""
    shutdown_behavior: str | None = None
    """What becomes of the pod when its guest powers itself off: `stop` (the default) leaves that to the pod's
    restartPolicy, `terminate` ends it for good."""
    power_spec: str | None = None
    """`Running` (the default), `Paused`, `Shutdown` or `Suspended`: the power state that is wished."""


class VirtualMachineStatus(KubeModel):
    """What the node sees of it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str = ""
    virtual_machine_id: str | None = None
    image: str | None = None
    image_id: str | None = Field(default=None, alias="imageId")
    state: str | None = None
    """`active`, `paused`, `stopped` or `error`."""
    power_state: str | None = None
    """`nostate`, `running`, `paused`, `shutdown` or `crashed`."""
    ready: bool = False
    restart_count: int = 0
    resources: ResourceRequirements | None = None
    """What is in force."""
    allocated_resources: ResourceRequirements | None = None
    """What the node has admitted, limits as well as requests: a VM's size is its limits."""
