"""A session at the command line as data: chapters of commands, and what a client printed, made comparable."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import Program, Ran

_TRIES, _PAUSE = 40, 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a chapter; tests/data/clients/README.md says what the keys mean."""

    run: str
    proves: tuple[str, ...] = ()
    stdin: str = ""
    piped: str = ""
    only: str = ""
    drop: str = ""
    sort: bool = False
    until: str = ""
    patient: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chapter:
    name: str
    steps: tuple[Step, ...]


def load(path: Path) -> Chapter:
    document = yaml.safe_load(path.read_text())
    files: Mapping[str, Any] = document.get("files", {})
    return Chapter(path.stem, tuple(_step(raw, files) for raw in document["steps"]))


def _step(raw: dict[str, Any], files: Mapping[str, Any]) -> Step:
    proves = raw.get("proves", ())
    named = raw.get("file")
    stdin = files[named] if named else raw.get("stdin", "")
    rest = {key: value for key, value in raw.items() if key not in ("proves", "file", "stdin")}
    return Step(proves=(proves,) if isinstance(proves, str) else tuple(proves), stdin=stdin, **rest)


def play(program: Program, step: Step) -> Ran:
    if step.until:
        return program.watch(*shlex.split(step.run), until=step.until)
    ran = _once(program, step)
    for _ in range(_TRIES if step.patient else 0):
        if ran.code == 0:
            break
        threading.Event().wait(_PAUSE)
        ran = _once(program, step)
    return ran


def _once(program: Program, step: Step) -> Ran:
    stdin = program.ok(*shlex.split(step.piped)) if step.piped else step.stdin
    return program.run(*shlex.split(step.run), stdin=stdin, **step.env)


def transcript(step: Step, ran: Ran, namespace: str) -> str:
    """As a reader of the golden file sees it: the command, its output, its errors (`! `), how it ended."""
    out = _shown(step, ran.out, namespace)
    err = [f"! {line}" for line in _shown(step, ran.err, namespace)]
    return "\n".join([f"$ kubectl {step.run}", *out, *err, f"[{ran.code}]", ""])


def _shown(step: Step, text: str, namespace: str) -> list[str]:
    lines = [line.rstrip() for line in comparable(text, namespace).splitlines()]
    if step.only:
        lines = [line for line in lines if re.search(step.only, line)]
    if step.drop:
        lines = [line for line in lines if not re.search(step.drop, line)]
    return sorted(lines) if step.sort else lines


_UNSTABLE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"(\"?resourceVersion\"?: )\"\d+\""), r"\1RV"),
    (re.compile(r"(status-source\"?: \"?UID)/\d+"), r"\1/N"),
    (re.compile(r"(?<=-c1-)[0-9a-f]{8}\b"), "HASH"),
    (re.compile(r"(?<=debugger-)[a-z0-9]{5}\b"), "HASH"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HUB"),
    (re.compile(r"/tmp/\S+"), "FILE"),
    # Ages. Nothing here lives for a minute's thousands, and no quantity ends in s.
    (re.compile(r"\b(\d+m)?\d+s\b|\b[1-9]m\b(?= ago)"), "AGE"),
    # kubectl compares with what it read just before: a status may have come between.
    (re.compile(r" \(no change\)"), ""),
    # Columns are as wide as what is in them.
    (re.compile(r"(?<=\S)  +(?=\S)"), "  "),
)


def comparable(text: str, namespace: str) -> str:
    """Without what differs from run to run: times, ids, ports, the width of columns, the namespace's name."""
    text = text.replace(namespace, "demo")
    for pattern, instead in _UNSTABLE:
        text = pattern.sub(instead, text)
    return text
