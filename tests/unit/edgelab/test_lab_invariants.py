"""Every invariant of the lab can fail: each is shown a cluster in which it is broken, and says what it saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgelab.invariants import Act, Seen, acts_of, every_node_is_heard_throughout, faults_of, judge, unsettled
from edgelab.ledger import Ledger, Size, Wish

SMALL, LARGE, OTHER = Size("100m", "96Mi"), Size("200m", "96Mi"), Size("300m", "96Mi")


def pod(name: str, uid: str, cpu: str = "200m", **status: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "96Mi"}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "metadata": {"name": name, "uid": uid, "generation": 2},
        "spec": {"nodeName": "node-1", "containers": [{"name": "vm", "resources": resources}]},
        "status": {
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "vm", "restartCount": 0, "resources": resources}],
            **status,
        },
    }


def healthy() -> tuple[Ledger, Seen]:
    wish = Wish("web", "u1", [SMALL, OTHER, LARGE], node="node-1", superseded={OTHER})
    gone = Wish("old", "u2", [SMALL], node="node-1", deleted=True)
    web = pod("web", "u1")
    acts = [Act("web", "Launch"), Act("web", "SetCpu", 200), Act("old", "Launch"), Act("old", "Remove")]
    seen = Seen(
        pods={"web": web},
        statuses={"u1": web["status"]},
        vms={"node-1": Counter({"u1": 1})},
        waiting={"node-1": 0},
        acts=acts,
    )
    return Ledger([wish, gone]), seen


def test_a_healthy_cluster_is_found_healthy_and_says_what_was_looked_at() -> None:
    ledger, seen = healthy()
    verdicts = judge(ledger, seen, every_node_is_heard_throughout)
    assert [v.name for v in verdicts if not v.ok] == []
    assert unsettled(ledger, seen) is None
    assert len(verdicts) == 11
    assert verdicts[0].evidence == "1 pods, 4 acknowledged wishes"


Broken = Callable[[Ledger, Seen], object]


@pytest.mark.parametrize(
    ("name", "breaks", "complaint"),
    [
        ("acknowledged-is-kept", lambda _, s: s.pods.clear(), "web is not at the hub"),
        ("acknowledged-is-kept", lambda _, s: s.pods.update(web=pod("web", "u9")), "web is not at the hub"),
        ("acknowledged-is-kept", lambda _, s: s.pods.update(web=pod("web", "u1", "100m")), "web: the hub holds"),
        ("wishes-are-in-force", lambda _, s: s.pods["web"]["status"].update(observedGeneration=1), "web: observed"),
        ("wishes-are-in-force", lambda _, s: s.pods["web"]["status"].update(conditions=[]), "web: Ready is None"),
        ("both-sides-agree", lambda _, s: s.statuses.clear(), "web: its node has no status"),
        ("both-sides-agree", lambda _, s: s.statuses.update(u1={"phase": "Failed"}), "web: the hub has"),
        ("both-sides-agree", lambda _, s: s.waiting.update({"node-1": 3}), "node-1: 3 entries wait"),
        ("deletions-are-done", lambda _, s: s.pods.update(old=pod("old", "u2")), "old (u2) is still at the hub"),
        ("deletions-are-done", lambda _, s: s.vms["node-1"].update(["u2"]), "old: node-1 still has its VM"),
        ("nothing-is-left-over", lambda _, s: s.vms["node-1"].update(["u7"]), "1 VMs too many of pod u7"),
        ("nothing-is-left-over", lambda _, s: s.vms["node-1"].clear(), "1 VMs of pod u1 are missing"),
        ("nothing-is-done-twice", lambda _, s: s.acts.append(Act("web", "Launch")), "web: Launch 2 times, wished 1"),
        ("nothing-is-done-twice", lambda _, s: s.acts.append(Act("old", "Remove")), "old: Remove 2 times"),
        ("nothing-is-done-twice", lambda _, s: s.acts.append(Act("web", "SetCpu", 200)), "web: SetCpu 200m 2 times"),
        ("superseded-is-never-applied", lambda _, s: s.acts.append(Act("web", "SetCpu", 300)), "web: 300m was applied"),
        (
            "nothing-restarted",
            lambda _, s: s.pods["web"]["status"]["containerStatuses"][0].update(restartCount=2),
            "web was restarted 2 times",
        ),
        ("pods-stay-on-their-node", lambda _, s: s.pods["web"]["spec"].update(nodeName="node-2"), "web was on node-1"),
        ("nothing-crashed", lambda _, s: s.faults.append("hub: ValueError: no"), "hub: ValueError: no"),
        ("every-node-is-heard-throughout", lambda _, s: s.silences.append("Node node-1 status"), "Node node-1 status"),
    ],
)  # fmt: skip
def test_what_is_broken_is_seen_and_named(name: str, breaks: Broken, complaint: str) -> None:
    ledger, seen = healthy()
    breaks(ledger, seen)
    verdicts = {v.name: v for v in judge(ledger, seen, every_node_is_heard_throughout)}
    assert not verdicts[name].ok
    assert verdicts[name].complaints[0].startswith(complaint)


def test_an_agent_that_was_killed_may_have_begun_a_step_once_more() -> None:
    ledger, seen = healthy()
    seen.acts.append(Act("web", "Launch"))
    assert all(v.ok for v in judge(replace(ledger, agent_kills=1), seen))


def test_what_was_asked_for_without_an_answer_may_be_in_force_or_not() -> None:
    ledger, seen = healthy()
    ledger.wishes[0].unsure.append(OTHER)
    assert all(v.ok for v in judge(ledger, seen))
    ledger.wishes[0].superseded.clear()
    seen.pods = {"web": pod("web", "u1", "300m")}
    seen.statuses = {"u1": seen.pods["web"]["status"]}
    assert all(v.ok for v in judge(ledger, seen))


def test_only_what_was_taken_back_while_the_node_was_away_is_superseded() -> None:
    wish = Wish("web", "u1", [SMALL])
    for size, away in ((LARGE, False), (OTHER, True), (SMALL, True), (LARGE, True)):
        wish.unsure.append(size)
        wish.resized(size, away=away)
    wish.node_returns()
    assert wish.superseded == {OTHER, SMALL}
    assert wish.possible == [LARGE]


def test_acts_and_stack_traces_are_read_from_logs() -> None:
    log = (
        "2026-01-01 INFO edgecore.worker: pod default/web-1: Launch(container='vm')\n"
        "2026-01-01 INFO worker: pod default/web-1: SetCpu(container='vm', limit_millicores=250, vcpus_online=1)\n"
        "2026-01-01 ERROR edgecore.worker: pod u1: unexpected fault\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: no such thing\n'
    )
    assert acts_of(log) == [Act("web-1", "Launch"), Act("web-1", "SetCpu", 250)]
    assert faults_of("node-1", log) == ["node-1: ValueError: no such thing"]
