"""What a node says it uses."""

from __future__ import annotations

import asyncio

import orjson

from edgecore.usage import HostUse, Sample, UsageMeter, Used, document
from kubeapi.clock import SystemClock
from kubeapi.core import Pod
from tests.support.vms import INSTALLATION
from vmruntime.fake import FakeHost, FakeRuntime


def sample(at: float, host: float, **containers: float) -> Sample:
    used = {("u1", name): Used(cpu, 1000) for name, cpu in containers.items()}
    return Sample(at, HostUse(host, 5000), used)


def test_rates_are_over_the_window_and_a_restarted_vm_counts_from_its_start() -> None:
    said = document(
        sample(10, 100, steady=5, restarted=90, gone=7), sample(14, 102, steady=6, restarted=2, new=1), "now"
    )
    assert said == {
        "timestamp": "now",
        "window": 4.0,
        "host": {"cpu": 500_000_000, "memory": 5000},
        "containers": [
            {"uid": "u1", "name": "steady", "cpu": 250_000_000, "memory": 1000},
            {"uid": "u1", "name": "restarted", "cpu": 500_000_000, "memory": 1000},
        ],
    }


async def test_two_who_ask_at_once_do_not_spoil_each_others_window() -> None:
    reads = iter(range(100))
    meter = UsageMeter(FakeRuntime(FakeHost(), INSTALLATION), SystemClock(), lambda: HostUse(next(reads), 1))
    pod = Pod.model_validate({"metadata": {"name": "p", "uid": "u1"}, "spec": {"containers": [{"name": "vm"}]}})
    for answer in await asyncio.gather(meter.report({"u1": pod}), meter.report({"u1": pod})):
        said = orjson.loads(answer)
        assert said["window"] >= 1.0
        assert said["host"]["cpu"] == round(1e9 / said["window"])
        assert said["containers"] == [], "its VM does not exist yet: it is left out"
