"""One hub for a module's tests, and the programs that talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.livehub import LiveHub, live_hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(tmp_path_factory.mktemp("live")) as made:
        yield made
