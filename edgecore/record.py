"""What a node remembers of a pod beyond its spec: admissions, starts, exits, resizes. Stored as kind `podrecords`.

A record is written before the act it describes (an attempt is counted, then the VM is started), so that a crash
between the two is seen after a restart and finished, not repeated.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from kubeapi.core import ContainerStateTerminated, PodStatus, ResourceRequirements
from kubeapi.meta import KubeModel

RECORDS = "podrecords"
"""Their kind in the node's store; the name is the pod's UID."""


class _Frozen(KubeModel):
    model_config = ConfigDict(frozen=True)


class Trouble(_Frozen):
    """Why a container is not running though it should: a `waiting` state's reason and message."""

    reason: str
    message: str
    failures: int = 1
    """Failed tries in a row, from which the back-off follows."""


class ContainerRecord(_Frozen):
    attempt: int = -1
    """Number of the newest start, from 0; -1 before the first. It is the restart count once there was one."""
    image: str = ""
    """The image that the newest attempt was started from, as the spec named it."""
    image_id: str = ""
    """Digest of the image that the newest attempt runs."""
    started_at: str | None = None
    """When the newest attempt's VM ran."""
    exit: ContainerStateTerminated | None = None
    """How the newest attempt ended; None while it has not."""
    last_exit: ContainerStateTerminated | None = None
    """How the attempt before it ended."""
    crashes: int = 0
    """Exits in a row without a long run between them: the restart back-off."""
    restart: bool = False
    """An admitted resize wants a restart (resizePolicy RestartContainer)."""
    trouble: Trouble | None = None
    actuated: ResourceRequirements | None = None
    """The newest allocation that was seen in force."""


class Pending(_Frozen):
    """A wish that is not admitted: condition PodResizePending."""

    reason: str
    """`Deferred` or `Infeasible`."""
    message: str
    generation: int
    since: str


class Progress(_Frozen):
    """An admitted wish on its way: condition PodResizeInProgress."""

    generation: int
    since: str
    error: str | None = None


class PodRecord(_Frozen):
    uid: str
    namespace: str
    name: str
    grace: int = 30
    """Seconds; kept here because a pod's spec may be gone when its VMs are stopped."""
    admitted: bool = False
    rejected: str | None = None
    """The reason for a refused admission, e.g. `OutOfcpu`; the pod has Failed."""
    rejected_message: str | None = None
    start_time: str | None = None
    allocated: dict[str, ResourceRequirements] = Field(default_factory=dict)
    """Container name → the resources that the node has admitted."""
    allocated_generation: int = 0
    pending: Pending | None = None
    progress: Progress | None = None
    containers: dict[str, ContainerRecord] = Field(default_factory=dict)
    overhead_cpu: int = 0
    """Millicores."""
    overhead_memory: int = 0
    """Bytes: what the pod's VMs cost the host beyond their own memory."""
    sequence: int = 0
    """Rises with each status sent: the hub keeps the highest."""
    status: PodStatus | None = None
    """The newest status sent."""
    torn_down: bool = False
    """Its VMs are gone for good, and the hub has been told."""

    def container(self, name: str) -> ContainerRecord:
        return self.containers.get(name) or ContainerRecord()

    def with_container(self, name: str, container: ContainerRecord) -> PodRecord:
        return self.model_copy(update={"containers": self.containers | {name: container}})
