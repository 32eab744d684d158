"""CronJob plans: when, where in the world, and what was missed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from cloudhub.workloads.actions import Plan
from cloudhub.workloads.cronjobs import SCHEDULED, plan
from kubeapi.kinds.batch import validate_cron_job
from kubeapi.workloads import CronJob, Job
from tests.support.workloads import NOW, ago, created, cronjob, job, said, status_of


def of(wish: CronJob, name: str, *, end: str = "", start: float = 60) -> Job:
    times = {"startTime": ago(start), "completionTime": ago(start - 10)}
    conditions = [{"type": end, "status": "True", "lastTransitionTime": ago(start - 10)}] if end else []
    return job(metadata={"name": name, "uid": f"uid-{name}"}, status={"conditions": conditions} | times)


def since(seconds: float) -> dict[str, Any]:
    """The last time that was served."""
    return {"lastScheduleTime": ago(seconds)}


def made(result: Plan) -> list[str]:
    return [item.metadata.annotations[SCHEDULED] for item in created(result)]


@pytest.mark.parametrize(
    ("schedule", "last", "wanted", "wake"),
    [
        ("*/5 * * * *", 300, ["2026-03-01T12:00:00Z"], 300),
        ("*/5 * * * *", 0, [], 300),
        ("*/5 * * * *", 900, ["2026-03-01T12:00:00Z"], 300),
        ("0 * * * *", 7200, ["2026-03-01T12:00:00Z"], 3600),
        ("30 11 * * *", 86400, ["2026-03-01T11:30:00Z"], 84600),
        ("@hourly", 3600, ["2026-03-01T12:00:00Z"], 3600),
        ("0 0 29 2 *", 0, [], (datetime(2028, 2, 29, tzinfo=NOW.tzinfo) - NOW).total_seconds()),
    ],
)
def test_when(schedule: str, last: float, wanted: list[str], wake: float) -> None:
    result = plan(cronjob(schedule, status=since(last)), [], NOW)
    assert (made(result), result.wake_after) == (wanted, wake)


def test_a_time_is_served_once_and_noted() -> None:
    wish = cronjob(status=since(300))
    result = plan(wish, [], NOW)
    assert [item.metadata.name for item in created(result)] == [f"web-{int(NOW.timestamp()) // 60}"]
    assert said(result.actions)[-1] == "status"
    assert status_of(result).last_schedule_time == ago(0)
    # The hub died between the two: the Job is there, its time is not noted.
    again = plan(wish, [of(wish, created(result)[0].metadata.name)], NOW)
    assert created(again) == []
    assert status_of(again).last_schedule_time == ago(0)
    assert [item.name for item in status_of(again).active] == [created(result)[0].metadata.name]


def test_in_its_time_zone() -> None:
    wish = cronjob("0 13 * * *", spec={"timeZone": "Europe/Berlin"}, status=since(86400))
    assert made(plan(wish, [], NOW)) == ["2026-03-01T13:00:00+01:00"]
    bad = plan(cronjob(spec={"timeZone": "Moon/Sea"}), [], NOW)
    assert said(bad.actions) == ["! UnparseableSchedule"]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [("Allow", ["+Job"]), ("Forbid", ["! JobAlreadyActive"]), ("Replace", ["-Job", "+Job"])],
)
def test_concurrency(policy: str, wanted: list[str]) -> None:
    wish = cronjob(spec={"concurrencyPolicy": policy}, status=since(300))
    actions = said(plan(wish, [of(wish, "running")], NOW).actions)
    shortened = [text if text[0] == "!" else text.split()[0] for text in actions if text != "status"]
    assert shortened == wanted


def test_what_was_missed_too_long_ago_is_not_started() -> None:
    late = NOW + timedelta(seconds=90)
    assert made(plan(cronjob(spec={"startingDeadlineSeconds": 60}, status=since(300)), [], late)) == []
    assert made(plan(cronjob(spec={"startingDeadlineSeconds": 100}, status=since(300)), [], late)) != []


def test_many_missed_times_make_one_job_and_a_warning() -> None:
    result = plan(cronjob("* * * * *", status=since(3600 * 24)), [], NOW)
    assert len(created(result)) == 1
    assert "! TooManyMissedTimes" in said(result.actions)


def test_suspended_it_starts_nothing() -> None:
    result = plan(cronjob(spec={"suspend": True}, status=since(300)), [], NOW)
    assert (said(result.actions), result.wake_after) == ([], None)


def test_so_many_ended_jobs_are_kept() -> None:
    wish = cronjob(status=since(0))
    mine = [of(wish, f"ok-{age}", end="Complete", start=age) for age in (100, 200, 300, 400, 500)]
    mine += [of(wish, f"bad-{age}", end="Failed", start=age) for age in (100, 200)]
    result = plan(wish, mine, NOW)
    assert said(result.actions)[:-1] == ["-Job ok-500", "-Job ok-400", "-Job bad-200"]
    assert status_of(result).last_successful_time == ago(90)


def test_a_schedule_that_cannot_be_read_is_said() -> None:
    assert said(plan(cronjob("61 * * * *"), [], NOW).actions) == ["! UnparseableSchedule"]


@pytest.mark.parametrize(
    ("schedule", "last", "due", "wake"),
    [
        ("@every 1h", 3599, None, 1),
        ("@every 1h", 3600, 0, 3600),
        ("@every 1h30m", 3 * 5400 + 60, 60, 5340),
        ("@every 90s", 100, 10, 80),
        ("@every 1ms", 1, 0, 1),
    ],
)
def test_every_so_often_counted_from_the_last_time(schedule: str, last: int, due: int | None, wake: float) -> None:
    result = plan(cronjob(schedule, status=since(last)), [], NOW)
    assert (status_of(result).last_schedule_time if due is not None else None) == (None if due is None else ago(due))
    assert (len(created(result)), result.wake_after) == (int(due is not None), wake)


def test_hourly_and_its_like() -> None:
    result = plan(cronjob("@hourly", status=since(3600)), [], NOW)
    assert (len(created(result)), result.wake_after) == (1, 3600)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("@every 1h", None),
        ("@every 1.5h30m", None),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        (f"@every {'9' * 17}h", f'failed to parse duration @every {"9" * 17}h: time: invalid duration "{"9" * 17}h"'),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
    ],
)
def test_which_descriptors_are_taken(schedule: str, words: str | None) -> None:
    wish = cronjob(schedule)
    wish.metadata.name = "c"
    found = [cause.message for cause in validate_cron_job(wish) if cause.field == "spec.schedule"]
    assert found == ([] if words is None else [f'Invalid value: "{schedule}": {words}'])
