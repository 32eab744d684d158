"""The domain XML, by golden files and by what must hold for every spec."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.vms import make_spec
from vmruntime.api import VmSpec
from vmruntime.domain import HostFacts, cpu_shares, device_mib, domain_xml, kernel_command_line, quota_us, run_script
from vmruntime.libvirt_driver.resize import requesting
from vmruntime.metadata import read_record, record_of

IMAGE = Path("/var/lib/copepod/images/sha256-00")
TCG = HostFacts(
    "tcg",
    IMAGE / "vmlinux",
    IMAGE / "initramfs.cpio",
    Path("/var/log/copepod/console/x.log"),
    Path("/run/copepod/console/x"),
)
SPECS = {
    "smallest": (make_spec("smallest", vcpus_max=1, memory_max_mib=96), TCG),
    "resizable": (make_spec("resizable", cpu_limit_millicores=250, document=b'{"kind":"Pod"}'), TCG),
    "command": (
        make_spec("command", command=("sh", "-c", "echo $GREETING"), env=(("GREETING", "it's, <here>\n"),), attempt=2),
        TCG,
    ),
    "large-kvm-network": (
        make_spec("large", vcpus_max=4, vcpus_online=3, memory_base_mib=128, memory_mib=256, memory_max_mib=2048),
        replace(TCG, accelerator="kvm", network="user"),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.xml", domain_xml(*SPECS[name]))


@pytest.mark.parametrize("name", SPECS)
def test_the_record_comes_back_from_the_xml(name: str) -> None:
    spec, facts = SPECS[name]
    assert read_record(ET.fromstring(domain_xml(spec, facts))) == record_of(spec)


def test_marks_survive_a_definition() -> None:
    spec, facts = SPECS["resizable"]
    record = replace(record_of(spec), started=True, stopping=True, vcpus_online=2)
    assert read_record(ET.fromstring(domain_xml(spec, facts, record))) == record


def test_s60_no_bounce_buffer_whatever_the_size() -> None:
    """S-60: the word that keeps a small guest with a large maximum alive is always on the command line."""
    for spec, _ in SPECS.values():
        assert "swiotlb=noforce" in kernel_command_line(spec).split()


def test_s70_the_quota_is_of_the_whole_domain() -> None:
    """S-70: 700m on two vCPUs is 70 ms in 100 ms, not twice that."""
    root = ET.fromstring(domain_xml(make_spec("q", cpu_limit_millicores=700), TCG))
    assert root.findtext("cputune/global_quota") == "70000"
    assert root.find("cputune/quota") is None
    assert quota_us(None) == -1
    assert [cpu_shares(weight) for weight in (1, 100, 1000, 2500)] == [2, 102, 1024, 2560]


@pytest.mark.parametrize(("base", "maximum", "device"), [(96, 96, 0), (96, 98, 128), (96, 512, 512), (128, 2048, 1920)])
def test_the_device_is_whole_memory_blocks(base: int, maximum: int, device: int) -> None:
    spec: VmSpec = make_spec("d", memory_base_mib=base, memory_mib=base, memory_max_mib=maximum)
    assert device_mib(spec) == device


def test_the_run_script_keeps_every_byte() -> None:
    script = b64decode(run_script(SPECS["command"][0])).decode()
    assert script.endswith("set -- /bin/env 'GREETING=it'\"'\"'s, <here>\n' sh -c 'echo $GREETING'")
    plain = b64decode(run_script(make_spec("plain"))).decode()
    assert plain == 'hostname plain\ncopepod_run() { exec  "$@"; }\nset --'


def test_a_request_changes_only_the_request() -> None:
    spec, facts = SPECS["resizable"]
    device = ET.fromstring(domain_xml(spec, facts)).find("devices/memory")
    assert device is not None
    target = device.find("target")
    assert target is not None
    ET.SubElement(target, "current", unit="KiB").text = "0"
    asked = ET.fromstring(requesting(device, 128))
    assert asked.findtext("target/requested") == "128"
    assert asked.find("target/current") is None
    assert asked.findtext("target/size") == device.findtext("target/size")
