"""docs/kubernetes.md says of every kind what it does here."""

from __future__ import annotations

import re
from pathlib import Path

from kubeapi.resources import REGISTRY

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes.md"


def test_every_kind_is_in_the_table() -> None:
    table = PAGE.read_text().partition("## What works")[0]
    documented = set(re.findall(r"\w+", table))
    assert {item.kind for item in REGISTRY} - documented == set()
