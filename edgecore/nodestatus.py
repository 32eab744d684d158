"""The Node object as this node reports it: pure."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

from edgecore.admission import Amounts
from kubeapi import quantity
from kubeapi.core import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from kubeapi.meta import ObjectMeta
from vmruntime.api import Acceleration, HostInfo

NO_ACCELERATION = "NoAcceleration"
"""KVM does not run guests here, and the settings forbid emulation."""
VM_OVERHEAD = "copepod.dev/vm-overhead-memory"
"""Annotation: what one VM costs this host beyond its guest memory. The hub's scheduler counts it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while the agent runs."""

    name: str
    labels: tuple[tuple[str, str], ...]
    address: str | None
    capacity: Amounts
    allocatable: Amounts
    agent_version: str
    boot_id: str
    machine_id: str
    os_image: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why pods cannot be run now; None in its place when they can."""

    reason: str
    message: str


def node_object(
    facts: Facts,
    host: HostInfo | None,
    trouble: Trouble | None,
    unclaimed: Iterable[str],
    previous: Node | None,
    now: str,
) -> Node:
    """`unclaimed`: pods that the hub does not know (S-86). `previous` keeps transition times."""
    unclaimed = sorted(unclaimed)
    conditions = [
        _ready(trouble),
        NodeCondition(
            type="UnclaimedPods",
            status="True" if unclaimed else "False",
            reason="HubDoesNotKnowThem" if unclaimed else "AllClaimed",
            message=f"running on, unknown to the hub: {', '.join(unclaimed)}"
            if unclaimed
            else "every pod is the hub's",
        ),
    ]
    if host is not None:
        conditions.append(_acceleration(host.acceleration, trouble))
    for condition in conditions:
        _keep_transition(condition, previous, now)
        condition.last_heartbeat_time = now
    annotations = {VM_OVERHEAD: f"{host.vm_overhead_mib}Mi"} if host else {}
    return Node(
        metadata=ObjectMeta(name=facts.name, labels=_labels(facts), annotations=annotations),
        status=NodeStatus(
            capacity=_amounts(facts.capacity),
            allocatable=_amounts(facts.allocatable),
            conditions=conditions,
            addresses=_addresses(facts),
            node_info=_info(facts, host),
        ),
    )


def same_report(one: Node, other: Node) -> bool:
    """Whether two reports say the same but for the time they were made."""
    return _timeless(one) == _timeless(other)


def _timeless(node: Node) -> Node:
    copy = node.copied()
    for condition in copy.status.conditions:
        condition.last_heartbeat_time = None
    return copy


def _ready(trouble: Trouble | None) -> NodeCondition:
    if trouble is not None:
        return NodeCondition(type="Ready", status="False", reason=trouble.reason, message=trouble.message)
    return NodeCondition(type="Ready", status="True", reason="KubeletReady", message="edgecore is running VMs")


def _acceleration(found: Acceleration, trouble: Trouble | None) -> NodeCondition:
    kind = "HardwareAcceleration"
    if found.kind == "kvm":
        return NodeCondition(type=kind, status="True", reason="GuestsRunUnderKVM", message=found.reason)
    if trouble is not None and trouble.reason == NO_ACCELERATION:
        return NodeCondition(type=kind, status="False", reason=NO_ACCELERATION, message=found.reason)
    message = f"guests are emulated: {found.reason}"
    return NodeCondition(type=kind, status="False", reason="GuestsAreEmulated", message=message)


def _keep_transition(condition: NodeCondition, previous: Node | None, now: str) -> None:
    before = previous.status.condition(condition.type) if previous else None
    same = before is not None and before.status == condition.status and before.last_transition_time
    condition.last_transition_time = before.last_transition_time if before is not None and same else now


def _labels(facts: Facts) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
        **dict(facts.labels),
    }


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {
        "cpu": quantity.format_cpu(amounts.cpu),
        "memory": quantity.format_memory(amounts.memory),
        "pods": str(amounts.pods),
    }


def _addresses(facts: Facts) -> list[NodeAddress]:
    found = [NodeAddress(type="InternalIP", address=facts.address)] if facts.address else []
    return [*found, NodeAddress(type="Hostname", address=facts.name)]


def _info(facts: Facts, host: HostInfo | None) -> NodeSystemInfo:
    return NodeSystemInfo(
        machine_id=facts.machine_id,
        boot_id=facts.boot_id,
        kernel_version=platform.release(),
        os_image=facts.os_image,
        container_runtime_version=host.version if host else "unknown",
        kubelet_version=facts.agent_version,
        operating_system="linux",
        architecture=_labels(facts)["kubernetes.io/arch"],
    )
