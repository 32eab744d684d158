"""The columns that `kubectl get` shows, as its users know them (recorded in tests/data/kubernetes/api/table_*.json).

Where a virtual machine (Arktos' form) is among the pods, `-o wide` has three more: its power, and what it has of what
it wishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeapi.ages import UNKNOWN, age
from kubeapi.core import (
    ConfigMap,
    ContainerState,
    ContainerStatus,
    Event,
    Lease,
    LimitRange,
    Namespace,
    Node,
    Pod,
    ResourceRequirements,
    Secret,
    ServiceAccount,
)
from kubeapi.podresources import is_sidecar
from kubeapi.resource import AGE_COLUMN, NAME_COLUMN, Cell, Column, Table

NONE = "<none>"
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _wide(name: str) -> Column:
    return Column(name, priority=1)


def _pod_cells(pod: Pod, now: datetime) -> Sequence[Cell]:
    spec, status = pod.spec, pod.status
    sidecars = {item.name for item in spec.init_containers if is_sidecar(item)}
    counted = [
        *(item for item in status.init_container_statuses if item.name in sidecars),
        *status.container_statuses,
    ]
    ready = sum(item.ready and _running(item) for item in counted)
    gates = [str(gate.get("conditionType", "")) for gate in spec.readiness_gates]
    open_gates = sum(_is_true(pod, gate) for gate in gates)
    return (
        pod.metadata.name,
        f"{ready}/{len(spec.containers) + len(sidecars)}",
        pod_status(pod),
        _restarts(counted, status.init_container_statuses, now),
        age(pod.metadata.creation_timestamp, now),
        (status.pod_ips[0].ip if status.pod_ips else status.pod_ip) or NONE,
        spec.node_name or NONE,
        status.nominated_node_name or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    )


def _machine_cells(pod: Pod, now: datetime) -> Sequence[Cell]:
    """After a pod's own: power as the hypervisor has it; of CPU and memory what is allocated, and what is wished."""
    vm, status = pod.spec.virtual_machine, pod.status.virtual_machine_status
    if vm is None:
        return (*_pod_cells(pod, now), NONE, NONE, NONE)
    has = status.allocated_resources if status else None
    sizes = (f"{_size(has, name)}/{_size(vm.resources, name)}" for name in ("cpu", "memory"))
    return (*_pod_cells(pod, now), (status.power_state if status else None) or UNKNOWN, *sizes)


def _size(resources: ResourceRequirements | None, name: str) -> str:
    """A VM is as large as its limit, else its request."""
    if resources is None:
        return NONE
    return resources.limits.get(name) or resources.requests.get(name) or NONE


_POD_COLUMNS = (
    NAME_COLUMN,
    Column("Ready"),
    Column("Status"),
    Column("Restarts"),
    AGE_COLUMN,
    _wide("IP"),
    _wide("Node"),
    _wide("Nominated Node"),
    _wide("Readiness Gates"),
)
PODS = Table(
    _POD_COLUMNS,
    _pod_cells,
    wider=Table((*_POD_COLUMNS, _wide("Power"), _wide("VM CPU"), _wide("VM Memory")), _machine_cells),
    needs=lambda pod: pod.spec.virtual_machine is not None,
)


def pod_status(pod: Pod) -> str:
    """The one word in the Status column: the most telling of phase, container states and deletion."""
    word = pod.status.reason or pod.status.phase or ""
    scheduled = pod.status.condition("PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        word = "SchedulingGated"
    initialising = _initialising(pod)
    word = initialising or _containers_word(pod, word)
    if pod.metadata.deletion_timestamp:
        if pod.status.reason == "NodeLost":
            return "Unknown"
        if pod.status.phase not in ("Failed", "Succeeded"):
            return "Terminating"
    return word


def _initialising(pod: Pod) -> str:
    """What the first init container that is not through shows, or nothing when all are."""
    sidecars = {item.name for item in pod.spec.init_containers if is_sidecar(item)}
    for index, status in enumerate(pod.status.init_container_statuses):
        state = status.state or ContainerState()
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if status.name in sidecars and status.started:
            continue
        if state.terminated is not None:
            return f"Init:{_ended(state)}"
        if state.waiting is not None and state.waiting.reason not in (None, "", "PodInitializing"):
            return f"Init:{state.waiting.reason}"
        return f"Init:{index}/{len(pod.spec.init_containers)}"
    return ""


def _containers_word(pod: Pod, word: str) -> str:
    running = False
    for status in reversed(pod.status.container_statuses):
        state = status.state or ContainerState()
        if state.waiting is not None and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated is not None:
            word = _ended(state)
        elif status.ready and state.running is not None:
            running = True
    if word == "Completed" and running:
        return "Running" if _is_true(pod, "Ready") else "NotReady"
    return word


def _ended(state: ContainerState) -> str:
    ended = state.terminated
    if ended is None:
        return ""
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


def _restarts(counted: Sequence[ContainerStatus], init: Sequence[ContainerStatus], now: datetime) -> str:
    statuses = list({id(item): item for item in (*counted, *init)}.values())
    total = sum(item.restart_count for item in statuses)
    ended = [
        item.last_state.terminated.finished_at
        for item in statuses
        if item.last_state and item.last_state.terminated and item.last_state.terminated.finished_at
    ]
    return f"{total} ({age(max(ended), now)} ago)" if total and ended else str(total)


def _running(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.running is not None


def _is_true(pod: Pod, kind: str) -> bool:
    condition = pod.status.condition(kind)
    return condition is not None and condition.status == "True"


def _node_cells(node: Node, now: datetime) -> Sequence[Cell]:
    ready = node.status.condition("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.status == "True" else "NotReady"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    info = node.status.node_info
    return (
        node.metadata.name,
        ",".join(words),
        ",".join(_roles(node)) or NONE,
        age(node.metadata.creation_timestamp, now),
        info.kubelet_version if info else "",
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        (info.os_image if info else "") or UNKNOWN,
        _kernel(node),
        (info.container_runtime_version if info else "") or UNKNOWN,
    )


NODES = Table(
    (
        NAME_COLUMN,
        Column("Status"),
        Column("Roles"),
        AGE_COLUMN,
        Column("Version"),
        _wide("Internal-IP"),
        _wide("External-IP"),
        _wide("OS-Image"),
        _wide("Kernel-Version"),
        _wide("Container-Runtime"),
    ),
    _node_cells,
)


def _kernel(node: Node) -> str:
    info = node.status.node_info
    if info is None or not info.kernel_version:
        return UNKNOWN
    return f"{info.kernel_version} ({info.architecture})" if info.architecture else info.kernel_version


def _address(node: Node, kind: str) -> str:
    return next((item.address for item in node.status.addresses if item.type == kind), NONE)


def _roles(node: Node) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in node.metadata.labels if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {node.metadata.labels.get(_ROLE_LABEL, "")}) - {""})


def _event_cells(event: Event, now: datetime) -> Sequence[Cell]:
    first = event.first_timestamp or event.event_time
    last = event.last_timestamp or _series_time(event) or first
    about = event.involved_object
    source = event.source
    component = (source.component if source else None) or event.reporting_component or ""
    where = (source.host if source else None) or event.reporting_instance or ""
    return (
        age(last, now),
        event.type or "",
        event.reason or "",
        f"{(about.kind or '').lower()}/{about.name}" if about.name else (about.kind or "").lower(),
        about.field_path or "",
        f"{component}, {where}" if where else component,
        (event.message or "").strip(),
        age(first, now),
        (event.series or {}).get("count") or event.count or 1,
        event.metadata.name,
    )


EVENTS = Table(
    (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        _wide("Subobject"),
        _wide("Source"),
        Column("Message"),
        _wide("First Seen"),
        Column("Count", type="integer", priority=1),
        Column("Name", format="name", priority=1),
    ),
    _event_cells,
)


def _series_time(event: Event) -> str | None:
    value = (event.series or {}).get("lastObservedTime")
    return value if isinstance(value, str) else None


def _namespace_cells(item: Namespace, now: datetime) -> Sequence[Cell]:
    return (item.metadata.name, item.status.phase or "", age(item.metadata.creation_timestamp, now))


NAMESPACES = Table((NAME_COLUMN, Column("Status"), AGE_COLUMN), _namespace_cells)


def _configmap_cells(item: ConfigMap, now: datetime) -> Sequence[Cell]:
    count = len(item.data) + len(item.binary_data)
    return (item.metadata.name, count, age(item.metadata.creation_timestamp, now))


CONFIGMAPS = Table((NAME_COLUMN, Column("Data", type="integer"), AGE_COLUMN), _configmap_cells)


def _secret_cells(item: Secret, now: datetime) -> Sequence[Cell]:
    return (item.metadata.name, item.type or "", len(item.data), age(item.metadata.creation_timestamp, now))


SECRETS = Table((NAME_COLUMN, Column("Type"), Column("Data", type="integer"), AGE_COLUMN), _secret_cells)


def _service_account_cells(item: ServiceAccount, now: datetime) -> Sequence[Cell]:
    return (item.metadata.name, len(item.secrets), age(item.metadata.creation_timestamp, now))


SERVICE_ACCOUNTS = Table((NAME_COLUMN, Column("Secrets", type="integer"), AGE_COLUMN), _service_account_cells)


def _lease_cells(item: Lease, now: datetime) -> Sequence[Cell]:
    return (item.metadata.name, item.spec.holder_identity or "", age(item.metadata.creation_timestamp, now))


LEASES = Table((NAME_COLUMN, Column("Holder"), AGE_COLUMN), _lease_cells)


def _limit_range_cells(item: LimitRange, now: datetime) -> Sequence[Cell]:
    return (item.metadata.name, item.metadata.creation_timestamp or UNKNOWN)


LIMIT_RANGES = Table((NAME_COLUMN, Column("Created At")), _limit_range_cells)
