"""Numbers that people may write but nobody can mean: planners answer at once, in little memory, and never fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cloudhub.workloads import cronjobs, deployments, indexes, jobpolicies, jobs, statefulsets
from kubeapi.clock import later
from kubeapi.numbers import INT32_MAX, INT64_MAX, decimal
from tests.support.workloads import NOW, ago, created, cronjob, deployment, job, statefulset
from tests.unit.cloudhub.workloads.test_statefulsets import OLD, PARALLEL

LONG = "9" * 5000


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "²", "٣", LONG, str(INT64_MAX + 1)])
def test_a_number_is_ascii_digits_within_int64(text: str) -> None:
    assert decimal(text) is None
    assert decimal(str(INT64_MAX)) == INT64_MAX


def test_a_moment_stays_within_the_calendar() -> None:
    assert later(NOW, INT64_MAX) == datetime.max.replace(tzinfo=UTC)
    assert later(NOW, -INT64_MAX) == datetime.min.replace(tzinfo=UTC)


def test_a_job_of_two_thousand_million_indexes_starts_with_its_first() -> None:
    huge = job(spec={"completionMode": "Indexed", "completions": INT32_MAX, "parallelism": 2})
    huge.status.start_time = ago(1)
    made = created(jobs.plan(huge, [], NOW))
    assert [jobpolicies.index_of(pod) for pod in made] == [0, 1]


def test_deadlines_beyond_the_calendar_are_never_reached() -> None:
    endless = job(spec={"activeDeadlineSeconds": INT64_MAX})
    endless.status.start_time = ago(1)
    assert created(jobs.plan(endless, [], NOW))
    cronjobs.plan(cronjob(spec={"startingDeadlineSeconds": INT64_MAX}), [], NOW)


def test_a_stateful_set_of_two_thousand_million_makes_a_few_at_a_time() -> None:
    status = {"currentRevision": OLD.metadata.name}
    plan = statefulsets.plan(statefulset(INT32_MAX, status=status, spec=PARALLEL), [], [OLD], frozenset(), NOW)
    assert 0 < len(created(plan)) <= 250


def test_a_status_written_by_hand_fills_no_memory() -> None:
    assert indexes.parse(f"3,0-{INT32_MAX},{LONG},7-{LONG},²") == {3}


def test_an_annotation_that_is_no_number_counts_as_none() -> None:
    odd = deployment()
    odd.metadata.annotations["deployment.kubernetes.io/revision"] = LONG
    assert deployments.revision_of(odd) == 0
