"""A pod's container → the runtime's VmSpec, in one pure function."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from edgecore.environment import Surroundings, amounts_of, command, environment
from edgecore.record import PodRecord
from edgecore.sizes import Policy, SizeError, container_resources, maxima, sizes
from kubeapi.core import Container, Pod, ResourceRequirements
from vmruntime.api import InvalidSpec, Owner, VmSpec
from vmruntime.sizing import choose_base

_NAMESPACE = uuid.UUID("9d0f6a52-6f0b-4a55-8b0c-0d1a7c3f5e11")
"""Makes a VM's UUID a function of pod UID and container: found again without any record."""


def vm_uuid(pod_uid: str, container: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{pod_uid}/{container}"))


def vm_name(pod: Pod, container: str) -> str:
    """At most 63 characters, unique by the UUID's first group; readable in `virsh list`."""
    tail = vm_uuid(pod.metadata.uid or "", container).split("-")[0]
    readable = re.sub(r"[^a-zA-Z0-9-]", "-", f"{pod.metadata.namespace}-{pod.metadata.name}-{container}")
    return f"{readable[:50].rstrip('-')}-{tail}"


@dataclass(frozen=True, slots=True)
class Place:
    """What a VM's spec takes from the node that it will run on."""

    installation: str
    policy: Policy
    objects: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """As `environment.Surroundings` has them."""
    address: str = ""


def vm_spec(pod: Pod, container: Container, record: PodRecord, place: Place) -> VmSpec:
    """The VM for the next attempt, at the sizes that the node has admitted. Raises SizeError, EnvError."""
    uid, policy = pod.metadata.uid or "", place.policy
    resources = _resources(container, record)
    most = maxima(pod, resources, policy)
    now = sizes(resources, most.vcpus, policy)
    try:
        base = choose_base(now.memory_mib, most.memory_mib)
    except InvalidSpec as error:
        raise SizeError(f"container {container.name!r}: {error}") from error
    env = environment(pod, container, _around(pod, record, place))
    return VmSpec(
        uuid=vm_uuid(uid, container.name),
        name=vm_name(pod, container.name),
        owner=Owner(place.installation, uid, pod.metadata.namespace or "", pod.metadata.name, container.name),
        image=container.image,
        vcpus_max=most.vcpus,
        vcpus_online=now.vcpus_online,
        cpu_limit_millicores=now.cpu_limit_millicores,
        cpu_weight_millicores=now.cpu_weight_millicores,
        memory_base_mib=base,
        memory_max_mib=most.memory_mib,
        memory_mib=now.memory_mib,
        command=command(container, env),
        env=tuple(env.items()),
        working_dir=container.working_dir or "",
        stdin=bool(container.stdin),
        tty=bool(container.tty),
        attempt=record.container(container.name).attempt,
        document=document(pod, record),
    )


def _resources(container: Container, record: PodRecord) -> ResourceRequirements:
    return record.allocated.get(container.name) or container_resources(container)


def _around(pod: Pod, record: PodRecord, place: Place) -> Surroundings:
    amounts = {}
    for item in pod.spec.containers:
        resources = _resources(item, record)
        vcpus = maxima(pod, resources, place.policy).vcpus
        amounts[item.name] = amounts_of(resources, sizes(resources, vcpus, place.policy))
    pod_ip = record.status.pod_ip if record.status is not None else None
    return Surroundings(place.objects, amounts, place.address, pod_ip or "")


def document(pod: Pod, record: PodRecord) -> bytes:
    """What a lost metastore is rebuilt from: the pod without its status, and the admitted resources."""
    plain = pod.to_dict()
    plain.pop("status", None)
    plain.get("metadata", {}).pop("managedFields", None)
    allocated = {name: resources.to_dict() for name, resources in record.allocated.items()}
    return orjson.dumps({"pod": plain, "allocated": allocated})
