"""From Kubernetes' amounts to a VM's sizes: pure, one place for every rounding.

Rules (docs/architecture.md, "A pod, here"): guest memory = limits.memory, else requests.memory, else the node's
default; CPUs online = ceil(limits.cpu); what may ever be plugged comes from annotation or policy and is fixed at boot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubeapi import quantity
from kubeapi.core import Container, Pod, ResourceRequirements
from vmruntime.api import CPU_QUOTA_MIN_MILLICORES, MEMORY_STEP_MIB
from vmruntime.sizing import SMALLEST_MIB, largest_maximum

MAX_CPU = "copepod.dev/max-cpu"
MAX_MEMORY = "copepod.dev/max-memory"
DEFAULT_MAX_MEMORY_MIB = 2048
"""How far a guest may grow where nobody said, if its base carries that (a 96 MiB guest: 512 MiB)."""
VCPUS_PER_HOST_CPU = 8
"""A guest with 8 vCPUs came up in seconds on 2 CPUs; one with 64 had not after 45 s, and kept them busy meanwhile."""
_MIB = 1 << 20


class SizeError(ValueError):
    """A wish that can never be met, or an annotation that does not parse. The message names which and why."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A node's defaults for what pods do not say."""

    default_memory_mib: int = 128
    default_max_cpus: int = 4
    host_cpus: int = 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a VM is given now."""

    cpu_limit_millicores: int | None
    cpu_weight_millicores: int
    vcpus_online: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Maxima:
    """What is fixed at boot."""

    vcpus: int
    memory_mib: int


def maxima(pod: Pod, resources: ResourceRequirements | None, policy: Policy) -> Maxima:
    """Raises SizeError."""
    limit = _millis(resources, "limits", "cpu")
    wanted = _ceil(limit, 1000) if limit else 1
    vcpus = max(wanted, min(policy.host_cpus, policy.default_max_cpus))
    if (text := pod.metadata.annotations.get(MAX_CPU)) is not None:
        vcpus = max(wanted, _ceil(_parse(MAX_CPU, text, quantity.cpu_millis), 1000))
    if vcpus > (bound := VCPUS_PER_HOST_CPU * policy.host_cpus):
        raise SizeError(
            f"{vcpus} vCPUs do not boot on a host with {policy.host_cpus} CPUs: at most {bound} in one VM; "
            f"lower limits.cpu or annotation {MAX_CPU}"
        )
    memory = memory_mib(resources, policy)
    most = max(memory, min(DEFAULT_MAX_MEMORY_MIB, largest_maximum(max(memory, SMALLEST_MIB))))
    if (text := pod.metadata.annotations.get(MAX_MEMORY)) is not None:
        most = max(memory, _steps(_parse(MAX_MEMORY, text, quantity.memory_bytes)))
    return Maxima(vcpus, most)


def sizes(resources: ResourceRequirements | None, vcpus_max: int, policy: Policy) -> Sizes:
    """Without a CPU limit every vCPU is online and nothing is capped."""
    limit = _millis(resources, "limits", "cpu") or None
    if limit is not None:
        limit = max(limit, CPU_QUOTA_MIN_MILLICORES)
    online = vcpus_max if limit is None else _ceil(limit, 1000)
    weight = _millis(resources, "requests", "cpu") or limit or 100
    return Sizes(limit, weight, online, memory_mib(resources, policy))


def memory_mib(resources: ResourceRequirements | None, policy: Policy) -> int:
    """A limit is what the guest gets, exactly; a request alone is a floor, so it is raised to what boots."""
    if limit := _bytes(resources, "limits"):
        return _steps(limit)
    if request := _bytes(resources, "requests"):
        return max(_steps(request), SMALLEST_MIB)
    return policy.default_memory_mib


def container_resources(container: Container) -> ResourceRequirements:
    return container.resources or ResourceRequirements()


def _steps(count: int) -> int:
    """Bytes → MiB, up to the next step that the memory device can take."""
    return _ceil(_ceil(count, _MIB), MEMORY_STEP_MIB) * MEMORY_STEP_MIB


def _bytes(resources: ResourceRequirements | None, part: str) -> int:
    text = getattr(resources, part).get("memory") if resources else None
    return quantity.memory_bytes(text) if text is not None else 0


def _millis(resources: ResourceRequirements | None, part: str, name: str) -> int:
    text = getattr(resources, part).get(name) if resources else None
    return quantity.cpu_millis(text) if text is not None else 0


def _parse(annotation: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        value = parse(text)
    except quantity.QuantityError as error:
        raise SizeError(f"annotation {annotation}: {text!r}: {error}") from error
    if value <= 0:
        raise SizeError(f"annotation {annotation}: {text!r} must be greater than 0")
    return value


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)
