"""The node's settings: one TOML file, every key but the node's name optional, unknown keys refused by name.

configs/edgecore.toml shows every key with its default and what it means; a test keeps the two in step.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kubeapi import quantity

Seconds = Annotated[float, Field(gt=0)]


class SettingsError(Exception):
    """The configuration cannot be used; the message names file, key and reason."""


def _cpu(value: Any) -> Any:
    return quantity.cpu_millis(str(value))


def _memory(value: Any) -> Any:
    return quantity.memory_bytes(str(value))


Millicores = Annotated[int, BeforeValidator(_cpu), Field(ge=0)]
"""Written as a Kubernetes quantity: `2`, `500m`."""
Bytes = Annotated[int, BeforeValidator(_memory), Field(ge=0)]
"""Written as a Kubernetes quantity: `512Mi`."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeSettings(_Section):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
    labels: dict[str, str] = {}
    address: str | None = None
    """InternalIP in the node's status; None: the address that packets to the broker leave from."""
    cpu: Millicores | None = None
    """Capacity; None: the host's."""
    memory: Bytes | None = None
    reserved_cpu: Millicores = 0
    """Kept from pods, for the host itself: allocatable = capacity - reserved."""
    reserved_memory: Bytes = 256 << 20
    max_pods: Annotated[int, Field(ge=1)] = 110


class BrokerSettings(_Section):
    host: str = "127.0.0.1"
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

    def password(self) -> str | None:
        """Raises SettingsError when the file cannot be read."""
        if self.password_file is None:
            return None
        try:
            return self.password_file.read_text().strip()
        except OSError as error:
            raise SettingsError(f"broker.password_file: cannot read {self.password_file}: {error}") from error


class FakeSettings(_Section):
    """The pretended host of `runtime.driver = "fake"`."""

    cpus: Annotated[int, Field(ge=1)] = 16
    memory: Bytes = 64 << 30
    boot_seconds: Annotated[float, Field(ge=0)] = 1.0


class RuntimeSettings(_Section):
    driver: Literal["libvirt", "fake"] = "libvirt"
    uri: str = "qemu:///system"
    images: Path | None = None
    """The image store; None: COPEPOD_IMAGES, else /var/lib/copepod/images."""
    allow_emulation: bool = True
    """Run guests under emulation where KVM does not run them; otherwise the node says so and starts none."""
    prepare_host: bool = False
    """Let the agent put right what it may at start (permissions of /dev/kvm)."""
    fake: FakeSettings = FakeSettings()


class PolicySettings(_Section):
    default_memory: Bytes = 128 << 20
    """Guest memory of a container that names neither limit nor request."""
    max_cpus: Annotated[int, Field(ge=1, le=255)] = 4
    """vCPUs that a VM can grow to without an annotation (never more than the host has, nor less than its limit)."""


class LeaseSettings(_Section):
    interval: Seconds = 10.0


class Settings(_Section):
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
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from error
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {line}" for line in _problems(error))) from error


def _problems(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{key}: is required")
        else:
            lines.append(f"{key}: {problem['msg']} (got {problem['input']!r})")
    return lines
