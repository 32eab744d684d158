"""Builds the guest bundle `copepod/micro` from distribution packages: their kernel, busybox and guest agent, our init.

Nothing is compiled and nothing is installed: packages are downloaded by apt (which checks their
signatures), unpacked, and the few files that a small guest needs go into an uncompressed initramfs (it
boots faster so under emulation). The same packages give the same digest.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from vmruntime import cpio
from vmruntime.api import Image, ImageNotFound, VmError
from vmruntime.images import INITRD, KERNEL, ImageStore
from vmruntime.sizing import SMALLEST_MIB

MICRO_TAG = "copepod/micro:latest"
RECIPE_VERSION = 2
"""Raise it when a change here, not in guest/, changes what is built."""
REQUIRED_TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "lz4")

KERNEL_METAPACKAGE = "linux-image-cloud-amd64"
PACKAGES = (
    "busybox-static",
    "qemu-guest-agent",
    # `script`, which runs a program on a terminal: busybox has none.
    "bsdutils",
    # `env`, which gives a program back its signals: busybox's cannot.
    "coreutils",
    # What these link to:
    "libc6",
    "libglib2.0-0",
    "libnuma1",
    "libpcre2-8-0",
    "libudev1",
    "liburing2",
)
MODULES = (
    "virtio_pci",
    "qemu_fw_cfg",
    "virtio_console",
    "virtio_mem",
    "virtio_balloon",
    "virtio-rng",
    "virtio_blk",
    "virtio_net",
    "evdev",
    "button",
    "pvpanic-mmio",
)
"""Loaded by init in this order, each after what it needs."""
GUEST_FILES = {
    "init": "init",
    "shutdown": "sbin/shutdown",
    "udhcpc.script": "etc/udhcpc.script",
}
"""Ours in guest/ → where in the initramfs."""

Progress = Callable[[str], None]


class BundleError(VmError):
    """The bundle cannot be built. The message says what is missing and how to get it."""


def build_micro_bundle(
    store_root: Path | None = None, progress: Progress = lambda line: None, *, refresh: bool = False
) -> Image:
    """Build, store and tag the micro image; at once when it is there already and made by this recipe.

    `refresh` builds again regardless (with the packages that apt now offers). Raises BundleError.
    """
    store = ImageStore(store_root)
    if not refresh and (image := _already_built(store)) is not None:
        progress(f"image {MICRO_TAG} is already built ({image.digest[:19]}…)")
        return image
    if missing := [tool for tool in REQUIRED_TOOLS if shutil.which(tool) is None]:
        raise BundleError(f"cannot build {MICRO_TAG}: {', '.join(missing)} not found; install with apt-get install")
    with tempfile.TemporaryDirectory(prefix="copepod-bundle-") as scratch:
        return _build(store, Path(scratch), progress)


def _already_built(store: ImageStore) -> Image | None:
    try:
        bundle = store.resolve(MICRO_TAG)
    except ImageNotFound:
        return None
    return bundle.image if bundle.manifest.get("recipe") == recipe() else None


def recipe() -> str:
    """Changes when what this module would build from the same packages changes."""
    digest = sha256(f"{RECIPE_VERSION} {PACKAGES} {MODULES}".encode())
    for name in sorted(GUEST_FILES):
        digest.update(_ours(name))
    return digest.hexdigest()


def _ours(name: str) -> bytes:
    return (Path(__file__).parent / "guest" / name).read_bytes()


def _build(store: ImageStore, scratch: Path, progress: Progress) -> Image:
    tree = scratch / "tree"
    tree.mkdir()
    packages = _download(scratch, progress)
    for package in packages:
        progress(f"unpacking {package.name.split('_')[0]}")
        _run(["dpkg-deb", "-x", str(package), str(tree)])
    version = next((tree / "lib/modules").iterdir()).name
    progress(f"decompressing kernel {version}")
    kernel = decompress_kernel((tree / f"boot/vmlinuz-{version}").read_bytes())
    progress("packing the initramfs")
    initrd = cpio.archive(_entries(tree, version))
    facts = {
        "name": "copepod/micro",
        "kernel": version,
        "packages": sorted(_identity(package) for package in packages),
        "memory_min_mib": SMALLEST_MIB,
        "recipe": recipe(),
    }
    image = store.add({KERNEL: kernel, INITRD: initrd}, facts, MICRO_TAG)
    progress(
        f"image {MICRO_TAG} is built: {image.digest[:19]}…, kernel {len(kernel) >> 20} MiB, "
        f"initramfs {len(initrd) / 2**20:.1f} MiB"
    )
    return image


# -- packages
# -----------------------------------------------------------------------------------------------------------


def _download(scratch: Path, progress: Progress) -> list[Path]:
    target = scratch / "packages"
    target.mkdir()
    names = [_kernel_package(progress), *PACKAGES]
    progress(f"downloading {len(names)} packages: {' '.join(names)}")
    # apt would drop to its user `_apt`, who may not write here, and warn; as that is all it would do, stay who we are.
    _run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *names], cwd=target)
    return sorted(target.glob("*.deb"))


def _kernel_package(progress: Progress) -> str:
    """The metapackage is empty: the kernel is in the versioned package that it depends on."""
    listing = _run(["apt-cache", "depends", KERNEL_METAPACKAGE], check=False)
    if "Depends:" not in listing:
        progress("apt knows no packages yet: apt-get update")
        _run(["apt-get", "update", "-qq"])
        listing = _run(["apt-cache", "depends", KERNEL_METAPACKAGE])
    found = re.search(r"Depends: (linux-image-\S+)", listing)
    if found is None:
        raise BundleError(f"cannot build {MICRO_TAG}: apt offers no {KERNEL_METAPACKAGE}; Debian 12 or later is needed")
    return found[1]


def _identity(package: Path) -> str:
    return _run(["dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(package)])


def _run(argv: Sequence[str], *, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        why = (done.stderr or done.stdout).strip()[-500:]
        raise BundleError(f"cannot build {MICRO_TAG}: `{' '.join(argv[:3])} …` failed: {why}")
    return done.stdout


# -- kernel
# -------------------------------------------------------------------------------------------------------------


def decompress_kernel(image: bytes) -> bytes:
    """The ELF inside a bzImage, which QEMU starts directly (PVH): half a second sooner under emulation.

    Where the payload lies is in the setup header (Documentation/x86/boot.rst); its last four bytes are its
    unpacked size. An unknown compression is left as it is: the bzImage boots as well.
    """
    if image[0x202:0x206] != b"HdrS":
        raise BundleError(f"cannot build {MICRO_TAG}: the kernel package's image is not a bzImage")
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (image[0x1F1] + 1) * 512 + offset
    payload = image[start : start + length - 4]
    size = struct.unpack_from("<I", image, start + length - 4)[0]
    tool = next((tool for magic, tool in _DECOMPRESSORS if payload.startswith(magic)), None)
    if tool is None:
        return image
    done = subprocess.run(tool, input=payload, capture_output=True, check=False)
    if len(done.stdout) != size or not done.stdout.startswith(b"\x7fELF"):
        raise BundleError(f"cannot build {MICRO_TAG}: `{tool[0]}` did not unpack the kernel: {done.stderr[-300:]!r}")
    return done.stdout


_DECOMPRESSORS = (
    (b"\x02\x21\x4c\x18", ("lz4", "-dc")),
    (b"\x28\xb5\x2f\xfd", ("zstd", "-dc")),
    (b"\xfd7zXZ\x00", ("xz", "-dc")),
    (b"\x1f\x8b", ("gzip", "-dc")),
)


# -- initramfs
# ----------------------------------------------------------------------------------------------------------


def _entries(tree: Path, version: str) -> Iterator[cpio.Entry]:
    yield cpio.character_device("dev/console", 5, 1)
    yield cpio.character_device("dev/null", 1, 3)
    yield from (cpio.directory(path) for path in ("proc", "sys", "run", "tmp", "root", "mnt"))
    yield cpio.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    yield cpio.file("etc/group", b"root:x:0:\n")
    for name, path in GUEST_FILES.items():
        yield cpio.file(path, _ours(name), executable=True)
    yield from _busybox(tree)
    yield from _linked(
        tree, {"sbin/qemu-ga": "usr/sbin/qemu-ga", "bin/script": "usr/bin/script", "bin/env": "usr/bin/env"}
    )
    yield from _modules(tree / "lib/modules" / version)


def _busybox(tree: Path) -> Iterator[cpio.Entry]:
    busybox = tree / "bin/busybox"
    yield cpio.file("bin/busybox", busybox.read_bytes(), executable=True)
    for applet in _run([str(busybox), "--list"]).split():
        if applet not in ("busybox", "env", "init"):
            yield cpio.symlink(f"bin/{applet}", "busybox")


def _linked(tree: Path, programs: Mapping[str, str]) -> Iterator[cpio.Entry]:
    """Programs (place in the guest → place in the packages) with their loader and libraries."""
    loader = tree / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    search = ":".join(str(tree / path) for path in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"))
    yield cpio.file("lib64/ld-linux-x86-64.so.2", loader.read_bytes(), executable=True)
    libraries: dict[str, Path] = {}
    for place, program in programs.items():
        yield cpio.file(place, (tree / program).read_bytes(), executable=True)
        listing = _run([str(loader), "--library-path", search, "--list", str(tree / program)])
        found = re.findall(r"^\s+(lib\S+) => (\S+)", listing, re.MULTILINE)
        libraries |= {name: Path(path) for name, path in found}
    for name, path in libraries.items():
        if not path.is_relative_to(tree):
            raise BundleError(
                f"cannot build {MICRO_TAG}: {name}, which the guest's programs need, is in no package of ours"
            )
        yield cpio.file(f"lib/{name}", path.read_bytes(), executable=True)


def _modules(modules: Path) -> Iterator[cpio.Entry]:
    files = {_module_name(path.stem): path for path in modules.rglob("*.ko")}
    order: list[str] = []
    for name in MODULES:
        _add_module(_module_name(name), files, order)
    for name in order:
        yield cpio.file(f"lib/modules/{name}.ko", files[name].read_bytes())
    yield cpio.file("lib/modules/order", "".join(f"{name}.ko\n" for name in order).encode())


def _add_module(name: str, files: dict[str, Path], order: list[str]) -> None:
    if name in order or name not in files:
        # Not there: built into this kernel.
        return
    for needed in module_needs(files[name].read_bytes()):
        _add_module(_module_name(needed), files, order)
    order.append(name)


def module_needs(module: bytes) -> list[str]:
    """The `depends=` line of a module's .modinfo section (what modinfo -F depends shows)."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name for name in found[1].decode().split(",") if name] if found else []


def _module_name(name: str) -> str:
    return name.replace("-", "_")
