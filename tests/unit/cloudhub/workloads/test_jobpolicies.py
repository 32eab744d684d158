"""What a Job's policies make of failures and successes, index by index."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cloudhub.workloads import jobpolicies
from cloudhub.workloads.jobs import condition
from kubeapi.kinds.batch import default_job_spec, validate_job
from kubeapi.workloads import Job
from tests.support.workloads import job
from tests.unit.cloudhub.workloads.test_jobs import World, run

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def exits(action: str, *codes: int, operator: str = "In", **more: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)} | more}


def disrupted(action: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def wish(*rules: dict[str, Any], **spec: Any) -> Job:
    return job(spec={"podFailurePolicy": {"rules": list(rules)}, "podReplacementPolicy": "Failed"} | spec)


def indexed(completions: int = 3, **spec: Any) -> Job:
    wanted = {"completions": completions, "parallelism": completions, "completionMode": "Indexed"}
    return job(spec=wanted | {"backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1} | spec)


def by_index(world: World) -> dict[int | None, list[str]]:
    found: dict[int | None, list[str]] = {}
    for name, pod in world.pods.items():
        found.setdefault(jobpolicies.index_of(pod), []).append(name)
    return found


def ends_by_disruption(world: World, name: str) -> None:
    world.end(name, "Failed")
    pod = world.pods[name]
    pod.status = pod.status.from_dict(pod.status.to_dict() | {"conditions": [DISRUPTED]})


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        (exits("FailJob", 3), "FailJob"),
        (exits("FailJob", 3, containerName="vm"), "FailJob"),
        (exits("FailJob", 3, containerName="other"), ""),
        (exits("FailJob", 4), ""),
        (exits("Count", 4, operator="NotIn"), "Count"),
        (exits("FailIndex", 3), ""),
        (disrupted("Ignore"), ""),
    ],
)
def test_which_rule_matches(rule: dict[str, Any], action: str) -> None:
    """Its container ended with 3. FailIndex means nothing where indexes do not fail by themselves."""
    assert jobpolicies.judge(wish(rule), run("p", "Failed")).action == action


def test_one_exit_code_ends_the_job_at_once() -> None:
    world = World(wish(exits("FailJob", 3), parallelism=2, completions=2))
    world.settle()
    world.end("p0", "Failed")
    world.settle()
    target = condition(world.job, "FailureTarget")
    assert target
    words = "Container vm for pod default/p0 failed with exit code 3 matching FailJob rule at index 0"
    assert (target.reason, target.message) == ("PodFailurePolicy", words)
    assert condition(world.job, "Failed") is None
    assert world.pods["p1"].metadata.deletion_timestamp
    world.end("p1", "Failed")
    world.settle()
    assert condition(world.job, "Failed")


def test_what_is_ignored_is_made_again_and_counts_nowhere() -> None:
    world = World(wish(disrupted("Ignore"), backoffLimit=0))
    world.settle()
    ends_by_disruption(world, "p0")
    world.settle()
    assert (world.job.status.failed, len(world.pods), condition(world.job, "Failed")) == (None, 2, None)
    world.end("p1", "Failed")
    world.settle()
    assert condition(world.job, "Failed")


def test_one_index_fails_by_itself_and_the_others_go_on() -> None:
    world = World(indexed())
    world.settle()
    for _ in range(2):
        world.end(by_index(world)[1][-1], "Failed")
        world.settle()
        world.now += timedelta(seconds=30)
        world.settle()
    assert (world.job.status.failed_indexes, len(by_index(world)[1])) == ("1", 2)
    counts = [world.pods[name].metadata.annotations[jobpolicies.FAILURES] for name in by_index(world)[1]]
    assert counts == ["0", "1"]
    for index in (0, 2):
        world.end(by_index(world)[index][-1], "Succeeded")
    world.settle()
    failed = condition(world.job, "Failed")
    assert failed
    assert (failed.reason, failed.message) == ("FailedIndexes", "Job has failed indexes")
    assert (world.job.status.completed_indexes, world.job.status.failed_indexes) == ("0,2", "1")


def test_an_index_that_rests_holds_up_no_other() -> None:
    world = World(indexed(parallelism=1))
    world.settle()
    world.pods["p0"].status = run("p0", "Failed", seconds=1).status
    world.settle()
    assert set(by_index(world)) == {0, 1}


def test_too_many_failed_indexes_end_it() -> None:
    world = World(indexed(backoffLimitPerIndex=0, maxFailedIndexes=1))
    world.settle()
    for index in (0, 1):
        world.end(by_index(world)[index][-1], "Failed")
    world.settle()
    target = condition(world.job, "FailureTarget")
    assert target
    assert target.reason == "MaxFailedIndexesExceeded"


def test_fail_index_needs_no_second_try() -> None:
    world = World(indexed(podFailurePolicy={"rules": [exits("FailIndex", 3)]}, podReplacementPolicy="Failed"))
    world.settle()
    world.end("p0", "Failed")
    world.settle()
    assert (world.job.status.failed_indexes, len(by_index(world)[0])) == ("0", 1)


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        ({"succeededCount": 2}, {0, 5}, True),
        ({"succeededCount": 2}, {0}, False),
        ({"succeededIndexes": "0,2-3"}, {0, 2, 3}, True),
        ({"succeededIndexes": "0,2-3"}, {0, 2, 4}, False),
        ({"succeededIndexes": "0-3", "succeededCount": 1}, {2}, True),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {2, 4}, False),
        ({"succeededIndexes": "0-4000000000"}, {2}, False),
    ],
)
def test_when_enough_has_succeeded(rule: dict[str, Any], done: set[int], met: bool) -> None:
    rules = [{"succeededCount": 100}, rule]
    found = jobpolicies.succeeds(indexed(successPolicy={"rules": rules}), frozenset(done))
    assert found == ("Matched rules at index 1" if met else None)


def test_the_leader_s_success_is_the_job_s() -> None:
    world = World(indexed(successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    world.settle()
    world.end(by_index(world)[0][0], "Succeeded")
    world.settle()
    criteria = condition(world.job, "SuccessCriteriaMet")
    assert criteria
    assert (criteria.reason, criteria.message) == ("SuccessPolicy", "Matched rules at index 0")
    assert set(by_index(world)) == {0}
    assert condition(world.job, "Complete")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"podFailurePolicy": {"rules": [exits("Explode", 1)]}},
            'spec.podFailurePolicy.rules[0].action: Unsupported value: "Explode": supported values: "Count", '
            '"FailIndex", "FailJob", "Ignore"',
        ),
        (
            {"podFailurePolicy": {"rules": [exits("FailIndex", 1)]}},
            'spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to '
            "be set",
        ),
        (
            {"podFailurePolicy": {"rules": [exits("FailJob", 2, 1)]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
        ),
        (
            {"podFailurePolicy": {"rules": [exits("FailJob", 0)]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            {"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"},
            'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
        ),
        (
            {"maxFailedIndexes": 1},
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            'spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode',
        ),
        (
            {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "0-4000000000"}]}},
            'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-4000000000": error parsing '
            "succeededIndexes",
        ),
    ],
)
def test_what_is_refused(spec: dict[str, Any], words: str) -> None:
    refused = job(spec=spec)
    default_job_spec(refused.spec)
    assert words in [str(cause) for cause in validate_job(refused)]


def test_a_policy_is_kept_whole_on_the_wire() -> None:
    rules = [exits("FailJob", 1, 2, containerName="vm"), disrupted("Ignore")]
    kept = Job.from_json(wish(*rules).to_json())
    assert kept.spec.pod_failure_policy
    assert kept.spec.pod_failure_policy.to_dict() == {"rules": rules}
