"""The node's settings: one TOML file, every key but the node's name optional, unknown keys refused by name.

configs/edgecore.toml shows every key with its default and what it means; a test keeps the two in step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from kubeapi import quantity
from kubeapi.config import Section, check_tls_files, load_settings, read_secret

Seconds = Annotated[float, Field(gt=0)]


def _cpu(value: Any) -> Any:
    return quantity.cpu_millis(str(value))


def _memory(value: Any) -> Any:
    return quantity.memory_bytes(str(value))


Millicores = Annotated[int, BeforeValidator(_cpu), Field(ge=0)]
"""Written as a Kubernetes quantity: `2`, `500m`."""
Bytes = Annotated[int, BeforeValidator(_memory), Field(ge=0)]
"""Written as a Kubernetes quantity: `512Mi`."""


class NodeSettings(Section):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
    labels: dict[str, str] = Field(default_factory=dict)
    address: str | None = None
    """InternalIP in the node's status; None: the address that packets to the broker leave from."""
    cpu: Millicores | None = None
    """Capacity; None: the host's."""
    memory: Bytes | None = None
    reserved_cpu: Millicores = 0
    """Kept from pods, for the host itself: allocatable = capacity - reserved."""
    reserved_memory: Bytes = 256 << 20
    max_pods: Annotated[int, Field(ge=1)] = 110


class BrokerSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 1883
    username: str | None = None
    """None: the node's name."""
    password_file: Path | None = None
    """Read at start; never in the settings themselves, which end up in backups and tickets."""
    ca_file: Path | None = None
    """With it the connection uses TLS and trusts this CA only."""
    cert_file: Path | None = None
    key_file: Path | None = None
    bind_address: str = ""
    """Local address to connect from, on a box with several."""
    keepalive: Annotated[int, Field(ge=5)] = 12

    @model_validator(mode="after")
    def _whole_tls(self) -> Self:
        """Half a TLS configuration must not end as a connection without any."""
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        if self.cert_file is not None and self.ca_file is None:
            raise ValueError("cert_file needs ca_file: without it the connection would not use TLS")
        return self

    def password(self) -> str | None:
        """Raises SettingsError when the file cannot be read."""
        return read_secret("broker.password_file", self.password_file)

    def check_tls(self) -> None:
        """Raises SettingsError when a file of TLS cannot be used."""
        check_tls_files("broker", self.ca_file, self.cert_file, self.key_file)


class FakeSettings(Section):
    """The pretended host of `runtime.driver = "fake"`."""

    cpus: Annotated[int, Field(ge=1)] = 16
    memory: Bytes = 64 << 30
    boot_seconds: Annotated[float, Field(ge=0)] = 1.0
    file: Path | None = None
    """Where its VMs outlive the agent; None: in the agent's state directory."""


class RuntimeSettings(Section):
    driver: Literal["libvirt", "fake"] = "libvirt"
    uri: str = "qemu:///system"
    images: Path | None = None
    """The image store; None: COPEPOD_IMAGES, else /var/lib/copepod/images."""
    allow_emulation: bool = True
    """Run guests under emulation where KVM does not run them; otherwise the node says so and starts none."""
    prepare_host: bool = False
    """Let the agent put right what it may at start (permissions of /dev/kvm)."""
    fake: FakeSettings = FakeSettings()


class PolicySettings(Section):
    default_memory: Bytes = 128 << 20
    """Guest memory of a container that names neither limit nor request."""
    max_cpus: Annotated[int, Field(ge=1, le=255)] = 4
    """vCPUs that a VM can grow to without an annotation (never more than the host has, nor less than its limit)."""


class LeaseSettings(Section):
    interval: Seconds = 10.0


class Settings(Section):
    node: NodeSettings
    state_dir: Path = Path("/var/lib/copepod/node")
    cluster: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "copepod"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    broker: BrokerSettings = BrokerSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    policy: PolicySettings = PolicySettings()
    lease: LeaseSettings = LeaseSettings()


def load(path: str | os.PathLike[str]) -> Settings:
    """Read and check a settings file. Raises SettingsError."""
    return load_settings(Settings, path)
