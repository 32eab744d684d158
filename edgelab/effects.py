"""Counts what really happened to VMs, by looking at them: effects, not messages.

"Applied once" and "deleted once" are claims about the machine. A recorder looks at every VM of one installation many
times a second and notes each change of what was asked of it; it can miss a change that lasted less than a look, never
one that stayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from vmruntime.api import Runtime, RuntimeUnavailable, VmState, VmStatus

LOOK = 0.1
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What was asked of a VM: the part of its status that only a resize changes."""

    cpu_limit_millicores: int | None
    memory_requested_mib: int


@dataclass(frozen=True, slots=True)
class Effect:
    uuid: str
    what: str
    """`appeared`, `gone`, `started`, `stopped`, `resized`."""
    shape: Shape | None = None
    """With `resized`: what it is now."""


def effects_between(before: Sequence[VmStatus], after: Sequence[VmStatus]) -> list[Effect]:
    """What must have happened between two looks."""
    old, new = {vm.uuid: vm for vm in before}, {vm.uuid: vm for vm in after}
    found = [Effect(uuid, "gone") for uuid in old if uuid not in new]
    for uuid, vm in new.items():
        known = old.get(uuid)
        if known is None:
            found.append(Effect(uuid, "appeared"))
            continue
        if (known.state is VmState.RUNNING) != (vm.state is VmState.RUNNING):
            found.append(Effect(uuid, "started" if vm.state is VmState.RUNNING else "stopped"))
        elif shape_of(known) != shape_of(vm):
            found.append(Effect(uuid, "resized", shape_of(vm)))
    return found


def shape_of(vm: VmStatus) -> Shape:
    return Shape(vm.cpu_limit_millicores, vm.memory_requested_mib)


@dataclass
class Recorder:
    """Enter it to begin looking. What it has seen is kept when it is left."""

    runtime: Runtime
    effects: list[Effect] = field(default_factory=list)
    _before: Sequence[VmStatus] | None = None
    _task: asyncio.Task[None] | None = None

    def of(self, uuid: str, what: str) -> list[Effect]:
        return [effect for effect in self.effects if effect.uuid == uuid and effect.what == what]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="effects recorder")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        try:
            now = await self.runtime.list()
        except RuntimeUnavailable:
            return  # libvirtd restarts; nothing is known, so nothing is concluded
        if self._before is not None:
            self.effects += effects_between(self._before, now)
        self._before = now
