"""How a background worker says that it has to wait."""

from __future__ import annotations

import logging

from kubeapi.errors import ApiError
from metastore.api import StoreError


def note(log: logging.Logger, what: str, seconds: float, error: Exception) -> None:
    """A store that is away, or a write that is refused, is told in its own words; the unforeseen with where it came
    from."""
    if isinstance(error, ApiError | StoreError):
        log.warning("%s wait %g seconds: %s", what, seconds, error)
    else:
        log.error("%s wait %g seconds", what, seconds, exc_info=error)
