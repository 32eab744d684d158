"""A whole system on a virtual clock: real hub and real agents, network in memory, simulated hosts, seeded faults."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cloudhub import daemon as hub_daemon
from cloudhub.settings import Settings as HubSettings
from edgecore.agent import Agent, Parts
from edgecore.plan import powered_off
from edgecore.settings import Settings as NodeSettings
from edgecore.spec import vm_uuid
from edgelink.memory import Faults, MemoryBroker, MemoryTransport
from edgelink.pacing import Timing
from kubeapi import quantity
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.resources import REGISTRY
from vmruntime.api import VmState
from vmruntime.fake import FakeHost, FakeRuntime
from vmruntime.fake_host import FakeVm

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CPUS, MEMORIES = ("100m", "250m", "700m", "1", "2"), ("96Mi", "128Mi", "224Mi", "300Mi", "512Mi")


class LoopClock:
    """Wall-clock time that follows the simulated loop, and can be set wrong."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=asyncio.get_running_loop().time()) + self.offset


@dataclass
class Machine:
    """A box: its host outlives its agent."""

    name: str
    host: FakeHost
    directory: Path
    clock: LoopClock
    agent: asyncio.Task[None] | None = None


@dataclass
class System:
    seed: int
    directory: Path
    nodes: int = 2
    chance: random.Random = field(init=False)
    broker: MemoryBroker = field(init=False)
    machines: list[Machine] = field(init=False)
    hub: hub_daemon.Hub | None = None
    log: list[str] = field(default_factory=list)
    """What was done, for the replay line of a failing seed."""
    ended: Counter[str] = field(default_factory=Counter)
    """VM UUID → how often something from outside ended or restarted it."""
    _hub_task: asyncio.Task[None] | None = None
    _hub_up: asyncio.Event = field(default_factory=asyncio.Event)
    _names: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.broker = MemoryBroker(random.Random(self.seed + 1), Faults(drop=0.04, double=0.04, delay=0.3))
        self.machines = [
            Machine(f"n{i}", FakeHost(cpus=8, memory_mib=8192, boot_delay=1.0), self.directory / f"n{i}", LoopClock())
            for i in range(self.nodes)
        ]

    # Parts: start and kill

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def transport(self, client: str) -> MemoryTransport:
        return MemoryTransport(self.broker, client, random.Random(self.chance.random()), Timing(), keepalive=12.0)

    async def start_hub(self) -> None:
        if self._hub_task is None:
            self._hub_up.clear()
            self._hub_task = asyncio.create_task(self._run_hub(), name="hub")
            await self._hub_up.wait()

    async def _run_hub(self) -> None:
        settings = HubSettings.model_validate({"state_dir": self.directory / "hub", "api": {"port": 0}})
        world = hub_daemon.World(
            random.Random(self.chance.random()),
            LoopClock(),
            new_token=self.new_id,
            new_uid=self.new_id,
            transport=self.transport("hub"),
            inline_store=True,
        )
        async with hub_daemon.running(settings, world) as hub:
            self.hub = hub
            self._hub_up.set()
            await asyncio.Event().wait()

    async def kill_hub(self) -> None:
        task, self._hub_task, self.hub = self._hub_task, None, None
        await _end(task)

    def start_agent(self, machine: Machine) -> None:
        if machine.agent is None:
            settings = NodeSettings.model_validate(
                {"state_dir": machine.directory, "node": {"name": machine.name, "address": "192.0.2.1"}}
            )
            parts = Parts(
                open_runtime=lambda installation: FakeRuntime(machine.host, installation),
                transport=self.transport(machine.name),
                clock=machine.clock,
                new_id=self.new_id,
                chance=random.Random(self.chance.random()),
                inline_store=True,
            )
            machine.directory.mkdir(exist_ok=True)
            machine.agent = asyncio.create_task(Agent(settings, parts).run(), name=f"agent {machine.name}")

    async def kill_agent(self, machine: Machine) -> None:
        task, machine.agent = machine.agent, None
        await _end(task)

    # What may happen

    async def act(self) -> None:
        """One random step, and some time. What is down comes back before long: most of a life is work."""
        weights = {
            self.create: 10, self.resize: 20, self.delete: 4, self.cut_or_heal: 4, self.bounce_agent: 4,
            self.bounce_hub: 2, self.bounce_broker: 2, self.end_vm: 6, self.reboot_host: 1, self.runtime_down: 2,
            self.jump_clock: 1, self.power: 6,
        }  # fmt: skip
        if self.chance.random() < 0.25:
            await self.heal_one()
        step = self.chance.choices(list(weights), list(weights.values()))[0]
        await step()
        await asyncio.sleep(self.chance.choice((0.0, 0.1, 1.0, 5.0, 30.0)))

    def note(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():.1f}s {text}")

    async def create(self) -> None:
        if self.hub is None:
            return
        self._names += 1
        # Few names, so that they come back with other UIDs.
        name = f"p{self.chance.randrange(8)}"
        amounts = {"cpu": self.chance.choice(CPUS), "memory": self.chance.choice(MEMORIES)}
        resources = {"limits": amounts, "requests": {"cpu": "50m", "memory": amounts["memory"]}}
        container = {"name": "vm", "image": "copepod/micro:latest", "resources": resources}
        # Some in Arktos' form.
        spec = {"virtualMachine": container} if self.chance.random() < 0.3 else {"containers": [container]}
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        try:
            await self.hub.objects.create(Pod.from_dict(body))
            self.note(f"create {name} {amounts}")
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _some_pod(self) -> Pod | None:
        if self.hub is None:
            return None
        pods = (await self.hub.objects.list(Pod)).items
        return self.chance.choice(pods) if pods else None

    async def resize(self) -> None:
        pod = await self._some_pod()
        if pod is None or self.hub is None:
            return
        amounts = {"cpu": self.chance.choice(CPUS), "memory": self.chance.choice(MEMORIES)}

        def wish(current: Pod) -> Pod:
            resources = current.spec.containers[0].resources
            assert resources is not None
            resources.limits, resources.requests = dict(amounts), resources.requests | {"memory": amounts["memory"]}
            return current

        try:
            await self.hub.objects.change(REGISTRY.of(Pod), "default", pod.metadata.name, wish, "resize")
            self.note(f"resize {pod.metadata.name} {amounts}")
        except ApiError:
            self.note(f"resize {pod.metadata.name} refused")

    async def power(self) -> None:
        """Off, or on again."""
        pod = await self._some_pod()
        if pod is None or self.hub is None or pod.spec.virtual_machine is None:
            return
        wanted = self.chance.choice(("Running", "Shutdown"))

        def wish(current: Pod) -> Pod:
            if current.spec.virtual_machine is not None:
                current.spec.virtual_machine.power_spec = wanted
            return current

        await self.hub.objects.change(REGISTRY.of(Pod), "default", pod.metadata.name, wish)
        self.ended[vm_uuid(pod.metadata.uid or "", "vm")] += 1
        self.note(f"power {pod.metadata.name} {wanted}")

    async def delete(self) -> None:
        pod = await self._some_pod()
        if pod is not None and self.hub is not None:
            grace = self.chance.choice((None, 1, 0))
            self.note(f"delete {pod.metadata.name} {pod.metadata.uid} grace {grace}")
            await self.hub.objects.delete(
                Pod, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace_seconds=grace
            )

    async def cut_or_heal(self) -> None:
        name = self.chance.choice(self.machines).name
        healed = self.broker.is_cut(name)
        (self.broker.heal if healed else self.broker.cut)(name)
        self.note(f"{'heal' if healed else 'cut'} {name}")

    async def bounce_agent(self) -> None:
        machine = self.chance.choice(self.machines)
        if machine.agent is None:
            self.start_agent(machine)
            self.note(f"start agent {machine.name}")
        else:
            await self.kill_agent(machine)
            self.note(f"kill agent {machine.name}")

    async def bounce_hub(self) -> None:
        self.note("start hub" if self.hub is None else "kill hub")
        await (self.start_hub() if self.hub is None else self.kill_hub())

    async def bounce_broker(self) -> None:
        self.note("stop broker" if self.broker.running else "start broker")
        (self.broker.stop if self.broker.running else self.broker.start)()

    def _running(self, machine: Machine) -> list[str]:
        return [vm for vm, state in machine.host.vms.items() if state.state is VmState.RUNNING]

    async def end_vm(self) -> None:
        machine = self.chance.choice(self.machines)
        vms = self._running(machine)
        if vms:
            vm = self.chance.choice(vms)
            how = self.chance.choice((machine.host.crash, machine.host.power_off, machine.host.reboot_guest))
            self.ended[vm] += 1
            how(vm)
            self.note(f"{how.__name__} {vm}")

    async def reboot_host(self) -> None:
        machine = self.chance.choice(self.machines)
        await self.kill_agent(machine)
        self.ended.update(self._running(machine))
        machine.host.reboot_host()
        self.note(f"power cut {machine.name}")

    async def runtime_down(self) -> None:
        machine = self.chance.choice(self.machines)
        machine.host.set_down(not machine.host.down)
        self.note(f"libvirtd of {machine.name} {'down' if machine.host.down else 'up'}")

    async def jump_clock(self) -> None:
        machine = self.chance.choice(self.machines)
        machine.clock.offset = timedelta(days=self.chance.choice((-9000, 0, 9000)))
        self.note(f"clock of {machine.name} off by {machine.clock.offset.days} days")

    async def heal_one(self) -> None:
        machine = self.chance.choice(self.machines)
        if self.hub is None:
            await self.bounce_hub()
        elif not self.broker.running:
            await self.bounce_broker()
        elif self.broker.is_cut(machine.name):
            self.broker.heal(machine.name)
            self.note(f"heal {machine.name}")
        elif machine.host.down:
            machine.host.set_down(False)
            self.note(f"libvirtd of {machine.name} up")
        elif machine.agent is None:
            self.start_agent(machine)
            self.note(f"start agent {machine.name}")

    async def heal_all(self) -> None:
        self.broker.faults = Faults()
        self.broker.start()
        await self.start_hub()
        for machine in self.machines:
            self.broker.heal(machine.name)
            machine.host.set_down(False)
            self.start_agent(machine)

    async def close(self) -> None:
        await self.kill_hub()
        for machine in self.machines:
            await self.kill_agent(machine)

    # What must hold in the end

    async def complaint(self) -> str | None:
        """What is not yet as it must be at rest: both sides equal, each wish met or answered, nothing left over."""
        assert self.hub is not None
        pods = (await self.hub.objects.list(Pod)).items
        for pod in pods:
            if problem := self._pod_complaint(pod):
                return f"pod {pod.metadata.name} ({pod.metadata.uid}): {problem}"
        for machine in self.machines:
            mine = {vm_uuid(pod.metadata.uid or "", "vm") for pod in pods if pod.spec.node_name == machine.name}
            left = set(machine.host.vms) - mine
            if left:
                return f"{machine.name} has VMs that no pod wants: {left}"
        return None

    def _pod_complaint(self, pod: Pod) -> str | None:
        if pod.metadata.deletion_timestamp:
            return "still Terminating"
        if not pod.spec.node_name:
            return "not bound"
        if pod.status.phase == "Failed":
            return None
        if pod.status.observed_generation != pod.metadata.generation:
            return f"generation {pod.metadata.generation} not observed ({pod.status.observed_generation})"
        machine = next(item for item in self.machines if item.name == pod.spec.node_name)
        vm = machine.host.vms.get(vm_uuid(pod.metadata.uid or "", "vm"))
        if pending := pod.status.condition("PodResizePending"):
            return None if pending.reason == "Deferred" else _feasible_after_all(pod, vm)
        if powered_off(pod):
            return None if vm is None or vm.state is not VmState.RUNNING else "its VM runs, and is wished off"
        if vm is None or vm.state is not VmState.RUNNING:
            return f"its VM is {vm.state if vm else 'absent'}"
        ready = pod.status.condition("Ready")
        if ready is None or ready.status != "True":
            return f"not Ready: {ready}"
        limits = pod.spec.containers[0].limits
        wanted = (quantity.cpu_millis(limits["cpu"]), quantity.memory_bytes(limits["memory"]) >> 20)
        if (vm.cpu_limit_millicores, vm.actual_mib) != wanted:
            return f"VM has {vm.cpu_limit_millicores}m, {vm.actual_mib} MiB; wished {wanted}"
        shown = pod.status.container_statuses[0].resources
        if shown is None or shown.limits != limits:
            return f"status shows {shown}"
        return None

    def doubled(self) -> str | None:
        """A VM that was started more often than it was ended from outside: something was done twice."""
        for machine in self.machines:
            for identity, vm in machine.host.vms.items():
                if vm.boots > 1 + self.ended[identity]:
                    return f"VM {identity} booted {vm.boots} times, ended {self.ended[identity]} times"
        return None


def _feasible_after_all(pod: Pod, vm: FakeVm | None) -> str | None:
    """A wish is Infeasible only where it lies outside what was fixed when the VM booted."""
    limits = pod.spec.containers[0].limits
    vcpus, mib = -(-quantity.cpu_millis(limits["cpu"]) // 1000), quantity.memory_bytes(limits["memory"]) >> 20
    if vm is None:
        return "Infeasible without a VM"
    fits = vcpus <= vm.spec.vcpus_max and vm.spec.memory_base_mib <= mib <= vm.spec.memory_max_mib
    return f"called Infeasible, but {limits} fits {vm.spec}" if fits else None


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
