"""The daemons' settings in a lab, as tables for their TOML files. Paths are absolute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgelab.broker import HUB_USER
from edgelab.state import CLUSTER, LabFacts
from edgelab.toml import Table, Value

LEASE_INTERVAL = 3.0
LEASES_MISSED = 5
"""Leases that may be missing before the hub calls a silent node's readiness Unknown."""
LEASE_TIMEOUT = LEASES_MISSED * LEASE_INTERVAL
"""Seconds. Shorter than in production: people are watching."""


def hub_settings(directory: Path, facts: LabFacts, password_file: Path, broker_port: int, lease: float) -> Table:
    return {
        "state_dir": str(directory),
        "cluster": CLUSTER,
        "api": {"address": "127.0.0.1", "port": facts.api_port},
        "broker": {
            "host": "127.0.0.1",
            "port": broker_port,
            "username": HUB_USER,
            "password_file": str(password_file),
        },
        "nodes": {"lease_timeout": LEASES_MISSED * lease},
    }


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What is particular to one node of a lab."""

    name: str
    directory: Path
    password_file: Path
    broker_port: int
    """Where this node reaches the broker: a proxy's port, where its link runs through one."""
    lease: float
    """Seconds between two leases."""
    fake_vms: Path
    """Where a pretended host keeps its VMs: not on the node's own disk, which may be full."""
    memory_mib: int | None
    """Its share of this machine; None: all of it."""


def node_settings(plan: NodePlan, facts: LabFacts) -> Table:
    node: dict[str, Value] = {"name": plan.name}
    if plan.memory_mib is not None:
        node["memory"] = f"{plan.memory_mib}Mi"
    return {
        "state_dir": str(plan.directory),
        "cluster": CLUSTER,
        "node": node,
        "broker": {
            "host": "127.0.0.1",
            "port": plan.broker_port,
            "username": plan.name,
            "password_file": str(plan.password_file),
            # Its own address, so that its packets can be told apart and dropped.
            "bind_address": facts.address(plan.name),
        },
        "runtime": {"driver": "fake", "fake": {"file": str(plan.fake_vms)}}
        if facts.fake_vms
        else {"driver": "libvirt"},
        "lease": {"interval": plan.lease},
    }


def memory_share(total_mib: int, nodes: int) -> int | None:
    """MiB for each of several real nodes on one machine: memory that two count on is memory that one will miss.

    CPU is not divided: it is shared by weight, and a small machine would have none to divide.
    """
    return None if nodes == 1 else total_mib // nodes


def fleet_settings(directory: Path, node_files: Sequence[Path]) -> Table:
    return {"state_dir": str(directory), "nodes": [str(path) for path in node_files]}
