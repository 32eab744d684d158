"""One private PostgreSQL for all suites that want one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import postgres


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Postgres]:
    if not postgres.installed():
        pytest.skip(postgres.MISSING)
    with postgres.running_postgres() as running:
        yield running
