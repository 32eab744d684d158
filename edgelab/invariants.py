"""What must hold after every lab scenario, judged from what was acknowledged and what is seen from outside.

Each invariant is a pure function that gives complaints; none means that it holds. LEVELS come true by themselves
once links are whole and everything runs; what is in ALWAYS stays broken once it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgelab.ledger import Ledger, Size, Wish
from edgelab.world import resize_complaint, status_difference
from kubeapi import quantity

_ACT = re.compile(r"pod [^/ ]+/(?P<pod>\S+): (?P<step>[A-Z]\w*)\((?P<fields>.*)\)$")
_LIMIT = re.compile(r"limit_millicores=(\d+)")


@dataclass(frozen=True, slots=True)
class Act:
    """A step that a node's agent took, from its log."""

    pod: str
    step: str
    millicores: int | None = None


@dataclass
class Seen:
    """The cluster at one moment, from outside."""

    pods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The hub's, by name."""
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each node says of its pods in its own store, by UID."""
    vms: Mapping[str, Counter[str]] = field(default_factory=dict)
    """Node → UID of the pod → how many VMs it has there."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Node → entries of its outbox that the hub has not acknowledged."""
    acts: list[Act] = field(default_factory=list)
    silences: list[str] = field(default_factory=list)
    """What the hub's events say of nodes that were not heard from."""
    faults: list[str] = field(default_factory=list)
    """Stack traces in logs: where, and the last line."""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    complaints: tuple[str, ...]
    evidence: str
    """What it was judged from, when it holds."""

    @property
    def ok(self) -> bool:
        return not self.complaints


def acts_of(log: str) -> list[Act]:
    found = (_ACT.search(line) for line in log.splitlines())
    return [Act(m["pod"], m["step"], _millicores(m["fields"])) for m in found if m]


def _millicores(fields: str) -> int | None:
    match = _LIMIT.search(fields)
    return int(match[1]) if match else None


def faults_of(name: str, log: str) -> list[str]:
    """One line for each stack trace: its last, which names the error."""
    lines = log.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    return [f"{name}: {_error_line(lines[at + 1 :])}" for at in starts]


def _error_line(lines: Iterable[str]) -> str:
    return next((line for line in lines if line and not line.startswith((" ", "\t"))), "a stack trace")


# -- those that come true ---------------------------------------------------------------------------------------------


def acknowledged_is_kept(ledger: Ledger, seen: Seen) -> list[str]:
    complaints = []
    for wish in ledger.living:
        pod = seen.pods.get(wish.name)
        if pod is None or pod["metadata"]["uid"] != wish.uid:
            complaints += [] if wish.may_leave else [f"{wish.name} is not at the hub"]
        elif not any(_same(_limits(pod), size) for size in wish.possible):
            complaints.append(f"{wish.name}: the hub holds {_limits(pod)}, acknowledged was {wish.sizes[-1]}")
    return complaints


def wishes_are_in_force(_: Ledger, seen: Seen) -> list[str]:
    complaints = []
    for name, pod in seen.pods.items():
        ready = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}.get("Ready")
        why = resize_complaint(pod) if ready == "True" else f"Ready is {ready}"
        complaints += [f"{name}: {why}"] if why else []
    return complaints


def both_sides_agree(_: Ledger, seen: Seen) -> list[str]:
    complaints = [f"{node}: {count} entries wait to go up" for node, count in seen.waiting.items() if count]
    for name, pod in seen.pods.items():
        mine = seen.statuses.get(pod["metadata"]["uid"])
        why = "its node has no status" if mine is None else status_difference(pod["status"], mine)
        complaints += [f"{name}: {why}"] if why else []
    return complaints


def deletions_are_done(ledger: Ledger, seen: Seen) -> list[str]:
    at_hub = {pod["metadata"]["uid"] for pod in seen.pods.values()}
    with_vms = {uid: node for node, vms in seen.vms.items() for uid in vms}
    gone = [wish for wish in ledger.wishes if wish.deleted]
    complaints = [f"{wish.name} ({wish.uid}) is still at the hub" for wish in gone if wish.uid in at_hub]
    return complaints + [f"{w.name}: {with_vms[w.uid]} still has its VM" for w in gone if w.uid in with_vms]


def nothing_is_left_over(_: Ledger, seen: Seen) -> list[str]:
    wanted = Counter({pod["metadata"]["uid"]: len(pod["spec"]["containers"]) for pod in seen.pods.values()})
    found = sum(seen.vms.values(), Counter[str]())
    extra, missing = found - wanted, wanted - found
    complaints = [f"{count} VMs too many of pod {uid}" for uid, count in extra.items()]
    return complaints + [f"{count} VMs of pod {uid} are missing" for uid, count in missing.items()]


# -- those that must never be broken ----------------------------------------------------------------------------------


def nothing_is_done_twice(ledger: Ledger, seen: Seen) -> list[str]:
    """As often as it was wished, and once more for each time an agent was killed."""
    complaints = []
    done = Counter((act.pod, act.step, act.millicores) for act in seen.acts)
    for (pod, step, millicores), times in done.items():
        wishes = ledger.named(pod)
        if step in ("Launch", "Remove"):
            allowed = len(wishes)
        elif step == "SetCpu":
            asked = [size for wish in wishes for size in wish.asked]
            allowed = sum(quantity.cpu_millis(size.cpu) == millicores for size in asked)
        else:
            continue
        if times > allowed + ledger.agent_kills:
            what = f"{step} {millicores}m" if millicores else step
            complaints.append(f"{pod}: {what} {times} times, wished {allowed} times")
    return complaints


def superseded_is_never_applied(ledger: Ledger, seen: Seen) -> list[str]:
    applied = {(act.pod, act.millicores) for act in seen.acts if act.step == "SetCpu"}
    return [
        f"{wish.name}: {size.cpu} was applied though it was taken back while the node was away"
        for wish in ledger.wishes
        for size in wish.superseded
        if (wish.name, quantity.cpu_millis(size.cpu)) in applied and not _wished_otherwise(wish, size)
    ]


def _wished_otherwise(wish: Wish, size: Size) -> bool:
    """The same amount was wished at another time, too, when it was to be applied."""
    return sum(other.cpu == size.cpu for other in wish.sizes) > 1


def nothing_restarted(_: Ledger, seen: Seen) -> list[str]:
    counts = {
        name: sum(c.get("restartCount", 0) for c in pod["status"].get("containerStatuses", ()))
        for name, pod in seen.pods.items()
    }
    return [f"{name} was restarted {count} times" for name, count in counts.items() if count]


def pods_stay_on_their_node(ledger: Ledger, seen: Seen) -> list[str]:
    complaints = []
    for wish in ledger.living:
        pod = seen.pods.get(wish.name)
        if pod is None or wish.may_leave or wish.node is None:
            continue
        now = pod["spec"].get("nodeName")
        complaints += [f"{wish.name} was on {wish.node} and is on {now}"] if now != wish.node else []
    return complaints


def every_node_is_heard_throughout(_: Ledger, seen: Seen) -> list[str]:
    """For scenarios whose faults silence nobody."""
    return list(seen.silences)


def nothing_crashed(_: Ledger, seen: Seen) -> list[str]:
    return list(seen.faults)


def _limits(pod: Mapping[str, Any]) -> Size:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return Size(limits.get("cpu", "0"), limits.get("memory", "0"))


def _same(one: Size, other: Size) -> bool:
    """Amounts are compared, not spellings."""
    return quantity.cpu_millis(one.cpu) == quantity.cpu_millis(other.cpu) and quantity.memory_bytes(
        one.memory
    ) == quantity.memory_bytes(other.memory)


Invariant = Callable[[Ledger, Seen], list[str]]
LEVELS: tuple[Invariant, ...] = (
    acknowledged_is_kept,
    wishes_are_in_force,
    both_sides_agree,
    deletions_are_done,
    nothing_is_left_over,
)
ALWAYS: tuple[Invariant, ...] = (
    nothing_is_done_twice,
    superseded_is_never_applied,
    nothing_restarted,
    pods_stay_on_their_node,
    nothing_crashed,
)


def judge(ledger: Ledger, seen: Seen, *more: Invariant) -> list[Verdict]:
    """One verdict for each invariant, and for those in `more`."""
    return [
        Verdict(
            invariant.__name__.replace("_", "-"), tuple(invariant(ledger, seen)), _evidence(invariant, ledger, seen)
        )
        for invariant in (*LEVELS, *ALWAYS, *more)
    ]


def unsettled(ledger: Ledger, seen: Seen) -> str | None:
    """The first thing that has yet to come true."""
    return next((complaint for invariant in LEVELS for complaint in invariant(ledger, seen)), None)


def _evidence(invariant: Invariant, ledger: Ledger, seen: Seen) -> str:
    if invariant is acknowledged_is_kept:
        return f"{len(ledger.living)} pods, {sum(len(wish.sizes) for wish in ledger.wishes)} acknowledged wishes"
    if invariant is both_sides_agree:
        return f"{len(seen.statuses)} statuses of {len(seen.waiting)} nodes compared, all outboxes empty"
    if invariant is deletions_are_done:
        return f"{sum(wish.deleted for wish in ledger.wishes)} deletions"
    if invariant is nothing_is_left_over:
        return f"{sum(vms.total() for vms in seen.vms.values())} VMs, each of a pod"
    if invariant is nothing_is_done_twice:
        return f"{sum(act.step in ('Launch', 'Remove', 'SetCpu') for act in seen.acts)} acts of the nodes counted"
    if invariant is superseded_is_never_applied:
        return f"{sum(len(wish.superseded) for wish in ledger.wishes)} wishes were taken back while their node was away"
    if invariant is nothing_crashed:
        return "no stack trace in any log"
    return f"{len(seen.pods)} pods looked at"
