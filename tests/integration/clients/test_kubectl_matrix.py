"""Every command of the recordings that does not stream from a node, by real kubectl, new and old, word for word.

The chapters and what was said: tests/data/clients. After a change that is meant: `UPDATE_TRANSCRIPTS=1 pytest` with
this file, and review the difference.
"""

from __future__ import annotations

import csv
import difflib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import transcripts
from tests.support.kubectls import NEWEST, OLDER, kubectl
from tests.support.livehub import LiveHub

DATA = Path(__file__).parents[2] / "data"
CHAPTERS = sorted((DATA / "clients" / "kubectl").glob("*.yaml"))
SAMPLE = {"reading", "resizing"}
"""What the older kubectl is asked every time; the rest of it by `make test-long`."""
STREAMS = {"attach", "cp", "logs", "logs-f", "logs-prev", "port-forward", "run-i"}
"""Commands that carry bytes from a node."""


def run(version: str, chapter: Path) -> Any:
    now = version == NEWEST or chapter.stem in SAMPLE
    return pytest.param(
        version,
        chapter,
        marks=() if now else (pytest.mark.long, pytest.mark.timeout(600)),
        id=f"{version}-{chapter.stem}",
    )


@pytest.mark.parametrize(
    ("version", "chapter"), [run(version, chapter) for version in (NEWEST, OLDER) for chapter in CHAPTERS]
)
def test_a_chapter_is_as_it_was(version: str, chapter: Path, hub: LiveHub, tmp_path: Path) -> None:
    namespace = f"demo-{chapter.stem}-{version.replace('.', '-')}"
    program = kubectl(version, hub, tmp_path / "home", namespace)
    program.ok("create", "namespace", namespace)
    said = [
        transcripts.transcript(step, transcripts.play(program, step), namespace)
        for step in transcripts.load(chapter).steps
    ]
    program.ok("delete", "namespace", namespace, "--timeout=50s")
    compare("\n".join(said), chapter, version)


def test_every_recorded_command_is_in_a_chapter() -> None:
    with (DATA / "kubernetes" / "kubectl-endpoints.tsv").open() as file:
        recorded = {row["cmd"] for row in csv.DictReader(file, delimiter="\t")}
    proven = {name for path in CHAPTERS for step in transcripts.load(path).steps for name in step.proves}
    assert proven - STREAMS == recorded - STREAMS


def compare(text: str, chapter: Path, version: str) -> None:
    """With `CHAPTER.VERSION.txt` where that version of kubectl says something else than the newest."""
    common, own = chapter.with_suffix(".txt"), chapter.with_suffix(f".{version}.txt")
    if os.environ.get("UPDATE_TRANSCRIPTS"):
        if version == NEWEST:
            common.write_text(text)
        elif text != common.read_text():
            own.write_text(text)
        else:
            own.unlink(missing_ok=True)
    golden = own if own.exists() else common
    difference = difflib.unified_diff(
        golden.read_text().splitlines(), text.splitlines(), golden.name, "said", lineterm="", n=6
    )
    assert text == golden.read_text(), "\n".join(difference)
