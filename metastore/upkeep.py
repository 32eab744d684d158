"""Keeps a store's history bounded: it is needed by watchers and by readers of the past, and grows with every change."""

from __future__ import annotations

import asyncio
import logging

from metastore.api import Store, StoreError

_log = logging.getLogger(__name__)


async def compact_forever(store: Store, history: int, interval: float) -> None:
    """Every `interval` seconds forget what is more than `history` revisions old, until cancelled."""
    while True:
        await asyncio.sleep(interval)
        upto = store.revision - history
        if upto <= 0:
            continue
        try:
            await store.compact(upto)
        except StoreError as error:
            _log.warning("the store's history was not compacted: %s", error)
