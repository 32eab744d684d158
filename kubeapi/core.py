"""The core/v1 types that Copepod reads and writes, with Kubernetes 1.36's names. Undeclared fields are kept."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from kubeapi.meta import Condition, KubeModel, KubeObject, Timestamp
from kubeapi.requirements import ContainerResizePolicy as ContainerResizePolicy
from kubeapi.requirements import ResourceList as ResourceList
from kubeapi.requirements import ResourceRequirements as ResourceRequirements
from kubeapi.requirements import VolumeDevice, VolumeMount
from kubeapi.scheduling import Affinity, PodSchedulingGate, TopologySpreadConstraint
from kubeapi.virtualmachine import VirtualMachine as VirtualMachine
from kubeapi.virtualmachine import VirtualMachineStatus as VirtualMachineStatus


class EnvVar(KubeModel):
    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class ContainerPort(KubeModel):
    name: str | None = None
    container_port: int = 0
    host_port: int | None = None
    host_ip: str | None = None
    protocol: str | None = None


class Container(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"restartPolicyRules"})
    name: str = ""
    image: str = ""
    command: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    working_dir: str | None = None
    env: list[EnvVar] = Field(default_factory=list)
    env_from: list[dict[str, Any]] = Field(default_factory=list)
    ports: list[ContainerPort] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    resize_policy: list[ContainerResizePolicy] = Field(default_factory=list)
    restart_policy: str | None = None
    """Of an init container: `Always` makes it a sidecar."""
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    volume_devices: list[VolumeDevice] = Field(default_factory=list)
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: dict[str, Any] | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    """Input ends with the first client that was attached."""
    tty: bool | None = None

    @property
    def requests(self) -> dict[str, str]:
        """Empty where none are given. Read only."""
        return self.resources.requests if self.resources else {}

    @property
    def limits(self) -> dict[str, str]:
        """Empty where none are given. Read only."""
        return self.resources.limits if self.resources else {}


class Toleration(KubeModel):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset(
        {
            "dnsConfig", "hostAliases", "hostIPC", "hostPID", "hostUsers", "hostnameOverride", "resourceClaims",
            "schedulingGroup", "setHostnameAsFQDN", "shareProcessNamespace", "workloadRef",
        }
    )  # fmt: skip
    containers: list[Container] = Field(default_factory=list)
    virtual_machine: VirtualMachine | None = None
    """Arktos' form: the pod is this one VM, and its one container says so again (`kubeapi.virtualmachineform`)."""
    init_containers: list[Container] = Field(default_factory=list)
    ephemeral_containers: list[dict[str, Any]] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    """Pod-level resources."""
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str | None = None
    node_name: str | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    affinity: Affinity | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] = Field(default_factory=list)
    tolerations: list[Toleration] = Field(default_factory=list)
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    overhead: ResourceList = Field(default_factory=dict)
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    host_network: bool | None = None
    hostname: str | None = None
    subdomain: str | None = None
    volumes: list[dict[str, Any]] = Field(default_factory=list)
    security_context: dict[str, Any] | None = None
    image_pull_secrets: list[dict[str, Any]] = Field(default_factory=list)
    readiness_gates: list[dict[str, Any]] = Field(default_factory=list)
    scheduling_gates: list[PodSchedulingGate] = Field(default_factory=list)
    enable_service_links: bool | None = None
    os: dict[str, Any] | None = None


class ContainerStateWaiting(KubeModel):
    reason: str | None = None
    message: str | None = None


class ContainerStateRunning(KubeModel):
    started_at: Timestamp | None = None


class ContainerStateTerminated(KubeModel):
    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    container_id: str | None = None


class ContainerState(KubeModel):
    """Exactly one is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"allocatedResourcesStatus", "stopSignal", "user", "volumeMounts"})
    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str | None = None
    started: bool | None = None
    allocated_resources: ResourceList = Field(default_factory=dict)
    """Requests that the node has admitted."""
    resources: ResourceRequirements | None = None
    """What is in force."""


class PodCondition(Condition):
    last_probe_time: Timestamp | None = None


class PodIP(KubeModel):
    ip: str = ""


class PodStatus(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset(
        {"extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses", "resourceClaimStatuses"}
    )
    observed_generation: int | None = None
    phase: str | None = None
    conditions: list[PodCondition] = Field(default_factory=list)
    message: str | None = None
    reason: str | None = None
    nominated_node_name: str | None = None
    host_ip: str | None = None
    host_ips: list[PodIP] = Field(default_factory=list)
    pod_ip: str | None = None
    pod_ips: list[PodIP] = Field(default_factory=list)
    start_time: Timestamp | None = None
    init_container_statuses: list[ContainerStatus] = Field(default_factory=list)
    container_statuses: list[ContainerStatus] = Field(default_factory=list)
    ephemeral_container_statuses: list[ContainerStatus] = Field(default_factory=list)
    virtual_machine_status: VirtualMachineStatus | None = None
    qos_class: str | None = None
    resize: str | None = None
    allocated_resources: ResourceList = Field(default_factory=dict)
    resources: ResourceRequirements | None = None

    def condition(self, kind: str) -> PodCondition | None:
        return next((item for item in self.conditions if item.type == kind), None)


class Pod(KubeObject):
    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)


class Taint(KubeModel):
    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: Timestamp | None = None


class NodeSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"configSource", "externalID"})
    pod_cidr: str | None = None
    pod_cidrs: list[str] = Field(default_factory=list)
    provider_id: str | None = None
    unschedulable: bool | None = None
    taints: list[Taint] = Field(default_factory=list)


class NodeCondition(Condition):
    last_heartbeat_time: Timestamp | None = None


class NodeAddress(KubeModel):
    type: str = ""
    address: str = ""


class NodeSystemInfo(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"swap"})
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class ContainerImage(KubeModel):
    names: list[str] = Field(default_factory=list)
    size_bytes: int | None = None


class NodeStatus(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset(
        {"config", "features", "runtimeHandlers", "volumesAttached", "volumesInUse"}
    )
    capacity: ResourceList = Field(default_factory=dict)
    allocatable: ResourceList = Field(default_factory=dict)
    phase: str | None = None
    conditions: list[NodeCondition] = Field(default_factory=list)
    addresses: list[NodeAddress] = Field(default_factory=list)
    daemon_endpoints: dict[str, Any] | None = None
    node_info: NodeSystemInfo | None = None
    images: list[ContainerImage] = Field(default_factory=list)
    declared_features: list[str] = Field(default_factory=list)
    """What the node can do beyond the baseline, e.g. `InPlacePodVerticalScalingInitContainers`."""

    def condition(self, kind: str) -> NodeCondition | None:
        return next((item for item in self.conditions if item.type == kind), None)


class Node(KubeObject):
    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)


class NamespaceSpec(KubeModel):
    finalizers: list[str] = Field(default_factory=list)


class NamespaceStatus(KubeModel):
    phase: str | None = None
    conditions: list[Condition] = Field(default_factory=list)


class Namespace(KubeObject):
    api_version: str = "v1"
    kind: str = "Namespace"
    spec: NamespaceSpec = Field(default_factory=NamespaceSpec)
    status: NamespaceStatus = Field(default_factory=NamespaceStatus)


class ObjectReference(KubeModel):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class EventSource(KubeModel):
    component: str | None = None
    host: str | None = None


class Event(KubeObject):
    api_version: str = "v1"
    kind: str = "Event"
    involved_object: ObjectReference = Field(default_factory=ObjectReference)
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None
    count: int | None = None
    type: str | None = None
    """`Normal` or `Warning`."""
    event_time: Timestamp | None = None
    action: str | None = None
    series: dict[str, Any] | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


class ConfigMap(KubeObject):
    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: dict[str, str] = Field(default_factory=dict)
    binary_data: dict[str, str] = Field(default_factory=dict)
    immutable: bool | None = None


class Secret(KubeObject):
    api_version: str = "v1"
    kind: str = "Secret"
    data: dict[str, str] = Field(default_factory=dict)
    """Base64."""
    string_data: dict[str, str] = Field(default_factory=dict)
    """Write only: merged into `data` when stored."""
    type: str | None = None
    immutable: bool | None = None


class ServiceAccount(KubeObject):
    api_version: str = "v1"
    kind: str = "ServiceAccount"
    secrets: list[ObjectReference] = Field(default_factory=list)
    image_pull_secrets: list[dict[str, Any]] = Field(default_factory=list)
    automount_service_account_token: bool | None = None


class LimitRangeItem(KubeModel):
    type: str = ""
    """`Container` or `Pod`."""
    max: ResourceList = Field(default_factory=dict)
    min: ResourceList = Field(default_factory=dict)
    default: ResourceList = Field(default_factory=dict)
    default_request: ResourceList = Field(default_factory=dict)
    max_limit_request_ratio: ResourceList = Field(default_factory=dict)


class LimitRangeSpec(KubeModel):
    limits: list[LimitRangeItem] = Field(default_factory=list)


class LimitRange(KubeObject):
    api_version: str = "v1"
    kind: str = "LimitRange"
    spec: LimitRangeSpec = Field(default_factory=LimitRangeSpec)


class LeaseSpec(KubeModel):
    also: ClassVar[frozenset[str]] = frozenset({"preferredHolder", "strategy"})
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Timestamp | None = None
    renew_time: Timestamp | None = None
    lease_transitions: int | None = None


class Lease(KubeObject):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = Field(default_factory=LeaseSpec)


class Binding(KubeObject):
    """Sent to a pod's `binding` subresource by a scheduler."""

    api_version: str = "v1"
    kind: str = "Binding"
    target: ObjectReference = Field(default_factory=ObjectReference)
