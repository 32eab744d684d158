"""The agent is killed before and after each of its acts, one life for each: commits to its store, calls of the runtime.

One pod is made, resized and deleted. Whatever the moment, after the restart nothing acknowledged is lost and nothing is
done twice, counted by the effects on the host and not by messages (S-32).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgecore import agent
from kubeapi.core import Event, Pod
from kubeapi.resources import REGISTRY
from metastore.api import Committed, Op
from metastore.sql import SqlStore
from tests.simulation import system as simulated
from tests.simulation.system import Machine, System
from tests.support.virtualtime import run_virtual
from vmruntime.api import VmSpec
from vmruntime.fake import FakeHost, FakeRuntime

SMALL, LARGE = {"cpu": "250m", "memory": "96Mi"}, {"cpu": "700m", "memory": "224Mi"}
SAMPLE = 9
"""Of so many points one, in the quick suite."""


@dataclass
class Points:
    """Where the agent may die: it stops for good at number `fatal`."""

    fatal: int = 0
    passed: list[str] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def at(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.fatal:
            self.reached.set()
            await asyncio.Event().wait()


class MortalRuntime(FakeRuntime):
    """Counts what really changed on the host."""

    def __init__(self, host: FakeHost, installation: str, points: Points, effects: Counter[str]) -> None:
        super().__init__(host, installation)
        self._points, self._effects = points, effects

    async def _act(self, name: str, uuid: str, act: Callable[[], Awaitable[None]]) -> None:
        await self._points.at(f"before {name}")
        before = self._seen(uuid)
        await act()
        if self._seen(uuid) != before:
            self._effects[name] += 1
        await self._points.at(f"after {name}")

    def _seen(self, uuid: str) -> object:
        vm = self._host.vms.get(uuid)
        return vm and (vm.state, vm.boots, vm.cpu_limit_millicores, vm.vcpus_online, vm.actual_mib)

    async def create(self, spec: VmSpec) -> None:
        await self._act("create", spec.uuid, lambda: super(MortalRuntime, self).create(spec))

    async def start(self, uuid: str) -> None:
        await self._act("start", uuid, lambda: super(MortalRuntime, self).start(uuid))

    async def stop(self, uuid: str, grace: float) -> None:
        await self._act("stop", uuid, lambda: super(MortalRuntime, self).stop(uuid, grace))

    async def delete(self, uuid: str) -> None:
        await self._act("delete", uuid, lambda: super(MortalRuntime, self).delete(uuid))

    async def set_cpu(self, uuid: str, limit_millicores: int | None, vcpus_online: int) -> None:
        await self._act(
            "set_cpu", uuid, lambda: super(MortalRuntime, self).set_cpu(uuid, limit_millicores, vcpus_online)
        )

    async def set_memory(self, uuid: str, size_mib: int, deadline: float = 30.0) -> None:
        await self._act("set_memory", uuid, lambda: super(MortalRuntime, self).set_memory(uuid, size_mib, deadline))


def _mortal(monkeypatch: pytest.MonkeyPatch, points: Points, effects: Counter[str]) -> None:
    """Every agent from now on."""
    open_store = agent.open_store

    async def opened(*args: Any, **options: Any) -> SqlStore:
        store = await open_store(*args, **options)
        commit = store.commit

        async def mortal(*ops: Op) -> Committed:
            await points.at("before a commit")
            done = await commit(*ops)
            await points.at("after a commit")
            return done

        monkeypatch.setattr(store, "commit", mortal)
        return store

    monkeypatch.setattr(agent, "open_store", opened)
    monkeypatch.setattr(simulated, "FakeRuntime", lambda host, name: MortalRuntime(host, name, points, effects))


async def _life(directory: Path, points: Points, effects: Counter[str]) -> None:
    system = System(1, directory, nodes=1)
    system.broker.faults = type(system.broker.faults)()
    (machine,) = system.machines
    try:
        await system.start_hub()
        system.start_agent(machine)
        reaper = asyncio.create_task(_reaper(system, machine, points))
        await _work(system, machine)
        reaper.cancel()
        await asyncio.gather(reaper, return_exceptions=True)
        done = {"create": 1, "start": 1, "set_cpu": 1, "set_memory": 1, "stop": 1, "delete": 1}
        assert effects == done, f"killed {_where(points)}"
        assert system.hub is not None
        told = Counter(event.reason for event in (await system.hub.objects.list(Event)).items)
        assert told["Started"] <= 1, f"told twice, killed {_where(points)}"
    finally:
        await system.close()


async def _reaper(system: System, machine: Machine, points: Points) -> None:
    await points.reached.wait()
    await system.kill_agent(machine)
    await asyncio.sleep(3)
    system.start_agent(machine)


async def _work(system: System, machine: Machine) -> None:
    assert system.hub is not None
    objects = system.hub.objects
    container = {"name": "vm", "image": "copepod/micro:latest", "resources": {"limits": SMALL, "requests": SMALL}}
    made = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}}
    await objects.create(Pod.from_dict(made))
    await _settled(system)

    def wish(pod: Pod) -> Pod:
        resources = pod.spec.containers[0].resources
        assert resources is not None
        resources.limits = resources.requests = dict(LARGE)
        return pod

    await objects.change(REGISTRY.of(Pod), "default", "p", wish, "resize")
    await _settled(system)
    assert [vm.boots for vm in machine.host.vms.values()] == [1]
    await objects.delete(Pod, "default", "p")
    await _settled(system)
    assert not (await objects.list(Pod)).items
    assert not machine.host.vms


async def _settled(system: System) -> None:
    deadline = asyncio.get_running_loop().time() + 900
    while (complaint := await system.complaint()) is not None:
        assert asyncio.get_running_loop().time() < deadline, complaint
        await asyncio.sleep(1)
    await asyncio.sleep(5)  # what is said is on its way
    assert await system.complaint() is None


def _where(points: Points) -> str:
    return f"{points.passed[points.fatal - 1]} (point {points.fatal})" if points.fatal else "never"


def _all_points(directory: Path) -> list[str]:
    """Those of a life that nothing disturbs."""
    points = Points()
    with pytest.MonkeyPatch.context() as patch:
        effects = Counter[str]()
        _mortal(patch, points, effects)
        run_virtual(_life(directory, points, effects))
    return points.passed


def _each(directory: Path, numbers: range) -> None:
    for number in numbers:
        points, effects = Points(number), Counter[str]()
        with pytest.MonkeyPatch.context() as patch:
            _mortal(patch, points, effects)
            run_virtual(_life(directory / str(number), points, effects))
        assert points.reached.is_set(), f"point {number} is never reached"


def test_s32_a_kill_at_some_points_loses_and_doubles_nothing(tmp_path: Path) -> None:
    points = _all_points(tmp_path / "all")
    assert {"before start", "after start", "before set_memory", "after delete", "before a commit"} <= set(points)
    _each(tmp_path, range(SAMPLE // 2, len(points), SAMPLE))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_s32_a_kill_at_any_point_loses_and_doubles_nothing(tmp_path: Path) -> None:
    _each(tmp_path, range(1, len(_all_points(tmp_path / "all")) + 1))
