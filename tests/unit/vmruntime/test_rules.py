"""Sizes, refusals, archive, images: the pure parts of the VM runtime."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import libvirt
import pytest

from vmruntime import cpio
from vmruntime.api import Exit, ExitReason, ImageNotFound, InvalidSpec, ResizeRefused
from vmruntime.bundle import module_needs
from vmruntime.checks import check_shrink
from vmruntime.hostprep import inspect_kvm, prepare_host
from vmruntime.images import INITRD, KERNEL, ImageStore
from vmruntime.libvirt_driver.agent import ANSWER_SECONDS, count_cpus, parse_facts, patience
from vmruntime.libvirt_driver.console import last_lines, read_all
from vmruntime.libvirt_driver.view import exit_of, limit_of
from vmruntime.probe import probe
from vmruntime.sizing import choose_base, largest_maximum, round_up


@pytest.mark.parametrize(
    ("size", "maximum", "base"),
    [(96, 512, 96), (512, 512, 96), (128, 2048, 128), (1024, 2048, 128), (256, 4096, 256), (512, 16384, 512)],
)
def test_base_carries_the_maximum(size: int, maximum: int, base: int) -> None:
    assert choose_base(size, maximum) == base


@pytest.mark.parametrize(
    ("size", "maximum", "words"),
    [(64, 512, "96 MiB"), (96, 1024, "512 MiB"), (128, 64, "maximum"), (512, 32768, "16384"), (128, 4096, "2048")],
)
def test_a_pair_that_would_sink_is_refused_with_the_limit(size: int, maximum: int, words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        choose_base(size, maximum)


def test_sizes_round_up() -> None:
    assert [round_up(mib) for mib in (95, 96, 97)] == [96, 96, 98]
    assert largest_maximum(200) == 2048


def test_s61_a_refusal_says_by_how_much() -> None:
    """S-61: use plus 32 MiB, or a quarter of the new size where that is less."""
    with pytest.raises(ResizeRefused, match="25 MiB more"):
        check_shrink("a", 128, 256, 121)
    check_shrink("a", 96, 256, 72)
    check_shrink("a", 256, 128, 127)


def test_archive_is_reproducible_and_has_parents() -> None:
    entries = [cpio.file("bin/sh", b"x", executable=True), cpio.symlink("init", "bin/sh")]
    packed = cpio.archive(entries)
    assert packed == cpio.archive(reversed(entries))
    assert packed.startswith(b"070701")
    assert packed.index(b"bin\0") < packed.index(b"bin/sh\0") < packed.index(b"TRAILER!!!")
    with pytest.raises(ValueError):
        cpio.archive([*entries, cpio.file("init", b"")])


def test_module_needs() -> None:
    assert module_needs(b"junk\0license=GPL\0depends=virtio,virtio_ring\0name=x\0") == ["virtio", "virtio_ring"]
    assert module_needs(b"\0depends=\0") == []


FILES = {KERNEL: b"kernel", INITRD: b"initrd"}


def test_images_are_found_by_tag_and_digest(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    image = store.add(FILES, {"memory_min_mib": 96}, "copepod/micro:latest")
    for reference in ("copepod/micro", "copepod/micro:latest", image.digest, f"copepod/micro@{image.digest}"):
        assert store.resolve(reference).kernel.read_bytes() == b"kernel"
    assert [found.reference for found in store.list()] == ["copepod/micro:latest"]
    assert store.add(FILES, {"memory_min_mib": 96}, "other:1").digest == image.digest


def test_an_unknown_image_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ImageNotFound, match=r"nope:1 .*copepod image build"):
        ImageStore(tmp_path).resolve("nope:1")
    with pytest.raises(ImageNotFound):
        ImageStore(tmp_path).resolve("../../etc/passwd")


def test_s47_a_damaged_image_is_never_used(tmp_path: Path) -> None:
    """S-47: a changed byte, in a file or in the manifest, also after the image was verified once."""
    store = ImageStore(tmp_path)
    image = store.add(FILES, {"memory_min_mib": 96}, "a:1")
    kernel = store.resolve("a:1").kernel
    kernel.write_bytes(b"kernex")
    with pytest.raises(ImageNotFound, match=r"damaged.*vmlinux"):
        store.resolve("a:1")
    kernel.unlink()
    with pytest.raises(ImageNotFound, match="cannot be read"):
        store.resolve(image.digest)


def test_guest_facts() -> None:
    meminfo = (
        "MemTotal: 60000 kB\nMemFree: 20000 kB\nActive(file): 3000 kB\nInactive(file): 1000 kB\nSReclaimable: 2000 kB\n"
    )
    facts = parse_facts(f"boot\n0-1,3\n{meminfo}")
    assert (facts.boot_id, facts.vcpus_online, facts.total_kib, facts.spare_kib) == ("boot", 3, 60000, 23000)
    assert count_cpus("0") == 1


@pytest.mark.parametrize(
    ("reason", "stopping", "tail", "end"),
    [
        (libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, False, "", Exit(ExitReason.SHUTDOWN, 0)),
        (libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, False, "copepod: exit 3\r\n", Exit(ExitReason.SHUTDOWN, 3)),
        (libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, True, "", Exit(ExitReason.STOPPED, 143)),
        (libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, True, "", Exit(ExitReason.STOPPED, 137)),
        (libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, False, "", Exit(ExitReason.KILLED, 137)),
        (libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, False, "", Exit(ExitReason.KILLED, 137)),
        (libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, False, "Kernel panic - not syncing", Exit(ExitReason.PANIC, 255)),
        (libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN, False, "", Exit(ExitReason.HOST, 255)),
        (libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN, False, "copepod: exit 4\n", Exit(ExitReason.SHUTDOWN, 4)),
    ],
)
def test_how_a_vm_ended(reason: int, stopping: bool, tail: str, end: Exit) -> None:
    seen: Any = SimpleNamespace(reason=reason, record=SimpleNamespace(stopping=stopping))
    assert exit_of(cast(Any, seen), tail) == end


def test_quota_to_limit() -> None:
    assert [limit_of(quota) for quota in (70000, 1000, -1, 17592186044415)] == [700, 10, None, None]


def test_console_reads_rotated_files_in_order(tmp_path: Path) -> None:
    log = tmp_path / "vm.log"
    for name, text in (("vm.log", b"3\n"), ("vm.log.0", b"2\n"), ("vm.log.1", b"1\n"), ("vm.log.tmp", b"no")):
        (tmp_path / name).write_bytes(text)
    assert read_all(log) == b"1\n2\n3\n"
    assert last_lines(b"1\n2\n3\n", 2) == b"2\n3\n"
    assert last_lines(b"1\n", 0) == b""


def test_s45_no_device_or_no_qemu_means_emulation(tmp_path: Path) -> None:
    """S-45: said with the reason, without waiting."""
    assert not probe(device=tmp_path / "none").kvm_usable
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    found = probe(device=device, qemu=str(tmp_path / "no-qemu"))
    assert (found.kind, found.kvm_usable) == ("tcg", False)
    assert "no-qemu" in found.reason


def test_a_closed_device_is_explained_and_opened(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    assert inspect_kvm(device).ok
    device.write_bytes(b"")
    device.chmod(0o600)
    assert "chmod 0660" in inspect_kvm(device, group="no-such-group").message
    assert not prepare_host(device=device, group="no-such-group").ok
    device.chmod(0o666)
    assert inspect_kvm(device).ok


def test_the_agent_is_given_time_in_proportion_to_the_cpu() -> None:
    """S-70: at 10m an answer that costs 10 ms of CPU takes seconds."""
    assert [patience(limit) for limit in (None, 1000, 100)] == [ANSWER_SECONDS] * 3
    assert patience(10) == 30
    assert all(patience(limit) >= patience(limit + 1) for limit in range(10, 200))
