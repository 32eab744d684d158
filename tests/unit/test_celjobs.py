"""Several expressions together: variables that build on each other, errors of each, and what the process allows."""

from __future__ import annotations

import asyncio

from kubeapi.celjobs import Job, Outcome, from_json, run, to_json
from kubeapi.server.evaluator import Evaluator

POD = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


def test_variables_build_on_each_other() -> None:
    variables = [("names", "object.spec.containers.map(c, c.name)"), ("first", "variables.names[0]")]
    job = Job({"object": POD}, ["variables.first == 'a'", "variables.names.size()"], variables)
    assert run(from_json(to_json(job))) == [Outcome(True), Outcome(2)]


def test_a_variable_that_fails_fails_only_what_uses_it() -> None:
    job = Job({"object": POD}, ["variables.bad", "1 + 1", "object.none"], [("bad", "object.spec.absent")])
    bad, fine, none = run(job)
    assert bad.error == "expression 'object.spec.absent' resulted in error: no such key: absent"
    assert fine == Outcome(2)
    assert none.error == "expression 'object.none' resulted in error: no such key: none"


def test_values_that_json_lacks_become_text() -> None:
    job = Job({}, ["duration('90s')", "timestamp('2026-01-02T03:04:05Z')", "b'x'", "{1: 2}"])
    values = [item.value for item in run(job)]
    assert values[0] == "90.0s"
    assert values[1].startswith("2026-01-02T03:04:05")
    assert values[2:] == ["x", {"1": 2}]


async def test_a_runaway_expression_ends_its_process_and_nothing_else() -> None:
    """It makes a text eight times longer, ten times over: no count of iterations stops that."""
    evaluator = Evaluator()
    doubling = "[object]" + ".map(t, t+t+t+t+t+t+t+t)" * 10 + "[0].size() > 0"
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    beating = asyncio.create_task(heart())
    try:
        assert list(await evaluator.run(Job({"object": 2}, ["object + 1"]))) == [Outcome(3)]
        (outcome,) = await evaluator.run(Job({"object": "x" * 100_000}, [doubling]))
        assert outcome.exhausted
        assert outcome.error == "operation cancelled: actual cost limit exceeded"
        assert beats > 20  # the event loop went on meanwhile
        assert list(await evaluator.run(Job({"object": 2}, ["object + 1"]))) == [Outcome(3)]
    finally:
        beating.cancel()
        await evaluator.close()
