"""metrics.k8s.io: what nodes and pods use. Never stored: the server asks whoever knows (`kubeapi.server.computed`)."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from kubeapi.kinds.common import wide
from kubeapi.meta import KubeModel, KubeObject
from kubeapi.resource import NAME_COLUMN, Cell, Column, ResourceType, Table

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
_VERBS = ("get", "list")


class ContainerMetrics(KubeModel):
    name: str = ""
    usage: dict[str, str] = Field(default_factory=dict)
    """`cpu` in nanocores, `memory` in bytes: as quantities."""


class NodeMetrics(KubeObject):
    """What a node uses: all that runs on it, its VMs and everything else."""

    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "NodeMetrics"
    timestamp: str | None = None
    """When the window ended."""
    window: str | None = None
    """Over which the CPU use was averaged: a Go duration."""
    usage: dict[str, str] = Field(default_factory=dict)


class PodMetrics(KubeObject):
    """What a pod's VMs use: CPU of the whole VM process, memory inside the guest."""

    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "PodMetrics"
    timestamp: str | None = None
    window: str | None = None
    containers: list[ContainerMetrics] = Field(default_factory=list)


def _usage(usage: dict[str, str]) -> tuple[Cell, Cell]:
    return usage.get("cpu", ""), usage.get("memory", "")


def _node_cells(obj: NodeMetrics, _now: datetime) -> tuple[Cell, ...]:
    return (obj.metadata.name, *_usage(obj.usage), obj.window)


def _pod_cells(obj: PodMetrics, _now: datetime) -> tuple[Cell, ...]:
    cells = [_usage(container.usage) for container in obj.containers]
    cpu, memory = (",".join(str(cell[column]) for cell in cells) for column in (0, 1))
    return obj.metadata.name, cpu, memory, obj.window


_COLUMNS = (NAME_COLUMN, Column("CPU"), Column("Memory"), wide("Window"))

NODE_METRICS: ResourceType[NodeMetrics] = ResourceType(
    model=NodeMetrics,
    kind="NodeMetrics",
    plural="nodes",
    singular="",
    group=GROUP,
    version=VERSION,
    namespaced=False,
    verbs=_VERBS,
    table=Table(_COLUMNS, _node_cells),
)
POD_METRICS: ResourceType[PodMetrics] = ResourceType(
    model=PodMetrics,
    kind="PodMetrics",
    plural="pods",
    singular="",
    group=GROUP,
    version=VERSION,
    verbs=_VERBS,
    table=Table(_COLUMNS, _pod_cells),
)
KINDS = (NODE_METRICS, POD_METRICS)
