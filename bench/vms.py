"""Boot and resize of real guests, each beside the same done without Copepod."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Callable
from typing import Any

import libvirt
import libvirt_qemu

from bench.result import Result, median, spread
from edgelab.waiting import until_none
from vmruntime.api import Owner, Runtime, VmSpec
from vmruntime.connect import DEFAULT_URI, open_runtime
from vmruntime.domain import CPU_PERIOD_US
from vmruntime.images import ImageStore

INSTALLATION = "copepod-bench"
IMAGE = "copepod/micro:latest"
READY = b"copepod: ready"
BOOTS, RESIZES = 5, 9


def spec(name: str, number: int) -> VmSpec:
    return VmSpec(
        uuid=f"be7c4000-0000-4000-8000-{number:012d}",
        name=f"bench-{name}",
        owner=Owner(INSTALLATION, f"bench-{number}", "default", f"bench-{name}", "vm"),
        image=IMAGE,
        vcpus_max=2,
        vcpus_online=1,
        cpu_limit_millicores=None,
        cpu_weight_millicores=1000,
        memory_base_mib=96,
        memory_max_mib=512,
        memory_mib=96,
    )


@contextlib.asynccontextmanager
async def booted(runtime: Runtime, name: str, number: int) -> AsyncIterator[VmSpec]:
    wanted = spec(name, number)
    await runtime.delete(wanted.uuid)  # of a run that was interrupted
    await runtime.create(wanted)
    await runtime.start(wanted.uuid)
    try:
        await until_none(lambda: _not_ready(runtime, wanted), "guest ready", 60)
        yield wanted
    finally:
        await runtime.delete(wanted.uuid)


async def _not_ready(runtime: Runtime, wanted: VmSpec) -> str | None:
    return None if (await runtime.inspect(wanted.uuid)).agent_ready else "its agent does not answer"


async def boot() -> list[Result]:
    """Through the runtime until the guest says that it is ready, split into what libvirt takes to define and start it
    and what the guest takes from there; beside it bare QEMU with the same kernel."""
    started, ready, bare = [], [], []
    runtime = open_runtime("libvirt", installation=INSTALLATION)
    try:
        await runtime.host()
        for number in range(BOOTS):
            bare.append(await _bare_boot())
            define, whole = await _our_boot(runtime, number)
            started.append(define)
            ready.append(whole)
    finally:
        await runtime.close()
    guest = [whole - define for whole, define in zip(ready, started, strict=True)]
    peer, note = "bare QEMU, same kernel and size", f"bare {spread(bare, 2)}"
    return [
        Result("boot_to_ready", median(ready), "s", median(bare), peer, f"ours {spread(ready, 2)}; {note}"),
        Result("boot_define_and_start", median(started), "s", note=f"libvirt's own; {spread(started, 2)}"),
        Result("boot_guest", median(guest), "s", median(bare), peer, f"from started to ready: {spread(guest, 2)}"),
    ]


async def _our_boot(runtime: Runtime, number: int) -> tuple[float, float]:
    """Seconds until started, and until ready."""
    wanted = spec("boot", number)
    began = time.perf_counter()
    await runtime.create(wanted)
    await runtime.start(wanted.uuid)
    started = time.perf_counter() - began
    try:
        seen = b""
        async for chunk in runtime.console(wanted.uuid, follow=True):
            seen += chunk
            if READY in seen:
                return started, time.perf_counter() - began
    finally:
        await runtime.delete(wanted.uuid)
    raise RuntimeError("the guest's console ended before it was ready")


async def _bare_boot() -> float:
    bundle = ImageStore().resolve(IMAGE)
    command = shlex.split(
        "qemu-system-x86_64 -nodefaults -no-user-config -display none -machine q35,usb=off -accel tcg,tb-size=32 "
        "-cpu max -smp 2 -m 96 -serial stdio -device virtio-serial-pci"
    )
    line = "console=ttyS0 quiet panic=-1 no_timer_check swiotlb=noforce maxcpus=1"
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, "-kernel", str(bundle.kernel), "-initrd", str(bundle.initrd), "-append", line,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async for text in process.stdout:
            if READY in text:
                return time.perf_counter() - began
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    raise RuntimeError("bare QEMU ended before its guest was ready")


async def resize() -> list[Result]:
    """Each kind of resize through the runtime (verified in the guest), beside a bare libvirt script doing the same.

    The script asks and polls as hard as it can; it verifies the same facts.
    """
    runtime = open_runtime("libvirt", installation=INSTALLATION)
    connection = libvirt.open(DEFAULT_URI)
    try:
        async with booted(runtime, "resize", 100) as vm:
            script = _Script(connection.lookupByUUIDString(vm.uuid))

            async def ours_cpu(limit: int) -> None:
                await runtime.set_cpu(vm.uuid, limit, 1)

            async def ours_online(online: int) -> None:
                await runtime.set_cpu(vm.uuid, 2000, online)

            async def ours_memory(mib: int) -> None:
                await runtime.set_memory(vm.uuid, mib)

            await ours_memory(224)
            await ours_memory(96)
            return [
                await _pair("resize_cpu_quota", ours_cpu, script.quota, (300, 700)),
                await _pair("resize_cpu_online", ours_online, script.online, (2, 1)),
                *await _memory_pair(ours_memory, script.memory),
            ]
    finally:
        connection.close()
        await runtime.close()


async def _pair(name: str, ours: Callable[[int], Any], bare: Callable[[int], None], values: tuple[int, int]) -> Result:
    own, script = [], []
    for round_number in range(RESIZES):
        value, other = values if round_number % 2 == 0 else values[::-1]
        own.append(await _timed(ours, value))
        script.append(await _timed_in_thread(bare, other))
    note = f"ours {spread(own, 1)}; script {spread(script, 1)}"
    return Result(name, median(own), "ms", median(script), "bare libvirt script", note)


async def _memory_pair(ours: Callable[[int], Any], bare: Callable[[int], None]) -> list[Result]:
    times: dict[str, list[float]] = {"grow": [], "shrink": [], "grow script": [], "shrink script": []}
    for _ in range(RESIZES):
        times["grow"].append(await _timed(ours, 224))
        times["shrink"].append(await _timed(ours, 96))
        times["grow script"].append(await _timed_in_thread(bare, 224))
        times["shrink script"].append(await _timed_in_thread(bare, 96))
    return [
        Result(
            f"resize_memory_{way}",
            median(times[way]),
            "ms",
            median(times[f"{way} script"]),
            "bare libvirt script",
            f"ours {spread(times[way], 1)}; script {spread(times[f'{way} script'], 1)}",
        )
        for way in ("grow", "shrink")
    ]


async def _timed(act: Callable[[int], Any], value: int) -> float:
    began = time.perf_counter()
    await act(value)
    return (time.perf_counter() - began) * 1000


async def _timed_in_thread(act: Callable[[int], None], value: int) -> float:
    began = time.perf_counter()
    await asyncio.to_thread(act, value)
    return (time.perf_counter() - began) * 1000


class _Script:
    """What an administrator would write against libvirt, with the same proof at the end."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def quota(self, millicores: int) -> None:
        wanted = millicores * CPU_PERIOD_US // 1000
        self._domain.setSchedulerParametersFlags({"global_quota": wanted}, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        while self._domain.schedulerParameters()["global_quota"] != wanted:
            pass

    def online(self, count: int) -> None:
        self._domain.setVcpusFlags(count, libvirt.VIR_DOMAIN_VCPU_GUEST)
        while self._domain.vcpusFlags(libvirt.VIR_DOMAIN_VCPU_GUEST) != count:
            pass

    def memory(self, mib: int) -> None:
        device = ET.fromstring(self._domain.XMLDesc()).find("devices/memory")
        assert device is not None
        target = device.find("target")
        assert target is not None
        current = target.find("current")
        if current is not None:
            target.remove(current)
        requested = target.find("requested")
        assert requested is not None
        requested.text, requested.attrib["unit"] = str((mib - 96) * 1024), "KiB"
        self._domain.updateDeviceFlags(ET.tostring(device, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)
        while self._plugged_mib() != mib - 96:
            time.sleep(0.002)

    def _plugged_mib(self) -> int:
        """From the monitor: libvirt's own copy lags by up to a second (docs/vm-lore.md, 7)."""
        text = libvirt_qemu.qemuMonitorCommand(self._domain, '{"execute": "query-memory-devices"}', 0)
        return int(json.loads(text)["return"][0]["data"]["size"]) >> 20
