"""Small VMs for tests: one function that fills a VmSpec with sensible values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from vmruntime.api import Owner, VmSpec

INSTALLATION = "copepod-test"


def make_spec(name: str, *, installation: str = INSTALLATION, **changes: Any) -> VmSpec:
    """96 MiB that can grow to 512, one of two vCPUs online, no limit. Same name, same UUID."""
    owner = Owner(installation, f"uid-{name}", "default", name, "main")
    spec = VmSpec(
        uuid=str(uuid5(NAMESPACE_OID, f"{installation}/{name}")),
        name=name,
        owner=owner,
        image="copepod/micro:latest",
        vcpus_max=2,
        vcpus_online=1,
        cpu_limit_millicores=None,
        cpu_weight_millicores=100,
        memory_base_mib=96,
        memory_max_mib=512,
        memory_mib=96,
    )
    return replace(spec, **changes)
