"""What a lab remembers in its state directory, so that starting it again resumes the same cluster.

<state>/lab.json      ports, secrets and shape (this module)
<state>/lock          held while a lab runs here
<state>/broker/       mosquitto's files
<state>/hub/          cloudhub's settings and store, the kubeconfig
<state>/nodes/<name>/ one agent's settings and store
<state>/log/  run/    logs and pids of the children
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from edgelab.faults import node_address
from metastore.files import write_whole

CLUSTER = "lab"
"""The name in the topics. Labs never share a broker, so one name serves them all."""


HUB = "hub"
"""The hub, among links and disks that are otherwise called by their nodes' names."""
EARLY = {"lock", "lab.json.new"}
"""Files that are there before lab.json is."""


class StateError(Exception):
    """The state directory cannot be used as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are under one state directory."""

    root: Path

    @property
    def facts(self) -> Path:
        return self.root / "lab.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def broker(self) -> Path:
        return self.root / "broker"

    @property
    def hub(self) -> Path:
        return self.root / "hub"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def fleet(self) -> Path:
        return self.root / "fleet"

    def node(self, name: str) -> Path:
        return self.nodes / name

    def log(self, name: str) -> Path:
        return self.root / "log" / f"{name}.log"

    def pid_file(self, name: str) -> Path:
        return self.root / "run" / f"{name}.pid"


@dataclass(frozen=True, slots=True)
class LabFacts:
    """Chosen once, and kept."""

    fake_vms: bool
    nodes: int
    api_port: int
    broker_port: int
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    lab_pid: int = 0
    """The process that runs, or last ran, this lab: link cuts are made in its name."""

    @property
    def node_names(self) -> tuple[str, ...]:
        return node_names(self.nodes)

    def address(self, node: str) -> str:
        return node_address(self.node_names.index(node))


def node_names(count: int) -> tuple[str, ...]:
    return tuple(f"node-{number}" for number in range(1, count + 1))


def default_state() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/copepod-lab")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "copepod-lab"


def load(layout: Layout) -> LabFacts | None:
    """None where no lab has been. Raises StateError."""
    try:
        return LabFacts(**json.loads(layout.facts.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise StateError(
            f"{layout.facts} is not readable ({error}): choose another --state, or remove it with"
            f" `copepod clean --state {layout.root}`"
        ) from error
    except OSError as error:
        raise StateError(f"cannot read {layout.facts}: {error.strerror}") from error


def is_lab(layout: Layout) -> bool:
    """Whether there is anything. Raises StateError for a directory that holds something, but no lab.

    One that got no further than its lock is a lab: an `up` that was refused or killed early leaves that.
    """
    try:
        found = {path.name for path in layout.root.iterdir()}
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"cannot look into {layout.root}: {error.strerror}; try with sudo") from error
    if layout.facts.name not in found and found - EARLY:
        raise StateError(f"{layout.root} is not a lab's state directory (it has no lab.json): not touching it")
    return True


def save(layout: Layout, facts: LabFacts) -> None:
    write_whole(layout.facts, json.dumps(asdict(facts), indent=1) + "\n", mode=0o600)


def with_passwords(facts: LabFacts) -> LabFacts:
    """A secret for the hub and for each node; those that exist stay."""
    users = ("hub", *facts.node_names)
    return replace(facts, passwords={user: secrets.token_urlsafe(24) for user in users} | facts.passwords)


def make_root(layout: Layout) -> None:
    """Raises StateError. Private: it holds secrets and the cluster's admin credential."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateError(f"cannot make the state directory {layout.root}: {error.strerror}") from error


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Hold the state directory. Raises StateError when another lab does; the kernel lets go of it with the process."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StateError(f"cannot use the state directory {layout.root}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StateError(
                f"another copepod (pid {holder}) is using {layout.root}: stop it first, or choose another --state"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
