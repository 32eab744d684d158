"""The main job, step by step: what Copepod is for, on real VMs, with the faults it is made for.

Each step does one thing, checks what it claims by facts from outside (kubectl's answer, the guest's own kernel, the
domain), and returns a sentence on what was seen. The demo narrates the list; the integration test asserts it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelab import hostservices
from edgelab.effects import Shape
from edgelab.settings import LEASE_TIMEOUT
from edgelab.waiting import until_none
from edgelab.world import FalseClaim, World, claim, same_resources, unready_reason
from vmruntime.api import VmState

BURST, MICRO = "burst", "micro-vm"
CONTAINER = "vm"
BOOT_TIMEOUT = 180.0
"""Seconds. A guest boots in about 3 s under emulation; a crowded machine takes its time."""

GUEST_TIMEOUT = 30.0
"""Seconds for a guest's agent to be connected again."""


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    hint: str
    """What to type to do or see the same by hand; empty where there is nothing to type."""
    run: Callable[[World], Awaitable[str]]

    def typed(self, state: Path) -> str:
        """The hint for the lab in `state` on this machine."""
        return self.hint.replace("{state}", str(state)).replace("{restart libvirtd}", hostservices.restart_command())


async def create_pods(world: World) -> str:
    for name in (BURST, MICRO):
        await world.kubectl.ok("create", "-f", str(world.manifests / f"{name}.yaml"))
    return "the hub has both, bound to a node by its scheduler"


async def wait_ready(world: World) -> str:
    waited = await world.kubectl.run(
        "wait", "--for=condition=Ready", f"pod/{BURST}", f"pod/{MICRO}", f"--timeout={BOOT_TIMEOUT:.0f}s",
        timeout=BOOT_TIMEOUT + 10,
    )  # fmt: skip
    if waited.code != 0:
        reasons = [f"{name}: {unready_reason(await world.pod(name))}" for name in (BURST, MICRO)]
        raise FalseClaim("\n".join([waited.stderr.strip(), *reasons]))
    for name in (BURST, MICRO):
        vm = await world.vm(name)
        claim(vm.agent_ready and vm.boot_id is not None, f"{name}: the guest does not answer: {vm}")
        world.notes[f"vm {name}"] = vm
    burst = world.notes[f"vm {BURST}"]
    return f"two guests answer; {BURST} has {burst.guest_total_kib // 1024} MiB and boot id {burst.boot_id}"


async def raise_cpu(world: World) -> str:
    slow = await world.throughput(BURST)
    await _set_cpu(world, "700m")
    fast = await world.throughput(BURST, enough=1.6 * slow)
    world.notes["work at 700m"] = fast
    claim(fast >= 1.6 * slow, f"700m should do 2.8 times the work of 250m; the guest did {fast / slow:.2f} times")
    return f"the guest does {fast / slow:.1f} times the work (2.8 is exact)"


async def lower_cpu(world: World) -> str:
    await _set_cpu(world, "250m")
    slow, fast = await world.throughput(BURST), world.notes["work at 700m"]
    claim(slow < 0.6 * fast, f"250m should do 0.36 of the work of 700m; the guest did {slow / fast:.2f}")
    return f"the guest does {slow / fast:.2f} of the work (0.36 is exact)"


async def second_cpu(world: World) -> str:
    await _set_cpu(world, "1")
    before = (await world.vm(BURST)).vcpus_online
    claim(before == 1, f"limits.cpu is 1, but the guest has {before} CPUs online")
    await _set_cpu(world, "2")
    online = await world.guest(BURST, "cat /sys/devices/system/cpu/online")
    vm = await world.vm(BURST)
    claim(vm.vcpus_online == 2, f"limits.cpu is 2, but the guest has {vm.vcpus_online} CPUs online ({online})")
    return f"the guest's CPUs online: {online}"


async def grow_memory(world: World) -> str:
    return await _set_memory(world, 224)


async def shrink_memory(world: World) -> str:
    return await _set_memory(world, 128)


async def same_boot(world: World) -> str:
    await _unharmed(world, BURST)
    pod = await world.pod(BURST)
    restarts = pod["status"]["containerStatuses"][0]["restartCount"]
    claim(restarts == 0, f"restartCount is {restarts}")
    return f"boot id {(await world.vm(BURST)).boot_id} as at the start, 0 restarts"


async def cut_link(world: World) -> str:
    await world.box.links[0].cut()
    await world.node_ready("Unknown", LEASE_TIMEOUT * 4)
    for name in (BURST, MICRO):
        await _unharmed(world, name)
    return "packets vanish; the hub calls the node's readiness Unknown and evicts nothing; both VMs run"


async def wish_while_offline(world: World) -> str:
    for limit in ("1500m", "1200m", "600m"):  # all but the last are superseded before the node hears of any (S-05)
        await _patch_cpu(world, limit)
    await world.kubectl.ok("delete", "pod", MICRO, "--wait=false")
    pod = await world.pod(MICRO)
    claim("deletionTimestamp" in pod["metadata"], f"{MICRO} is not Terminating at the hub")
    burst = await world.vm(BURST)
    claim(burst.cpu_limit_millicores == 2000, f"the cut node already has {burst.cpu_limit_millicores}m")
    return f"{BURST} is wished 600m, {MICRO} is Terminating; the node knows of neither"


async def kill_agent_offline(world: World) -> str:
    agent = world.box.agents[0]
    await agent.kill()
    for name in (BURST, MICRO):
        await _unharmed(world, name)
    await agent.start()
    for name in (BURST, MICRO):
        await _unharmed(world, name)
    return "killed and started again without the hub: same VMs, same boot ids"


async def restore_link(world: World) -> str:
    burst, micro = world.notes[f"vm {BURST}"], world.notes[f"vm {MICRO}"]
    before = len(world.recorder.of(burst.uuid, "resized"))
    await world.box.links[0].restore()
    await world.node_ready("True")
    await world.resized(BURST)
    await _gone(world, MICRO)
    await world.sides_agree(BURST)
    resized = [effect.shape for effect in world.recorder.of(burst.uuid, "resized")[before:]]
    claim(resized == [Shape(600, 128)], f"the waiting wish was to be applied once, in one go; seen: {resized}")
    gone = len(world.recorder.of(micro.uuid, "gone"))
    claim(gone == 1, f"the other VM was to go once; seen: {gone} times")
    await _unharmed(world, BURST)
    return "600m applied once (1500m and 1200m never), the deletion done once, status equal on both sides"


async def kill_broker(world: World) -> str:
    await world.box.broker.kill()
    await _patch_cpu(world, "800m")
    await world.box.broker.start()
    await world.resized(BURST)
    await world.sides_agree(BURST)
    await _unharmed(world, BURST)
    return "both sides resumed; a wish of 800m made meanwhile is in force"


async def restart_libvirtd(world: World) -> str:
    await hostservices.restart_libvirtd()
    await _unharmed(world, BURST)
    await _set_cpu(world, "900m")
    await world.sides_agree(BURST)
    await _unharmed(world, BURST)
    return "the VM ran on; 900m is in force through the new libvirtd"


async def delete_last(world: World) -> str:
    await world.kubectl.ok("delete", "pod", BURST, timeout=120)
    await _gone(world, BURST)
    left = await world.runtime.list()
    claim(not left, f"VMs are left: {[vm.name for vm in left]}")
    return "nothing is left of either pod"


def cpu_hint(limit: str) -> str:
    return _patch_hint(f'"cpu":"{limit}"')


def memory_hint(limit: str) -> str:
    return _patch_hint(f'"memory":"{limit}"')


def _patch_hint(amount: str) -> str:
    patch = f'{{"spec":{{"containers":[{{"name":"{CONTAINER}","resources":{{"limits":{{{amount}}}}}}}]}}}}'
    return f"kubectl patch pod {BURST} --subresource resize --patch '{patch}'"


STEPS: tuple[Step, ...] = (
    Step(
        "Create two VM pods",
        "kubectl create -f configs/examples/burst.yaml -f configs/examples/micro-vm.yaml",
        create_pods,
    ),
    Step("They boot", f"kubectl wait --for=condition=Ready pod/{BURST} pod/{MICRO} --timeout=180s", wait_ready),
    Step("CPU 250m → 700m, in place", cpu_hint("700m"), raise_cpu),
    Step("CPU 700m → 250m", cpu_hint("250m"), lower_cpu),
    Step("CPU limit 1 → 2: a second CPU comes online in the guest", cpu_hint("2"), second_cpu),
    Step("Memory 96 → 224 MiB", memory_hint("224Mi"), grow_memory),
    Step("Memory 224 → 128 MiB", memory_hint("128Mi"), shrink_memory),
    Step("Nothing was restarted", f"kubectl get pod {BURST}", same_boot),
    Step("Cut the link: packets are dropped", "copepod link cut --state {state} node-1", cut_link),
    Step(
        "Meanwhile at the hub: three wishes for one pod, and the other is deleted",
        f"kubectl delete pod {MICRO} --wait=false",
        wish_while_offline,
    ),
    Step(
        "Kill the agent (-9) and start it while it is offline",
        "kill -9 $(cat {state}/run/node-1.pid)",
        kill_agent_offline,
    ),
    Step("Restore the link", "copepod link restore --state {state} node-1", restore_link),
    Step("Kill the broker (-9) and start it", "kill -9 $(cat {state}/run/broker.pid)", kill_broker),
    Step("Restart libvirtd", "{restart libvirtd}", restart_libvirtd),
    Step("Delete the last pod", f"kubectl delete pod {BURST}", delete_last),
)


async def _patch_cpu(world: World, limit: str) -> None:
    await world.patch_resources(BURST, CONTAINER, {"limits": {"cpu": limit}})


async def _set_cpu(world: World, limit: str) -> None:
    await _patch_cpu(world, limit)
    _claim_shown(await world.resized(BURST), {"cpu": limit})


async def _set_memory(world: World, mib: int) -> str:
    """Resize, and let the guest and the device say so: the guest's total must change by just what was asked."""
    before = await world.vm(BURST)
    await world.patch_resources(BURST, CONTAINER, {"limits": {"memory": f"{mib}Mi"}})
    _claim_shown(await world.resized(BURST, timeout=120), {"memory": f"{mib}Mi"})
    after = await world.vm(BURST)
    claim(after.memory_actual_mib == mib, f"the device shows {after.memory_actual_mib} MiB, not {mib}")
    assert before.guest_total_kib is not None
    assert after.guest_total_kib is not None
    changed = (after.guest_total_kib - before.guest_total_kib) / 1024
    asked = mib - before.memory_actual_mib
    claim(abs(changed - asked) <= 2, f"the guest's MemTotal changed by {changed:+.1f} MiB, not {asked:+d}")
    return f"the device shows {mib} MiB, the guest's MemTotal changed by {changed:+.1f} MiB"


def _claim_shown(pod: Mapping[str, Any], limits: Mapping[str, str]) -> None:
    shown = pod["status"]["containerStatuses"][0]
    actual = {name: shown["resources"]["limits"].get(name) for name in limits}
    claim(same_resources({"limits": limits}, {"limits": actual}), f"status shows limits {actual}, not {limits}")


async def _unharmed(world: World, name: str) -> None:
    """The VM is the one it was, running, and its guest has not rebooted.

    A guest whose agent is not connected (libvirtd has just started) is asked again: silence says nothing about it.
    """
    first = world.notes[f"vm {name}"]

    async def look() -> str | None:
        return None if (await world.vm(name)).boot_id is not None else "it does not"

    await until_none(look, f"{name}: the guest answers", GUEST_TIMEOUT)
    now = await world.vm(name)
    claim(now.state is VmState.RUNNING, f"{name}: the VM is {now.state}")
    claim(now.uuid == first.uuid, f"{name}: another VM took its place")
    claim(now.boot_id == first.boot_id, f"{name}: boot id {now.boot_id}, was {first.boot_id}")


async def _gone(world: World, name: str) -> None:
    """Wait until neither hub nor node has it."""

    async def look() -> str | None:
        if await world.kubectl.get("pod", name) is not None:
            return "the hub still has it"
        vms = [vm.name for vm in await world.runtime.list() if vm.owner.pod == name]
        return f"the node still has {vms}" if vms else None

    await until_none(look, f"{name} gone on both sides", 120)
