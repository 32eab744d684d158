"""Opens a runtime by name. The libvirt driver is loaded only when asked for: simulations run without it installed."""

from __future__ import annotations

from pathlib import Path

from vmruntime.api import Runtime
from vmruntime.fake import FakeHost, FakeRuntime

DEFAULT_URI = "qemu:///system"


def open_runtime(
    kind: str,
    *,
    installation: str,
    image_root: Path | None = None,
    uri: str = DEFAULT_URI,
    allow_tcg: bool = True,
    fake_host: FakeHost | None = None,
) -> Runtime:
    """`kind` is `libvirt` or `fake`. `image_root` None: the store named by `COPEPOD_IMAGES`, else the default one.

    A fake without `fake_host` gets a host of its own. Opening never blocks and never fails: a hypervisor
    that is down shows at the first call, as RuntimeUnavailable, and is reconnected to by itself. Raises
    ValueError for another kind.
    """
    if kind == "fake":
        return FakeRuntime(fake_host or FakeHost(), installation)
    if kind == "libvirt":
        from vmruntime.images import ImageStore
        from vmruntime.libvirt_driver.runtime import LibvirtRuntime

        return LibvirtRuntime(installation, ImageStore(image_root), uri=uri, allow_tcg=allow_tcg)
    raise ValueError(f"unknown runtime {kind!r}; known are libvirt and fake")
