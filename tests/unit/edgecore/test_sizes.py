"""What a VM may be: bounds that would otherwise show as a guest that never comes up."""

from __future__ import annotations

import pytest

from edgecore.sizes import MAX_CPU, Policy, SizeError, maxima
from tests.support.node import pod

SMALL = Policy(host_cpus=2)


@pytest.mark.parametrize(
    ("cpu", "annotations"),
    [("17", {}), ("64", {}), ("1", {MAX_CPU: "17"})],
)
def test_more_vcpus_than_the_host_can_bring_up_are_refused(cpu: str, annotations: dict[str, str]) -> None:
    """Kubernetes takes any limit; a guest with 64 vCPUs on 2 CPUs only burns them."""
    wish = pod(cpu=cpu, annotations=annotations)
    with pytest.raises(SizeError, match=r"vCPUs do not boot on a host with 2 CPUs: at most 16 .* lower limits.cpu"):
        maxima(wish, wish.spec.containers[0].resources, SMALL)


def test_overcommitted_vcpus_are_taken_up_to_the_bound() -> None:
    wish = pod(cpu="16")
    assert maxima(wish, wish.spec.containers[0].resources, SMALL).vcpus == 16
