"""Golden files: `pytest tests/unit/vmruntime --update-golden` writes what the code gives now; review the diff.

The option exists only when this directory is named on the command line, as pytest reads options from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "data" / "domain"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text)
        assert text == path.read_text(), f"{path.name} differs; if that is meant: pytest {request.path} --update-golden"

    return check


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")
