"""The hub's settings: one TOML file, every key optional, unknown keys refused by name.

configs/cloudhub.toml shows every key with its default and what it means; a test keeps the two in step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kubeapi.config import Section, check_tls_files, load_settings, read_secret

STORE_FILE = "hub.db"
"""In state_dir, unless the store is a PostgreSQL database."""

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0)]


class ApiSettings(Section):
    address: str = "127.0.0.1"
    port: Port = 6443
    """0 = any free port; ready.json says which."""
    names: tuple[str, ...] = ()
    """Further host names and addresses for the server certificate."""
    enforce_rbac: bool = False
    """Otherwise every authenticated user may do everything, and `kubectl auth can-i` says what RBAC would allow."""


class BrokerSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 1883
    username: str | None = None
    password_file: Path | None = None
    """Read at start; never in the settings themselves, which end up in backups and tickets."""
    ca_file: Path | None = None
    """With it the connection to the broker uses TLS and trusts this CA only."""

    def password(self) -> str | None:
        """Raises SettingsError when the file cannot be read."""
        return read_secret("broker.password_file", self.password_file)

    def check_tls(self) -> None:
        """Raises SettingsError when the CA's file cannot be used."""
        check_tls_files("broker", self.ca_file)


class StoreSettings(Section):
    url: Annotated[str, Field(pattern=r"^postgres(ql)?://")] | None = None
    """A PostgreSQL database, of this hub alone (a second one is refused); None: SQLite in `state_dir`. The password
    belongs into the file that `passfile` in the URL names (libpq's), never in here."""
    history: Annotated[int, Field(ge=100)] = 10_000
    """Revisions kept: what watchers and offline nodes can resume from without a full list or snapshot."""
    compact_interval: Seconds = 300.0


class NodeSettings(Section):
    lease_timeout: Seconds = 40.0
    """Seconds without a sign of life after which a node's Ready condition becomes Unknown."""


class EventSettings(Section):
    max_age: Seconds = 3600.0
    """Seconds since the hub last saw the Event change (by its own monotonic clock)."""
    max_per_namespace: Annotated[int, Field(ge=1)] = 1000


class Settings(Section):
    state_dir: Path = Path("/var/lib/copepod/hub")
    cluster: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "copepod"
    """First level of the MQTT topics after `copepod/`: lets several hubs share a broker."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    api: ApiSettings = ApiSettings()
    broker: BrokerSettings = BrokerSettings()
    store: StoreSettings = StoreSettings()
    nodes: NodeSettings = NodeSettings()
    events: EventSettings = EventSettings()


def load(path: str | os.PathLike[str]) -> Settings:
    """Read and check a settings file. Raises SettingsError."""
    return load_settings(Settings, path)
