"""The daemons' settings in a lab, as tables for their TOML files. Paths are absolute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgelab.broker import HUB_USER
from edgelab.state import CLUSTER, LabFacts
from edgelab.toml import Table

LEASE_TIMEOUT = 15.0
"""Seconds until the hub calls a silent node's readiness Unknown. Shorter than in production: people are watching."""


def hub_settings(directory: Path, facts: LabFacts, password_file: Path) -> Table:
    return {
        "state_dir": str(directory),
        "cluster": CLUSTER,
        "api": {"address": "127.0.0.1", "port": facts.api_port},
        "broker": {
            "host": "127.0.0.1",
            "port": facts.broker_port,
            "username": HUB_USER,
            "password_file": str(password_file),
        },
        "nodes": {"lease_timeout": LEASE_TIMEOUT},
    }


def node_settings(directory: Path, name: str, facts: LabFacts, port: int, password_file: Path) -> Table:
    """`port`: where this node reaches the broker (a proxy's, where its link runs through one)."""
    return {
        "state_dir": str(directory),
        "node": {"name": name},
        "cluster": CLUSTER,
        "broker": {
            "host": "127.0.0.1",
            "port": port,
            "username": name,
            "password_file": str(password_file),
            # Its own address, so that its packets can be told apart and dropped.
            "bind_address": facts.address(name),
        },
    }


def fleet_settings(directory: Path, node_files: Sequence[Path]) -> Table:
    return {"state_dir": str(directory), "nodes": [str(path) for path in node_files]}
