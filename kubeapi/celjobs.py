"""Several expressions over the same values, evaluated together: all that one request is asked (pure).

A job and its answer are plain JSON, for they cross a process boundary (`kubeapi.server.evaluator`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from kubeapi import cel


@dataclass(frozen=True, slots=True)
class Job:
    values: Mapping[str, Any]
    """By name: `object`, `oldObject`, `request`…"""
    expressions: Sequence[str]
    variables: Sequence[tuple[str, str]] = ()
    """Name and expression, in order: each may use those before it, as `variables.name`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    value: Any = None
    error: str = ""
    """Why there is no value; empty = there is one."""
    exhausted: bool = False
    """It took more than an expression may."""


def run(job: Job) -> list[Outcome]:
    """In the order of the expressions. What fails is told of each; nothing is raised."""
    values = dict(job.values)
    failed: dict[str, Outcome] = {}
    if job.variables:
        variables: dict[str, Any] = {}
        values["variables"] = variables
        for name, expression in job.variables:
            outcome = _evaluate(expression, values, failed)
            if outcome.error:
                failed[name] = outcome
            else:
                variables[name] = outcome.value
    return [_evaluate(expression, values, failed) for expression in job.expressions]


def _evaluate(expression: str, values: Mapping[str, Any], failed: Mapping[str, Outcome]) -> Outcome:
    try:
        return Outcome(_json(cel.compile(expression, values.keys()).evaluate(values)))
    except cel.CelError as error:
        for name in re.findall(r"\bvariables\.(\w+)", expression):
            if name in failed:
                return failed[name]
        message = f"expression '{expression.strip()}' resulted in error: {error}"
        return Outcome(None, message, isinstance(error, cel.BudgetExceeded))


def _json(value: Any) -> Any:
    """What has no form in JSON becomes text: nobody but a message would want it."""
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds()}s"
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def to_json(job: Job) -> dict[str, Any]:
    return {"values": job.values, "expressions": list(job.expressions), "variables": list(job.variables)}


def from_json(data: Mapping[str, Any]) -> Job:
    return Job(data["values"], data["expressions"], [(name, expression) for name, expression in data["variables"]])
