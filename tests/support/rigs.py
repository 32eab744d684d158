"""One contract suite, two hypervisors: a rig opens runtimes and does to its VMs what no runtime would do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from tests.support import libvirtd
from tests.support.vms import INSTALLATION
from vmruntime.api import GuestUnavailable, Runtime, VmSpec, VmStatus
from vmruntime.connect import open_runtime
from vmruntime.fake import FakeHost, FakeRuntime
from vmruntime.fake_host import Faults


class Rig(Protocol):
    boot_seconds: float

    def open(self, installation: str = INSTALLATION) -> Runtime: ...

    async def kill_vmm(self, spec: VmSpec) -> None: ...

    async def reboot_guest(self, spec: VmSpec) -> None: ...

    async def use_memory(self, spec: VmSpec, mib: int) -> None: ...

    async def free_memory(self, spec: VmSpec) -> None: ...

    async def stop_onlining(self, spec: VmSpec) -> None: ...

    async def service_down(self) -> None: ...

    async def service_up(self) -> None: ...

    async def close(self) -> None: ...


class FakeRig:
    boot_seconds = 0.3

    def __init__(self) -> None:
        self.host = FakeHost(boot_delay=self.boot_seconds)

    def open(self, installation: str = INSTALLATION) -> Runtime:
        return FakeRuntime(self.host, installation)

    async def kill_vmm(self, spec: VmSpec) -> None:
        self.host.crash(spec.uuid)

    async def reboot_guest(self, spec: VmSpec) -> None:
        self.host.reboot_guest(spec.uuid)

    async def use_memory(self, spec: VmSpec, mib: int) -> None:
        self.host.use_memory(spec.uuid, self.host.vms[spec.uuid].used_mib + mib)

    async def free_memory(self, spec: VmSpec) -> None:
        self.host.use_memory(spec.uuid, 50)

    async def stop_onlining(self, spec: VmSpec) -> None:
        self.host.vm_faults[spec.uuid] = Faults(guest_ignores=True)

    async def service_down(self) -> None:
        self.host.set_down(True)

    async def service_up(self) -> None:
        self.host.set_down(False)

    async def close(self) -> None:
        return None


class LibvirtRig:
    boot_seconds = 5.0

    def __init__(self) -> None:
        self._opened: list[Runtime] = []

    def open(self, installation: str = INSTALLATION) -> Runtime:
        runtime = open_runtime("libvirt", installation=installation)
        self._opened.append(runtime)
        return runtime

    async def _sh(self, spec: VmSpec, script: str) -> None:
        result = await self.open(spec.owner.installation).exec(spec.uuid, ["sh", "-c", script])
        assert result.code == 0, result

    async def kill_vmm(self, spec: VmSpec) -> None:
        pid = libvirtd.qemu_pid(spec.name)
        os.kill(pid, signal.SIGKILL)
        # In a container whose PID 1 collects its dead only now and then, libvirt waits for it, and so must the clock.
        await asyncio.to_thread(libvirtd.wait_for, lambda: not Path(f"/proc/{pid}").exists(), "the end of QEMU")

    async def reboot_guest(self, spec: VmSpec) -> None:
        # The agent may be gone before it can tell how its own end went.
        with contextlib.suppress(GuestUnavailable):
            await self._sh(spec, "reboot")

    async def use_memory(self, spec: VmSpec, mib: int) -> None:
        await self._sh(spec, f"mount -t tmpfs -o size=1g hog /mnt && dd if=/dev/zero of=/mnt/hog bs=1M count={mib}")

    async def free_memory(self, spec: VmSpec) -> None:
        await self._sh(spec, "umount /mnt")

    async def stop_onlining(self, spec: VmSpec) -> None:
        await self._sh(spec, "echo offline >/sys/devices/system/memory/auto_online_blocks")

    async def service_down(self) -> None:
        await asyncio.to_thread(libvirtd.stop_libvirtd)

    async def service_up(self) -> None:
        await asyncio.to_thread(libvirtd.start, "libvirtd")

    async def close(self) -> None:
        for runtime in self._opened:
            await runtime.close()


def remove_leftovers(prefix: str) -> None:
    """Real VMs of tests that were cut off outlive them: remove those whose names begin so.

    In a thread, because a fixture may be asked for from within a running loop.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(_remove(prefix))).result()


async def _remove(prefix: str) -> None:
    runtime = open_runtime("libvirt", installation=INSTALLATION)
    for status in await runtime.list():
        if status.name.startswith(prefix):
            await runtime.delete(status.uuid)
    await runtime.close()


async def until(runtime: Runtime, uuid: str, condition: object, seconds: float = 60.0) -> VmStatus:
    """Inspect until `condition(status)` holds."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while True:
            status = await runtime.inspect(uuid)
            if condition(status):
                return status
            await asyncio.sleep(0.05)


async def booted(runtime: Runtime, spec: VmSpec) -> VmStatus:
    """Create and start if needed, and wait until the guest itself answers."""
    await runtime.create(spec)
    await runtime.start(spec.uuid)
    return await until(runtime, spec.uuid, lambda status: status.boot_id is not None)
