"""From a VmSpec and what is known of the host to libvirt's domain XML, and back from the XML to what is ours in it.

Pure: nothing here talks to libvirt. The recipe and its traps are explained in docs/vm-lore.md; golden files in
tests/data/domain hold what it gives (update: `pytest tests/unit/vmruntime --update-golden`).
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from vmruntime.api import VmSpec
from vmruntime.metadata import Record, record_of

CPU_PERIOD_US = 100_000
RUN_ENTRY = "opt/org.copepod/run"
"""Firmware configuration entry from which the guest's init takes its hostname, environment and command."""
AGENT_CHANNEL = "org.qemu.guest_agent.0"
MEMORY_BLOCK_MIB = 128
"""Linux's unit of hotplug on x86-64 (SECTION_SIZE_BITS)."""
TB_CACHE_MIB = 32
"""Translation cache of an emulated guest: 16 MiB with four vCPUs aborts QEMU, the default costs 25 MiB more."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All of the host that shows in a domain."""

    accelerator: str
    """`kvm` or `tcg`."""
    kernel: Path
    initrd: Path
    console_log: Path
    console_socket: Path
    """Where the console's input comes from; one client at a time."""
    network: str = "none"
    """`none`, or `user` for QEMU's own NAT."""


def domain_xml(spec: VmSpec, facts: HostFacts, record: Record | None = None) -> str:
    """`record` carries marks over from an earlier definition; without it the VM has never been started."""
    domain = ET.Element("domain", type="kvm" if facts.accelerator == "kvm" else "qemu")
    _text(domain, "name", spec.name)
    _text(domain, "uuid", spec.uuid)
    ET.SubElement(domain, "metadata").append((record or record_of(spec)).to_element())
    _memory(domain, spec)
    _text(domain, "vcpu", str(spec.vcpus_max), placement="static")
    _cputune(domain, spec)
    _guest_settings(domain, spec)
    _os(domain, spec, facts)
    _features(domain, facts)
    _cpu(domain, spec)
    ET.SubElement(domain, "clock", offset="utc")
    _text(domain, "on_poweroff", "destroy")
    # A guest that reboots itself stays this domain and this process (S-44); one that panics is an exit.
    _text(domain, "on_reboot", "restart")
    _text(domain, "on_crash", "destroy")
    _devices(domain, spec, facts)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def kernel_command_line(spec: VmSpec) -> str:
    """Every word here is there because something broke without it.

    `swiotlb=noforce`: memory above 4 GiB makes Linux reserve 64 MiB of bounce buffer, which a small guest
    dies of (S-60). `memhp_default_state`: plugged memory is not online by itself, and only movable memory
    can be given back. `maxcpus`: all vCPUs are present from the start and the guest begins with those that
    are wanted; the rest wait. `panic=-1`: a panic before the panic device is served reboots at once instead of hanging.
    `no_timer_check`: the kernel's test of its timer takes a guest that waits for CPU for one with a broken timer, and
    what it falls back to may block the virtio interrupts for good. (Under KVM Linux sets it by itself.)
    """
    return (
        "console=ttyS0 quiet panic=-1 no_timer_check swiotlb=noforce memhp_default_state=online_movable"
        f" maxcpus={spec.vcpus_online}"
    )


def run_script(spec: VmSpec) -> str:
    """A shell fragment, base64-encoded: hostname, what the console is to the command (nothing
    where it only shows output), the command with its environment as positional parameters, and `copepod_run`, which
    becomes any other program in that environment."""
    lines = [f"hostname {shlex.quote(spec.owner.pod)}"]
    given = [f"{name}={value}" for name, value in spec.env]
    if spec.working_dir:
        lines.append(f"mkdir -p {shlex.quote(spec.working_dir)}")
        given.insert(0, f"--chdir={spec.working_dir}")
    # Never exported to init itself: what a pod calls PATH, or `command`, is no concern of its.
    around = ["/bin/env", *given] if given else []
    lines.append(f'copepod_run() {{ exec {shlex.join(around)} "$@"; }}')
    if spec.stdin or spec.tty:
        lines.append(f"copepod_console={'terminal' if spec.tty else 'input'}")
    lines.append(f"set -- {shlex.join([*around, *spec.command] if spec.command else [])}".rstrip())
    return b64encode("\n".join(lines).encode()).decode()


def cpu_shares(weight_millicores: int) -> int:
    """As Kubernetes maps a request to `cpu.shares`: 1024 for a whole CPU, 2 at least."""
    return max(weight_millicores * 1024 // 1000, 2)


def quota_us(limit_millicores: int | None) -> int:
    """Microseconds in a period of CPU_PERIOD_US for the whole domain; -1 = no limit."""
    return -1 if limit_millicores is None else limit_millicores * CPU_PERIOD_US // 1000


def device_mib(spec: VmSpec) -> int:
    """Size of the virtio-mem device; 0 for none.

    Linux uses only whole memory blocks of it: of a device of 416 MiB the last 32 stay out of reach. So it
    is rounded up, and what is beyond the VM's maximum is never requested.
    """
    return -(-(spec.memory_max_mib - spec.memory_base_mib) // MEMORY_BLOCK_MIB) * MEMORY_BLOCK_MIB


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _memory(domain: ET.Element, spec: VmSpec) -> None:
    if plugged := device_mib(spec):
        _text(domain, "maxMemory", str(spec.memory_base_mib + plugged), slots="1", unit="MiB")
    _text(domain, "memory", str(spec.memory_base_mib), unit="MiB")


def _cputune(domain: ET.Element, spec: VmSpec) -> None:
    cputune = ET.SubElement(domain, "cputune")
    _text(cputune, "shares", str(cpu_shares(spec.cpu_weight_millicores)))
    # Global: over the whole domain. vcpu_quota is per vCPU, and 700m on two of them would allow 1400m.
    _text(cputune, "global_period", str(CPU_PERIOD_US))
    _text(cputune, "global_quota", str(quota_us(spec.cpu_limit_millicores)))


def _guest_settings(domain: ET.Element, spec: VmSpec) -> None:
    settings = ET.SubElement(domain, "sysinfo", type="fwcfg")
    _text(settings, "entry", run_script(spec), name=RUN_ENTRY)


def _os(domain: ET.Element, spec: VmSpec, facts: HostFacts) -> None:
    os = ET.SubElement(domain, "os")
    _text(os, "type", "hvm", arch="x86_64", machine="q35")
    _text(os, "kernel", str(facts.kernel))
    _text(os, "initrd", str(facts.initrd))
    _text(os, "cmdline", kernel_command_line(spec))


def _features(domain: ET.Element, facts: HostFacts) -> None:
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    if facts.accelerator == "tcg":
        _text(ET.SubElement(features, "tcg"), "tb-cache", str(TB_CACHE_MIB), unit="MiB")


def _cpu(domain: ET.Element, spec: VmSpec) -> None:
    cpu = ET.SubElement(domain, "cpu", mode="maximum")
    cell = {"id": "0", "cpus": f"0-{spec.vcpus_max - 1}", "memory": str(spec.memory_base_mib), "unit": "MiB"}
    ET.SubElement(ET.SubElement(cpu, "numa"), "cell", cell)


def _devices(domain: ET.Element, spec: VmSpec, facts: HostFacts) -> None:
    devices = ET.SubElement(domain, "devices")
    ET.SubElement(devices, "controller", type="usb", model="none")
    slots = iter(range(2, 30))

    def place(device: ET.Element) -> None:
        """Straight on the root bus: a port for each device would cost the guest boot time."""
        ET.SubElement(device, "address", type="pci", bus="0x00", slot=f"0x{next(slots):02x}")

    place(ET.SubElement(devices, "controller", type="virtio-serial", index="0"))
    serial = ET.SubElement(devices, "serial", type="unix")
    ET.SubElement(serial, "source", mode="bind", path=str(facts.console_socket))
    ET.SubElement(serial, "log", file=str(facts.console_log), append="off")
    ET.SubElement(serial, "target", port="0")
    channel = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    balloon = {"model": "virtio", "autodeflate": "on", "freePageReporting": "on"}
    place(ET.SubElement(devices, "memballoon", balloon))
    rng = ET.SubElement(devices, "rng", model="virtio")
    _text(rng, "backend", "/dev/urandom", model="random")
    place(rng)
    ET.SubElement(devices, "panic", model="isa")
    if plugged := device_mib(spec):
        device = _memory_device(plugged, spec.memory_mib - spec.memory_base_mib)
        devices.append(device)
        place(device)
    if facts.network == "user":
        interface = ET.SubElement(devices, "interface", type="user")
        ET.SubElement(interface, "model", type="virtio")
        place(interface)


def _memory_device(plugged_mib: int, requested_mib: int) -> ET.Element:
    device = ET.Element("memory", model="virtio-mem")
    target = ET.SubElement(device, "target")
    _text(target, "size", str(plugged_mib), unit="MiB")
    _text(target, "node", "0")
    _text(target, "block", "2", unit="MiB")
    _text(target, "requested", str(requested_mib), unit="MiB")
    return device
