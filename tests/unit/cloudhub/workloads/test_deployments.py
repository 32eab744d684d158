"""Deployment plans: every step of a rollout as a table, and whole rollouts simulated against their promises."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from cloudhub.workloads import rollout
from cloudhub.workloads.actions import Create, Delete, Plan, SetStatus, Update
from cloudhub.workloads.deployments import plan, revision_of
from kubeapi.workloads import Deployment, ReplicaSet
from tests.support.workloads import NOW, TEMPLATE, created, deployment, pod, said, steps


def changed(target: Deployment, image: str) -> None:
    target.spec.template.spec.containers[0].image = image


@dataclass
class World:
    """Executes plans at once; pods become available when told. Checks the promises after every step."""

    deployment: Deployment
    sets: dict[str, ReplicaSet] = field(default_factory=dict)
    now: datetime = NOW
    broken: str = ""
    """Pods of this image never become available."""
    low: int = 10**6
    high: int = 0

    def step(self) -> Plan:
        """One pass of the controller, then the ReplicaSets do what they are told."""
        result = plan(self.deployment, list(self.sets.values()), frozenset(self.sets), {}, self.now)
        for action in result.actions:
            match action:
                case Create(ReplicaSet() as made):
                    made.metadata.uid = f"uid-{made.metadata.name}"
                    made.metadata.creation_timestamp = f"2026-03-01T12:00:{len(self.sets):02d}Z"
                    made.metadata.generation = 1
                    self.sets[made.metadata.name] = made
                case Update(ReplicaSet() as item):
                    self.sets[item.metadata.name] = item
                case Update(Deployment() as item) | SetStatus(Deployment() as item):
                    self.deployment = item
                case Delete(victim):
                    del self.sets[victim.metadata.name]
        return result

    def pods_follow(self) -> None:
        for item in self.sets.values():
            size = rollout.size(item)
            works = item.spec.template.spec.containers[0].image != self.broken
            item.status.replicas = size
            item.status.ready_replicas = item.status.available_replicas = size if works else 0
            item.status.observed_generation = item.metadata.generation
        total = sum(item.status.replicas for item in self.sets.values())
        available = sum(item.status.available_replicas or 0 for item in self.sets.values())
        self.high, self.low = max(self.high, total), min(self.low, available)

    def settle(self) -> None:
        for _ in range(60):
            before = [item.to_dict() for item in (*self.sets.values(), self.deployment)]
            self.step()
            self.pods_follow()
            if before == [item.to_dict() for item in (*self.sets.values(), self.deployment)]:
                return
        raise AssertionError("never settles")

    def sizes(self) -> dict[str, int]:
        return {
            item.spec.template.spec.containers[0].image: rollout.size(item)
            for item in self.sets.values()
            if rollout.size(item)
        }

    def condition(self, kind: str) -> tuple[str, str | None]:
        found = next(item for item in self.deployment.status.conditions if item.type == kind)
        return found.status, found.reason


def settled(**more: Any) -> World:
    world = World(deployment(**more))
    world.settle()
    world.low, world.high = 10**6, 0
    return world


def test_the_first_step_makes_the_replicaset() -> None:
    first = plan(deployment(3), [], frozenset(), {}, NOW)
    made = created(first)[0]
    assert said(first.actions) == ["status", f"+ReplicaSet {made.metadata.name}", "! ScalingReplicaSet"]
    assert made.spec.replicas == 3
    label = made.metadata.labels["pod-template-hash"]
    assert made.metadata.name == f"web-{label}"
    assert made.spec.selector.match_labels == {"app": "web", "pod-template-hash": label}
    assert made.spec.template.metadata.labels["pod-template-hash"] == label
    assert revision_of(made) == 1


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(3, 1, 0), (3, 0, 1), (4, "25%", "25%"), (10, 3, 2), (1, 1, 0), (1, 0, 1), (1, "25%", "25%"), (5, 5, 5)],
)
def test_a_rollout_keeps_its_promises(replicas: int, surge: Any, unavailable: Any) -> None:
    """Never more than maxSurge above, never more than maxUnavailable below, and it ends."""
    world = settled(replicas=replicas, surge=surge, unavailable=unavailable)
    limits = rollout.Limits.of(world.deployment)
    changed(world.deployment, "copepod/micro:2")
    world.settle()
    assert world.sizes() == {"copepod/micro:2": replicas}
    assert world.high <= replicas + limits.surge
    assert world.low >= replicas - limits.unavailable
    assert world.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert world.condition("Available") == ("True", "MinimumReplicasAvailable")


def test_an_undo_brings_the_old_set_back_under_a_new_revision() -> None:
    world = settled()
    changed(world.deployment, "copepod/micro:2")
    world.settle()
    changed(world.deployment, "copepod/micro:1")
    world.settle()
    assert len(world.sets) == 2
    assert world.sizes() == {"copepod/micro:1": 3}
    assert revision_of(world.deployment) == 3
    assert sorted(map(revision_of, world.sets.values())) == [2, 3]


def test_a_broken_version_stops_within_its_budget_and_times_out() -> None:
    world = settled(surge=1, unavailable=1)
    world.broken = "copepod/micro:2"
    changed(world.deployment, world.broken)
    world.settle()
    assert world.low >= 2
    assert world.condition("Progressing")[0] == "True"
    world.now += timedelta(seconds=601)
    world.settle()
    assert world.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    changed(world.deployment, "copepod/micro:1")
    world.settle()
    assert world.sizes() == {"copepod/micro:1": 3}
    assert world.condition("Progressing") == ("True", "NewReplicaSetAvailable")


def test_an_old_version_that_never_worked_does_not_hold_up_its_successor() -> None:
    world = World(deployment(3, surge=1, unavailable=1), broken="copepod/micro:1")
    world.settle()
    changed(world.deployment, "copepod/micro:2")
    world.settle()
    assert world.sizes() == {"copepod/micro:2": 3}


def test_paused_it_scales_but_does_not_roll() -> None:
    world = settled()
    world.deployment.spec.paused = True
    changed(world.deployment, "copepod/micro:2")
    world.deployment.spec.replicas = 5
    world.settle()
    assert world.sizes() == {"copepod/micro:1": 5}
    world.deployment.spec.paused = None
    world.settle()
    assert world.sizes() == {"copepod/micro:2": 5}


def test_scaling_in_the_middle_of_a_rollout_is_proportional() -> None:
    world = settled(replicas=10, surge=2, unavailable=2)
    world.broken = "copepod/micro:2"
    changed(world.deployment, world.broken)
    world.settle()
    before = world.sizes()
    world.deployment.spec.replicas = 20
    world.step()
    after = world.sizes()
    assert sum(after.values()) == 22
    assert after["copepod/micro:1"] > before["copepod/micro:1"]
    assert after["copepod/micro:2"] > before["copepod/micro:2"]


def test_recreate_waits_for_the_last_old_pod() -> None:
    world = settled(spec={"strategy": {"type": "Recreate"}})
    changed(world.deployment, "copepod/micro:2")
    assert [text.split()[-1] for text in steps(world.step())] == ["0"]
    old = next(iter(world.sets.values()))
    world.pods_follow()
    leaving = {old.metadata.name: [pod(old, "a", deleted=True)]}
    held = plan(world.deployment, list(world.sets.values()), frozenset(world.sets), leaving, NOW)
    assert steps(held) == []
    world.settle()
    assert world.sizes() == {"copepod/micro:2": 3}


def test_so_many_old_versions_are_kept() -> None:
    world = settled(spec={"revisionHistoryLimit": 2})
    for version in range(2, 7):
        changed(world.deployment, f"copepod/micro:{version}")
        world.settle()
    assert sorted(map(revision_of, world.sets.values())) == [4, 5, 6]


def test_a_hash_that_is_taken_names_another_set() -> None:
    first = created(plan(deployment(), [], frozenset(), {}, NOW))[0].metadata.name
    second = created(plan(deployment(), [], frozenset({first}), {}, NOW))[0].metadata.name
    assert first != second


def test_scaled_to_nothing_and_back() -> None:
    world = settled()
    world.deployment.spec.replicas = 0
    world.settle()
    assert world.sizes() == {}
    world.deployment.spec.replicas = 2
    world.settle()
    assert world.sizes() == {"copepod/micro:1": 2}


def test_labels_of_the_template_are_not_shared() -> None:
    plan(deployment(), [], frozenset(), {}, NOW)
    assert "pod-template-hash" not in TEMPLATE["metadata"]["labels"]
