"""Lab scenarios: what to do to a small cluster, step by step, read from YAML (configs/lab/*.yaml).

A scenario says what is done and waited for; what must hold at the end is the same for all (`edgelab.invariants`).
A step is a mapping with one key, its verb. Everything is checked when the file is read: what starts can be played.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edgelab.proxy import Way
from edgelab.settings import LEASE_INTERVAL
from edgelab.state import HUB, StateError, node_names
from kubeapi import quantity

ALL = "all"


class ScenarioError(Exception):
    """The file is no scenario; the message says where and why."""


def _cpu(text: object) -> object:
    quantity.cpu_millis(str(text))
    return str(text)


def _memory(text: object) -> object:
    quantity.memory_bytes(str(text))
    return str(text)


def _several(value: object) -> object:
    """One name stands for a list of one."""
    return [value] if isinstance(value, str) else value


Cpu = Annotated[str, BeforeValidator(_cpu)]
Memory = Annotated[str, BeforeValidator(_memory)]
Names = Annotated[list[str], BeforeValidator(_several), Field(min_length=1)]
"""`all`, one name, or a list."""
Seconds = Annotated[float, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Create(_Model):
    """Pods `<name>-1` … `<name>-<count>`."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,40})$")] = "pod"
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    cpu: Cpu = "100m"
    memory: Memory = "96Mi"
    node: str | None = None
    """Only there. None: wherever the scheduler likes."""
    give_up_after: Annotated[int | None, Field(ge=0, alias="give-up-after")] = None
    """Seconds after which the pod leaves a node that is not heard from. None: it stays."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{n}" for n in range(1, self.count + 1))


class Resize(_Model):
    pods: Names
    cpu: Cpu | None = None
    memory: Memory | None = None


class Delete(_Model):
    pods: Names
    force: bool = False
    """Gone at the hub at once, whatever the node says."""


class OneWay(_Model):
    links: Names
    passes: Way


class Slow(_Model):
    links: Names
    delay: Seconds = 0.0
    jitter: Seconds = 0.0
    bytes_per_second: Annotated[int | None, Field(ge=100, alias="bytes-per-second")] = None


class WaitNodes(_Model):
    nodes: Names
    ready: Annotated[
        Literal["True", "False", "Unknown"], BeforeValidator(lambda v: str(v) if isinstance(v, bool) else v)
    ]
    within: Seconds = 120.0


class WaitPods(_Model):
    pods: Names
    are: Literal["Ready", "NotReady", "Terminating", "Gone"]
    within: Seconds = 120.0


class WaitSettled(_Model):
    """Every wish in force or done, on both sides."""

    settled: Literal[True] = True
    within: Seconds = 120.0


Part = Literal["broker", "hub", "agents"]
Parts = Annotated[list[Part], BeforeValidator(_several), Field(min_length=1)]


class Step(_Model):
    """Exactly one of them."""

    create: Create | None = None
    resize: Resize | None = None
    delete: Delete | None = None
    cut: Names | None = None
    heal: Names | None = None
    reset: Names | None = None
    half_open: Annotated[Names | None, Field(alias="half-open")] = None
    one_way: Annotated[OneWay | None, Field(alias="one-way")] = None
    slow: Slow | None = None
    kill: Parts | None = None
    stop: Parts | None = None
    start: Parts | None = None
    fill_disk: Annotated[Names | None, Field(alias="fill-disk")] = None
    free_disk: Annotated[Names | None, Field(alias="free-disk")] = None
    load: Literal["start", "stop"] | None = None
    """Resizes of all pods, one after another without a pause, until it is stopped."""
    wait: WaitNodes | WaitPods | WaitSettled | None = None
    rest: Seconds | None = None

    @property
    def verb(self) -> str:
        [field] = self.model_fields_set
        return field

    @property
    def links(self) -> Sequence[str]:
        """Which it touches."""
        several = self.cut or self.heal or self.reset or self.half_open or ()
        return several or (self.one_way.links if self.one_way else self.slow.links if self.slow else ())


class Scenario(_Model):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*$")]
    title: str
    nodes: Annotated[int, Field(ge=1, le=200)] = 1
    lease: Annotated[float, Field(ge=0.5, le=60)] = LEASE_INTERVAL
    """Seconds between two leases of a node; after five that are missing the hub calls its readiness Unknown."""
    disk: Annotated[int | None, Field(ge=4, le=1024)] = None
    """MiB that the hub and each node have for their state, on disks of their own (root). None: no such disks."""
    proves: list[str] = []
    """Numbers of docs/scenarios.md."""
    heard_throughout: Annotated[bool, Field(alias="heard-throughout")] = False
    """No node may ever be called not ready: the faults of this scenario are none that silence one."""
    steps: Annotated[list[Step], Field(min_length=1)]


def load(path: Path) -> Scenario:
    """Raises ScenarioError."""
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not YAML: {error}") from error
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {'; '.join(_complaint(item) for item in error.errors())}") from error
    if complaints := _complaints(scenario):
        raise ScenarioError(f"{path}: {'; '.join(complaints)}")
    return scenario


def _complaint(error: Any) -> str:
    where = [str(part) for part in error["loc"]]
    if where[:1] == ["steps"] and len(where) > 1:
        where[:2] = [f"step {int(where[1]) + 1}"]
    return f"{' '.join(where) or 'the document'}: {error['msg']}"


def _complaints(scenario: Scenario) -> list[str]:
    """What no single field shows: unknown names, steps with no verb or two."""
    nodes, known, found = set(node_names(scenario.nodes)), set[str](), []
    for number, step in enumerate(scenario.steps, 1):
        if len(step.model_fields_set) != 1:
            found.append(f"step {number}: exactly one verb is wanted, not {sorted(step.model_fields_set) or 'none'}")
            continue
        if step.create:
            known |= set(step.create.names)
        pods = (step.resize or step.delete).pods if step.resize or step.delete else ()  # type: ignore[union-attr]
        pods = step.wait.pods if isinstance(step.wait, WaitPods) else pods
        wanted_nodes = list(step.wait.nodes) if isinstance(step.wait, WaitNodes) else []
        disks = step.fill_disk or step.free_disk or []
        wanted_nodes += [name for name in disks if name != HUB]
        if disks and scenario.disk is None:
            found.append(f"step {number}: a disk that can be filled is one that the scenario sizes (`disk`, in MiB)")
        wanted_nodes += [step.create.node] if step.create and step.create.node else []
        wrong = [name for name in pods if name not in (ALL, *known)]
        wrong += [name for name in wanted_nodes if name not in (ALL, *nodes)]
        wrong += [name for name in step.links if name not in (ALL, HUB, *nodes)]
        found += [f"step {number}: there is no {name}" for name in wrong]
    return found


def resized(scenario: Scenario, nodes: int) -> Scenario:
    """The same on another number of nodes. Raises ScenarioError where it speaks of nodes that are not there then."""
    changed = scenario.model_copy(update={"nodes": nodes})
    if complaints := _complaints(changed):
        raise ScenarioError(f"{scenario.name} on {nodes} nodes: {'; '.join(complaints)}")
    return changed


def directory() -> Path:
    """The ready scenarios, which a checkout has beside the package. Raises StateError."""
    found = Path(__file__).resolve().parent.parent / "configs" / "lab"
    if not found.is_dir():
        raise StateError(f"the lab's scenarios come with a checkout of the sources: {found} is not there")
    return found


def ready() -> dict[str, Scenario]:
    """Those that come with Copepod, by name. Raises StateError, ScenarioError."""
    return {path.stem: load(path) for path in sorted(directory().glob("*.yaml"))}


def find(name: str) -> Scenario:
    """By the name of a ready one, or by path. Raises ScenarioError, StateError."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return load(Path(name))
    path = directory() / f"{name}.yaml"
    if not path.exists():
        names = ", ".join(sorted(item.stem for item in directory().glob("*.yaml")))
        raise ScenarioError(f"there is no scenario {name}; there are {names}; or give a file")
    return load(path)
