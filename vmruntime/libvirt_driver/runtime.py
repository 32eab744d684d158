"""`vmruntime.api.Runtime` over libvirt: composes connection, lifecycle, resize, agent and console."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import libvirt

from vmruntime import checks
from vmruntime.api import (
    Acceleration,
    EventType,
    ExecResult,
    GuestUnavailable,
    HostInfo,
    Image,
    InvalidSpec,
    VmError,
    VmEvent,
    VmNotFound,
    VmSpec,
    VmStatus,
    VmUsage,
)
from vmruntime.domain import HostFacts
from vmruntime.images import ImageStore
from vmruntime.libvirt_driver import agent, console, lifecycle
from vmruntime.libvirt_driver.attach import Consoles
from vmruntime.libvirt_driver.connection import Connection
from vmruntime.libvirt_driver.process import Spawner
from vmruntime.libvirt_driver.resize import Resizer, running
from vmruntime.libvirt_driver.view import Seen, find, look, status
from vmruntime.probe import probe
from vmruntime.process import GuestProcess, Terminal
from vmruntime.sizing import OVERHEAD_MIB
from vmruntime.subscriptions import Publisher

log = logging.getLogger(__name__)

CONSOLE_DIRECTORY = Path("/var/log/copepod/console")
CONSOLE_SOCKETS = Path("/run/copepod/console")
INSPECT_SECONDS = 5.0
_CPU_TIME = 4
"""Where `virDomainGetInfo` has the nanoseconds of CPU."""
_STOP_POLL_SECONDS = 0.1
_ASK_AGAIN_SECONDS = 2.0


class LibvirtRuntime:
    """A `Runtime` for one installation on this host's libvirtd."""

    def __init__(
        self,
        installation: str,
        images: ImageStore,
        *,
        uri: str = "qemu:///system",
        allow_tcg: bool = True,
        network: str = "none",
        console_directory: Path = CONSOLE_DIRECTORY,
    ) -> None:
        self._installation, self._images, self._allow_tcg, self._network = installation, images, allow_tcg, network
        self._console_directory = console_directory
        self._publisher = Publisher()
        self._connection = Connection(uri, self._on_event)
        self._resizer = Resizer(self._connection, installation)
        self._spawner = Spawner(self._connection, installation)
        self._consoles = Consoles(self._connection, installation, self._spawner.in_guest)
        self._probing = asyncio.Lock()
        self._host: HostInfo | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what there is --------------------------------------------------------------------------------------------

    async def host(self) -> HostInfo:
        async with self._probing:
            if self._host is None:
                version, cpus, memory_mib = await self._connection.call(_host_facts)
                acceleration = await self._connection.outside(probe)
                overhead = OVERHEAD_MIB[acceleration.kind]
                self._host = HostInfo("libvirt", version, acceleration, overhead, cpus, memory_mib)
            return self._host

    async def image(self, reference: str) -> Image:
        return (await self._connection.outside(self._images.resolve, reference)).image

    async def list(self) -> Sequence[VmStatus]:
        return await self._connection.call(self._list)

    def _list(self, conn: Any) -> Sequence[VmStatus]:
        found = []
        for domain in conn.listAllDomains(0):
            try:
                seen = look(domain, self._installation)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    continue
                raise
            if seen is not None:
                found.append(status(seen, self._log_of(domain.UUIDString())))
        return found

    async def inspect(self, uuid: str) -> VmStatus:
        seen = await self._find(uuid)
        shown = await self._connection.outside(status, seen, self._log_of(uuid))
        facts = await self._facts(seen)
        if facts is None:
            return shown
        return replace(shown, vcpus_online=facts.vcpus_online, guest_total_kib=facts.total_kib, boot_id=facts.boot_id)

    async def usage(self, uuid: str) -> VmUsage:
        def look(conn: Any) -> tuple[Seen, int]:
            seen = running(find(conn, uuid, self._installation))
            return seen, seen.domain.info()[_CPU_TIME]

        seen, nanoseconds = await self._connection.call(look)
        facts = await self._facts(seen)
        given_kib = (seen.record.memory_base_mib + seen.plugged_mib("current")) * 1024
        used_kib = facts.total_kib - facts.spare_kib if facts else given_kib
        return VmUsage(nanoseconds / 1e9, used_kib * 1024)

    async def _facts(self, seen: Seen) -> agent.GuestFacts | None:
        """None where the guest does not answer, or not in time."""
        if not (seen.running and seen.agent_connected):
            return None
        try:
            async with asyncio.timeout(INSPECT_SECONDS):
                return await self._connection.call(lambda conn: agent.facts(seen.domain))
        except (VmError, TimeoutError) as error:
            log.info("VM %s: its guest does not answer: %s", seen.name, error)
            return None

    # -- life and death -------------------------------------------------------------------------------------------

    async def create(self, spec: VmSpec) -> None:
        if spec.owner.installation != self._installation:
            raise InvalidSpec(
                f"VM {spec.name} belongs to installation {spec.owner.installation}, not {self._installation}"
            )
        bundle = await self._connection.outside(self._images.resolve, spec.image)
        checks.check_spec(spec, bundle.image)
        acceleration = (await self.host()).acceleration
        self._check_allowed(spec, acceleration)
        await self._connection.outside(self._console_directory.mkdir, parents=True, exist_ok=True)
        log_path = self._log_of(spec.uuid)
        facts = HostFacts(
            acceleration.kind,
            bundle.kernel.absolute(),
            bundle.initrd.absolute(),
            log_path,
            CONSOLE_SOCKETS / spec.uuid,
            self._network,
        )
        await self._connection.call(lifecycle.define, spec, facts)

    def _check_allowed(self, spec: VmSpec, acceleration: Acceleration) -> None:
        if acceleration.kind == "tcg" and not self._allow_tcg:
            raise InvalidSpec(
                f"VM {spec.name} cannot run here: {acceleration.reason}, and the configuration forbids emulation"
            )

    async def start(self, uuid: str) -> None:
        # Each time: what is below /run is gone after the host has rebooted.
        await self._connection.outside(partial(CONSOLE_SOCKETS.mkdir, mode=0o711, parents=True, exist_ok=True))
        await self._connection.call(lifecycle.start, uuid, self._installation, self._images)

    async def stop(self, uuid: str, grace: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        if not await self._step(lifecycle.begin_stop, uuid):
            return
        asking = self._spawn(self._ask_to_stop(uuid), f"stop-{uuid}")
        try:
            while loop.time() < end:
                if await self._step(lifecycle.is_off, uuid):
                    return
                await asyncio.sleep(min(_STOP_POLL_SECONDS, max(end - loop.time(), 0)))
        finally:
            asking.cancel()
        await self._step(lifecycle.destroy, uuid)

    async def _ask_to_stop(self, uuid: str) -> None:
        """The agent first, then the power button, again and again: a guest that still boots hears only a later one."""
        requests = [lifecycle.ask_agent_to_stop]
        while True:
            request = requests.pop() if requests else lifecycle.press_power_button
            try:
                await self._step(request, uuid)
            except VmError as error:
                log.info("VM %s: a request to stop was not taken: %s", uuid, error)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def delete(self, uuid: str) -> None:
        await self._connection.call(
            lifecycle.remove, uuid, self._installation, self._log_of(uuid), CONSOLE_SOCKETS / uuid
        )

    async def set_document(self, uuid: str, document: bytes) -> None:
        def write(conn: Any) -> None:
            seen = find(conn, uuid, self._installation)
            lifecycle.mark(seen, replace(seen.record, document=document))

        await self._connection.call(write)

    # -- resizing -------------------------------------------------------------------------------------------------

    async def set_cpu(self, uuid: str, limit_millicores: int | None, vcpus_online: int) -> None:
        await self._resizer.set_cpu(uuid, limit_millicores, vcpus_online)

    async def set_memory(self, uuid: str, size_mib: int, deadline: float = 30.0) -> None:
        await self._resizer.set_memory(uuid, size_mib, deadline)

    # -- seeing and touching the guest ----------------------------------------------------------------------------

    def events(self) -> AsyncIterator[VmEvent]:
        self._connection.listen()
        return self._publisher.subscribe()

    def _on_event(self, event: VmEvent) -> None:
        self._publisher.publish(event)
        if event.type is EventType.AGENT:
            self._spawn(self._restore_online(event.uuid), f"restore-online-{event.uuid}")

    async def _restore_online(self, uuid: str) -> None:
        try:
            await self._resizer.restore_online(uuid)
        except VmError as error:
            # Not ours, off again, or not answering: the next look at it finds the difference.
            log.debug("VM %s: online CPUs not restored: %s", uuid, error)

    async def console(self, uuid: str, *, tail: int | None = None, follow: bool = False) -> AsyncIterator[bytes]:
        async def is_running() -> bool:
            try:
                return (await self._find(uuid)).running
            except VmNotFound:
                return False

        await self._find(uuid)
        async for chunk in console.follow(self._log_of(uuid), tail=tail, follows=follow, is_running=is_running):
            yield chunk

    async def attach(self, uuid: str) -> GuestProcess:
        return await self._consoles.attach(uuid)

    async def exec(self, uuid: str, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0) -> ExecResult:
        def run(conn: Any) -> ExecResult:
            seen = running(find(conn, uuid, self._installation))
            if not seen.agent_connected:
                raise GuestUnavailable(f"the guest agent of VM {seen.name} is not connected; it may still be booting")
            patience = agent.patience(seen.cpu_limit_millicores)
            return agent.run(seen.domain, argv, stdin=stdin, timeout=timeout, answer_seconds=patience)

        return await self._connection.call(run)

    async def spawn(
        self, uuid: str, argv: Sequence[str], *, stdin: bool = False, terminal: Terminal | None = None
    ) -> GuestProcess:
        return await self._spawner.spawn(uuid, argv, stdin, terminal)

    async def close(self) -> None:
        self._publisher.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._consoles.close()
        await self._spawner.close()
        await self._connection.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _log_of(self, uuid: str) -> Path:
        return self._console_directory / f"{uuid}.log"

    async def _find(self, uuid: str) -> Seen:
        return await self._connection.call(find, uuid, self._installation)

    async def _step(self, step: Any, uuid: str) -> Any:
        return await self._connection.call(step, uuid, self._installation)

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _host_facts(conn: Any) -> tuple[str, int, int]:
    number = conn.getLibVersion()
    version = f"libvirt://{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
    # Not libvirt's own number for memory: it counts one NUMA node's, which is wrong where memory was plugged later.
    memory_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return version, conn.getInfo()[2], memory_mib
