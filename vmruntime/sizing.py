"""Which memory sizes a guest survives, and what a VM costs its host beyond them.

The table is measured (docs/vm-lore.md, numbers 3 and 9): each plugged MiB costs the guest 1/64 MiB of page
structures out of its *base* memory, and a kernel needs some base to come up at all. A small base with a
large maximum boots and then dies when it is grown, so such pairs are refused before they exist.
"""

from __future__ import annotations

from vmruntime.api import MEMORY_STEP_MIB, InvalidSpec

BASE_FOR_MAXIMUM: tuple[tuple[int, int], ...] = ((96, 512), (128, 2048), (256, 4096), (512, 16384))
"""(base, largest maximum it carries), MiB, rising."""
SMALLEST_MIB = BASE_FOR_MAXIMUM[0][0]
LARGEST_MIB = BASE_FOR_MAXIMUM[-1][1]

OVERHEAD_MIB = {"tcg": 112, "kvm": 48}
"""Budget for one VM beyond its guest memory. TCG: the VMM with a 32 MiB translation cache was seen at up to
95 MiB above the guest, plus what one more device or a busy monitor takes. KVM: no translation cache. A
budget, never a sample: a quiet VM shows less, and admission must not lend out the difference."""


def round_up(mib: int) -> int:
    """To the next size the device can have."""
    return -(-mib // MEMORY_STEP_MIB) * MEMORY_STEP_MIB


def choose_base(size_mib: int, max_mib: int) -> int:
    """The smallest base with which a guest of `size_mib` can later be anything up to `max_mib`.

    Raises InvalidSpec naming the limit that is crossed.
    """
    if size_mib < SMALLEST_MIB:
        raise InvalidSpec(f"memory {size_mib} MiB is below {SMALLEST_MIB} MiB, the least a guest boots with")
    if max_mib < size_mib:
        raise InvalidSpec(f"maximum {max_mib} MiB is below the size asked for, {size_mib} MiB")
    if max_mib > LARGEST_MIB:
        raise InvalidSpec(f"maximum {max_mib} MiB is beyond {LARGEST_MIB} MiB, the largest a small VM can grow to")
    base = next(base for base, carries in BASE_FOR_MAXIMUM if max_mib <= carries)
    if base > size_mib:
        raise InvalidSpec(
            f"a VM of {size_mib} MiB cannot have a maximum of {max_mib} MiB, which needs at least {base} MiB at boot; "
            f"the largest maximum for {size_mib} MiB is {largest_maximum(size_mib)} MiB"
        )
    return base


def largest_maximum(size_mib: int) -> int:
    """How far a VM that boots with `size_mib` may ever grow. Raises InvalidSpec below the smallest size."""
    fitting = [carries for base, carries in BASE_FOR_MAXIMUM if base <= size_mib]
    if not fitting:
        raise InvalidSpec(f"memory {size_mib} MiB is below {SMALLEST_MIB} MiB, the least a guest boots with")
    return fitting[-1]
