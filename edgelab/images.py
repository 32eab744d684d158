"""The guest images of this machine, for the command line and for a lab that finds none."""

from __future__ import annotations

import os

from edgelab.process import Say
from vmruntime.bundle import build_micro_bundle
from vmruntime.images import ImageStore, default_root


class ImagesDenied(Exception):
    """The image store may not be written by this user."""


def build(say: Say) -> str:
    """Build the micro image from the packages that apt offers now; the digest. Raises BundleError, ImagesDenied."""
    root = default_root()
    root_exists = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(root_exists, os.W_OK):
        raise ImagesDenied(f"may not write to {root}: run this with sudo, or name another store in COPEPOD_IMAGES")
    return build_micro_bundle(progress=say, refresh=True).digest


def ensure_default(say: Say) -> None:
    """Build the micro image unless it is there. Raises BundleError."""
    build_micro_bundle(progress=say)


def listing() -> list[str]:
    """One line an image, or a line that says how to get one."""
    images = ImageStore().list()
    return [f"{image.reference}  {image.digest}  {image.memory_min_mib}Mi" for image in images] or [
        f"no images in {default_root()}: build one with `copepod image build`"
    ]
