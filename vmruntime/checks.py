"""What every runtime refuses in the same words, whatever stands behind it. Pure."""

from __future__ import annotations

import re
from uuid import UUID

from vmruntime.api import (
    CPU_QUOTA_MIN_MILLICORES,
    MEMORY_STEP_MIB,
    Image,
    InvalidSpec,
    ResizeInfeasible,
    ResizeRefused,
    VmSpec,
)
from vmruntime.sizing import choose_base

SHRINK_MARGIN_MIB = 32
"""Kept free above what the guest uses when it shrinks: less, and its OOM killer runs (docs/vm-lore.md, number 8). The
smallest guests have little more than that to spare when idle, so it is never more than a quarter of the new size."""
VCPUS_LIMIT = 64
GIVEN_LIMIT = 64 * 1024
"""Bytes of command and environment. They reach QEMU, quoted and in base64, as one argument, of which Linux takes
128 KiB."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_spec(spec: VmSpec, image: Image) -> None:
    """Raises InvalidSpec where the wish can never be met."""
    where = f"VM {spec.name}"
    if not _NAME.fullmatch(spec.name):
        raise InvalidSpec(
            f"VM name {spec.name!r} must be 1-63 of letters, digits and -._, beginning with a letter or digit"
        )
    try:
        canonical = str(UUID(spec.uuid))
    except ValueError as error:
        raise InvalidSpec(f"{where}: {spec.uuid!r} is not a UUID") from error
    if canonical != spec.uuid:
        raise InvalidSpec(f"{where}: write the UUID {spec.uuid!r} as {canonical}")
    if not 1 <= spec.vcpus_max <= VCPUS_LIMIT:
        raise InvalidSpec(f"{where}: {spec.vcpus_max} vCPUs asked for; 1 to {VCPUS_LIMIT} are possible")
    if not 1 <= spec.vcpus_online <= spec.vcpus_max:
        raise InvalidSpec(f"{where}: {spec.vcpus_online} vCPUs online, but 1 to {spec.vcpus_max} are present")
    check_quota(spec.name, spec.cpu_limit_millicores)
    _check_memory(spec, image)
    given = sum(len(text.encode()) for text in (*spec.command, *(word for pair in spec.env for word in pair)))
    if given > GIVEN_LIMIT:
        raise InvalidSpec(
            f"{where}: command and environment have {given} bytes together; the guest is given at most {GIVEN_LIMIT}"
        )


def check_quota(name: str, limit_millicores: int | None) -> None:
    if limit_millicores is not None and limit_millicores < CPU_QUOTA_MIN_MILLICORES:
        raise InvalidSpec(
            f"VM {name}: a CPU limit of {limit_millicores}m is below {CPU_QUOTA_MIN_MILLICORES}m, "
            "the least that can be enforced"
        )


def _check_memory(spec: VmSpec, image: Image) -> None:
    where = f"VM {spec.name}"
    for word, size in (("base", spec.memory_base_mib), ("size", spec.memory_mib), ("maximum", spec.memory_max_mib)):
        if size % MEMORY_STEP_MIB:
            raise InvalidSpec(f"{where}: memory {word} {size} MiB is not a multiple of {MEMORY_STEP_MIB} MiB")
    if not spec.memory_base_mib <= spec.memory_mib <= spec.memory_max_mib:
        raise InvalidSpec(
            f"{where}: memory must rise from base ({spec.memory_base_mib} MiB) over size ({spec.memory_mib} MiB) "
            f"to maximum ({spec.memory_max_mib} MiB)"
        )
    if spec.memory_base_mib < image.memory_min_mib:
        raise InvalidSpec(
            f"{where}: base memory {spec.memory_base_mib} MiB is below {image.memory_min_mib} MiB, "
            f"the least that image {image.reference} boots with"
        )
    choose_base(spec.memory_base_mib, spec.memory_max_mib)


def fixed_parts(spec: VmSpec) -> tuple[object, ...]:
    """All of a spec that cannot change while the VM runs."""
    sizes = (spec.vcpus_max, spec.memory_base_mib, spec.memory_max_mib)
    # Only where set: what this gives for a VM must not change while it runs on under a newer program.
    more = [f"{name}={value}" for name in ("working_dir", "stdin", "tty") if (value := getattr(spec, name))]
    return (spec.uuid, spec.name, spec.owner, spec.image, spec.attempt, spec.command, spec.env, *sizes, *more)


def check_resize(name: str, size_mib: int, base_mib: int, max_mib: int) -> None:
    """Raises ResizeInfeasible beyond what was fixed at boot, InvalidSpec for a size that no device can have."""
    if size_mib % MEMORY_STEP_MIB:
        raise InvalidSpec(f"VM {name}: memory {size_mib} MiB is not a multiple of {MEMORY_STEP_MIB} MiB")
    if size_mib > max_mib:
        raise ResizeInfeasible(
            f"VM {name} was booted with a maximum of {max_mib} MiB and cannot be {size_mib} MiB; "
            "a restart would allow it"
        )
    if size_mib < base_mib:
        raise ResizeInfeasible(
            f"VM {name} was booted with {base_mib} MiB of base memory and cannot be {size_mib} MiB; "
            "a restart would allow it"
        )


def check_online(name: str, online: int, present: int) -> None:
    """Raises ResizeInfeasible for more CPUs than are present, InvalidSpec for none."""
    if online < 1:
        raise InvalidSpec(f"VM {name}: at least one CPU stays online, {online} asked for")
    if online > present:
        raise ResizeInfeasible(
            f"VM {name} was booted with {present} vCPUs and cannot have {online} online; a restart would allow it"
        )


def check_shrink(name: str, size_mib: int, now_mib: int, used_mib: int) -> None:
    """Raises ResizeRefused when the guest could not live in `size_mib` with the margin kept."""
    margin = min(SHRINK_MARGIN_MIB, size_mib // 4)
    least = used_mib + margin
    if size_mib < now_mib and size_mib < least:
        raise ResizeRefused(
            f"VM {name} cannot shrink to {size_mib} MiB: its guest uses {used_mib} MiB, and with "
            f"{margin} MiB kept free that needs {least} MiB, {least - size_mib} MiB more than asked"
        )
