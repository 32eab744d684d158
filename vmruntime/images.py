"""The node's image store: bundles of kernel and initramfs, each in a directory named by its digest.

    <root>/sha256-<hex>/manifest.json    its SHA-256 is the digest; it names the other files by theirs
    <root>/sha256-<hex>/vmlinux, initramfs.cpio
    <root>/tags/<reference, quoted>      holds a digest

A bundle appears whole or not at all (one rename), and nothing is used that does not match its digest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

from vmruntime.api import Image, ImageNotFound

DEFAULT_ROOT = Path("/var/lib/copepod/images")
KERNEL, INITRD, MANIFEST = "vmlinux", "initramfs.cpio", "manifest.json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Bundle:
    """An image's files on this node, verified."""

    image: Image
    kernel: Path
    initrd: Path
    manifest: Mapping[str, object]


def default_root() -> Path:
    return Path(os.environ.get("COPEPOD_IMAGES") or DEFAULT_ROOT)


class ImageStore:
    """`root` None: the directory named by `COPEPOD_IMAGES`, else DEFAULT_ROOT. Blocking; small files but
    for hashing."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()
        self._verified: dict[Path, tuple[int, int, int]] = {}

    def resolve(self, reference: str) -> Bundle:
        """Find and verify. Raises ImageNotFound saying what to do."""
        digest = self._digest(reference)
        where = self.root / digest.replace(":", "-")
        try:
            raw = (where / MANIFEST).read_bytes()
        except OSError as error:
            raise self._missing(reference, f"{where / MANIFEST} cannot be read: {error.strerror}") from error
        if f"sha256:{sha256(raw).hexdigest()}" != digest:
            raise self._corrupt(reference, where / MANIFEST)
        manifest = json.loads(raw)
        for name, expected in manifest["files"].items():
            self._verify(reference, where / name, expected)
        image = Image(reference, digest, int(manifest["memory_min_mib"]))
        return Bundle(image, where / KERNEL, where / INITRD, manifest)

    def list(self) -> list[Image]:
        """One entry for each tag, by name. Bundles are not verified here."""
        tags = self.root / "tags"
        images = []
        for entry in sorted(tags.iterdir()) if tags.is_dir() else ():
            digest = entry.read_text().strip()
            try:
                manifest = json.loads((self.root / digest.replace(":", "-") / MANIFEST).read_bytes())
            except OSError:
                continue
            images.append(Image(unquote(entry.name), digest, int(manifest["memory_min_mib"])))
        return images

    def add(self, files: Mapping[str, bytes], facts: Mapping[str, object], tag: str) -> Image:
        """Store a bundle of `files` with its describing `facts`, and let `tag` name it. Raises OSError."""
        hashes = {name: sha256(content).hexdigest() for name, content in files.items()}
        manifest = json.dumps({**facts, "files": hashes}, indent=1, sort_keys=True).encode()
        digest = f"sha256:{sha256(manifest).hexdigest()}"
        self.root.mkdir(parents=True, exist_ok=True)
        where = self.root / digest.replace(":", "-")
        fresh = self.root / f".new-{where.name}-{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        fresh.chmod(0o755)
        for name, content in {**files, MANIFEST: manifest}.items():
            _write(fresh / name, content)
        # A directory there already holds the same bytes, or it is damaged; either way ours is right.
        shutil.rmtree(where, ignore_errors=True)
        fresh.rename(where)
        self._tag(tag, digest)
        return self.resolve(tag).image

    def _tag(self, reference: str, digest: str) -> None:
        tags = self.root / "tags"
        tags.mkdir(exist_ok=True)
        fresh = tags / f"..{os.getpid()}"
        _write(fresh, digest.encode() + b"\n")
        fresh.rename(tags / quote(normalise(reference), safe=":"))

    def _digest(self, reference: str) -> str:
        pinned = reference.rpartition("@")[2]
        if _DIGEST.fullmatch(pinned):
            return pinned
        try:
            return (self.root / "tags" / quote(normalise(reference), safe=":")).read_text().strip()
        except OSError as error:
            raise self._missing(reference, f"no such name in {self.root}") from error

    def _verify(self, reference: str, path: Path, expected: str) -> None:
        """Hash once; again only when the file is another one or was written to."""
        try:
            seen = path.stat()
            stamp = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if self._verified.get(path) == stamp:
                return
            actual = sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise self._missing(reference, f"{path} cannot be read: {error.strerror}") from error
        if actual != expected:
            raise self._corrupt(reference, path)
        self._verified[path] = stamp

    def _missing(self, reference: str, why: str) -> ImageNotFound:
        known = ", ".join(image.reference for image in self.list()) or "none"
        return ImageNotFound(
            f"image {reference} is not on this node ({why}; images here: {known}); "
            "build the micro image with `copepod image build`"
        )

    def _corrupt(self, reference: str, path: Path) -> ImageNotFound:
        return ImageNotFound(
            f"image {reference} is damaged: {path} does not match its digest, so it will not be booted; "
            "build it again with `copepod image build`"
        )


def normalise(reference: str) -> str:
    """A reference without a tag means `:latest`, as everywhere."""
    return reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    # Whatever the umask: QEMU, under a user of its own, reads it too.
    path.chmod(0o644)
