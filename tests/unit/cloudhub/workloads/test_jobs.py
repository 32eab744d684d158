"""Job plans: how many, how they end, and that no end is counted twice or lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cloudhub.workloads import indexes
from cloudhub.workloads.actions import Create, Delete, SetStatus, Update
from cloudhub.workloads.jobcounts import TRACKING
from cloudhub.workloads.jobs import condition, ended, plan
from kubeapi.core import Pod
from kubeapi.workloads import Job
from tests.support.workloads import NOW, ago, created, job, pod, said, status_of, steps


def run(name: str, phase: str = "Running", *, seconds: float = 1000, **more: Any) -> Pod:
    """A pod of a job's; one that ended did so `seconds` ago."""
    metadata = {"finalizers": [TRACKING]} | more.pop("metadata", {})
    end = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 3, "finishedAt": ago(seconds)}}
    states = [{"name": "vm", "state": end}] if phase in ("Succeeded", "Failed") else []
    ready = phase == "Running"
    return pod(job(), name, phase=phase, ready=ready, metadata=metadata, status={"containerStatuses": states}, **more)


class World:
    """Executes plans at once, until nothing changes."""

    def __init__(self, wish: Job, *mine: Pod) -> None:
        self.job, self.pods, self.now = wish, {item.metadata.name: item for item in mine}, NOW
        self.gone = False

    def settle(self) -> None:
        for _ in range(20):
            result = plan(self.job, list(self.pods.values()), self.now)
            if not any(isinstance(action, Create | Update | SetStatus | Delete) for action in result.actions):
                return
            for action in result.actions:
                self._do(action)
        raise AssertionError("never settles")

    def _do(self, action: Any) -> None:
        match action:
            case Create(Pod() as made):
                made.metadata.name = f"p{len(self.pods)}"
                made.metadata.uid = f"uid-{made.metadata.name}"
                made.status.phase = "Pending"
                self.pods[made.metadata.name] = made
            case Update(Pod() as item):
                self.pods[item.metadata.name] = item
                if item.metadata.deletion_timestamp and not item.metadata.finalizers:
                    del self.pods[item.metadata.name]
            case SetStatus(Job() as item):
                self.job = item
            case Delete(Pod() as victim):
                self.pods[victim.metadata.name].metadata.deletion_timestamp = ago(0)
            case Delete(Job()):
                self.gone = True

    def end(self, name: str, phase: str) -> None:
        ended_pod = run(name, phase)
        item = self.pods[name]
        item.status = ended_pod.status


def test_to_completion() -> None:
    world = World(job(spec={"completions": 3, "parallelism": 2}))
    world.settle()
    assert (len(world.pods), world.job.status.active) == (2, 2)
    world.end("p0", "Succeeded")
    world.settle()
    assert (len(world.pods), world.job.status.succeeded) == (3, 1)
    world.end("p1", "Succeeded")
    world.end("p2", "Succeeded")
    world.settle()
    status = world.job.status
    assert (status.succeeded, status.active, status.completion_time) == (3, None, ago(0))
    assert [item.type for item in status.conditions] == ["SuccessCriteriaMet", "Complete"]
    assert not any(item.metadata.finalizers for item in world.pods.values())


@pytest.mark.parametrize("cut", range(6))
def test_an_end_is_counted_once_wherever_the_controller_dies(cut: int) -> None:
    """Only the first `cut` writes happen; a fresh controller goes on from what is stored."""
    world = World(job(spec={"completions": 2}), run("a", "Succeeded"))
    left = cut
    while left:
        actions = plan(world.job, list(world.pods.values()), NOW).actions
        writes = [item for item in actions if isinstance(item, Create | Update | SetStatus | Delete)]
        if not writes:
            break
        world._do(writes[0])
        left -= 1
    world.settle()
    assert world.job.status.succeeded == 1
    uncounted = world.job.status.uncounted_terminated_pods
    assert uncounted is not None
    assert uncounted.succeeded == []


def test_a_pod_deleted_after_its_end_still_counts() -> None:
    world = World(job(), run("a", "Succeeded", deleted=True))
    world.settle()
    assert world.job.status.succeeded == 1
    assert condition(world.job, "Complete")


def test_the_back_off_limit_ends_it() -> None:
    world = World(job(spec={"backoffLimit": 1}), run("a", "Failed"))
    world.settle()
    assert not ended(world.job)
    world.end("p1", "Failed")
    world.settle()
    failed = condition(world.job, "Failed")
    assert failed is not None
    assert (failed.reason, failed.message) == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )
    assert (world.job.status.failed, world.job.status.succeeded) == (2, None)


@pytest.mark.parametrize(("failures", "wait"), [(1, 10.0), (2, 20.0), (3, 40.0), (12, 600.0)])
def test_after_failures_it_waits_ever_longer(failures: int, wait: float) -> None:
    mine = [run(f"f{number}", "Failed", seconds=0) for number in range(failures)]
    wish = job(spec={"backoffLimit": 100})
    world = World(wish, *mine)
    world.settle()
    result = plan(world.job, list(world.pods.values()), NOW)
    assert (steps(result), result.wake_after) == ([], wait)
    assert steps(plan(world.job, list(world.pods.values()), NOW + timedelta(seconds=wait))) == ["+Pod web-"]


def test_a_refused_pod_never_began_and_still_makes_it_wait() -> None:
    refused = run("a", "Failed", metadata={"finalizers": [], "creationTimestamp": ago(4)})
    refused.status.container_statuses = []
    assert plan(job(), [refused], NOW).wake_after == 6.0


def test_the_deadline_ends_it_when_its_pods_are_gone() -> None:
    wish = job(spec={"activeDeadlineSeconds": 30}, status={"startTime": ago(31)})
    first = plan(wish, [run("a")], NOW)
    assert steps(first) == ["-Pod a"]
    wish.status = status_of(first)
    assert [item.type for item in wish.status.conditions] == ["FailureTarget"]
    world = World(wish, run("a", "Failed", deleted=True))
    world.settle()
    failed = condition(world.job, "Failed")
    assert failed is not None
    assert failed.reason == "DeadlineExceeded"
    early = plan(job(spec={"activeDeadlineSeconds": 30}, status={"startTime": ago(10)}), [run("a")], NOW)
    assert early.wake_after == 20.0


def test_suspended_it_has_no_pods_and_no_clock() -> None:
    world = World(job(spec={"suspend": True}, status={"startTime": ago(99)}), run("a"))
    first = plan(world.job, list(world.pods.values()), NOW)
    assert said(first.actions) == ["status", "-Pod a", "! Suspended"]
    assert status_of(first).start_time is None
    resumed = job(status=status_of(first).to_dict())
    result = plan(resumed, [], NOW)
    assert said(result.actions) == ["status", "+Pod web-", "! Resumed"]
    assert status_of(result).start_time == ago(0)


def test_a_queue_of_work_is_done_when_one_succeeded_and_none_runs() -> None:
    world = World(job(spec={"completions": None, "parallelism": 2}))
    world.settle()
    world.end("p0", "Succeeded")
    world.settle()
    assert len(world.pods) == 2
    assert not ended(world.job)
    world.end("p1", "Failed")
    world.settle()
    assert condition(world.job, "Complete")


def test_indexed_each_index_once() -> None:
    world = World(job(spec={"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
    world.settle()
    assert [item.spec.containers[0].env[0].value for item in world.pods.values()] == ["0", "1", "2"]
    world.end("p0", "Succeeded")
    world.end("p2", "Succeeded")
    world.settle()
    assert world.job.status.completed_indexes == "0,2"
    world.end("p1", "Failed")
    world.settle()
    again = [item for item in world.pods.values() if item.status.phase == "Pending"]
    assert [item.metadata.annotations["batch.kubernetes.io/job-completion-index"] for item in again] == ["1"]
    world.end(again[0].metadata.name, "Succeeded")
    world.settle()
    assert world.job.status.completed_indexes == "0-2"
    assert condition(world.job, "Complete")


def test_when_its_time_is_over_it_is_deleted() -> None:
    done = [{"type": "Complete", "status": "True", "lastTransitionTime": ago(50)}]
    wish = job(spec={"ttlSecondsAfterFinished": 60}, status={"conditions": done})
    assert plan(wish, [], NOW).wake_after == 10.0
    assert steps(plan(wish, [], NOW + timedelta(seconds=10))) == ["-Job web"]


def test_less_parallel_means_fewer_pods() -> None:
    wish = job(spec={"completions": 5, "parallelism": 1})
    assert len(steps(plan(wish, [run("a"), run("b"), run("c")], NOW))) == 2


def test_a_pod_that_is_deleted_counts_as_failed_unless_the_policy_waits() -> None:
    leaving = run("a", deleted=True)
    replaced = World(job(), leaving.copied())
    replaced.settle()
    assert (replaced.job.status.failed, len(created(plan(job(), [], NOW)))) == (1, 1)
    waiting = plan(job(spec={"podReplacementPolicy": "Failed"}), [leaving], NOW)
    assert steps(waiting) == []
    assert status_of(waiting).terminating == 1


@pytest.mark.parametrize(
    ("text", "numbers"), [(None, []), ("0", [0]), ("0-2", [0, 1, 2]), ("1,3,4,7", [1, 3, 4, 7]), ("x,2", [2])]
)
def test_indexes_in_words(text: str | None, numbers: list[int]) -> None:
    assert sorted(indexes.parse(text)) == numbers
    if text is None or "x" not in text:  # and back
        assert indexes.format(numbers) == text
