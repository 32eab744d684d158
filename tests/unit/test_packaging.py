"""What an installed copy holds. The editable one that developers use would not show that something is missing."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_SHIPPED = {"bench"}


def test_every_package_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in set(project["tool"]["mypy"]["packages"]) - NOT_SHIPPED
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert listed == found
