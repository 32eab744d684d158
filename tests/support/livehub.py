"""A hub with real agents over pretended VMs, on a thread of its own, for tests that drive clients which block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cloudhub.daemon import Hub
from tests.support.boxes import Box
from tests.support.hub import in_memory, lab, until

T = TypeVar("T")

_START_SECONDS = 60.0
_CALL_SECONDS = 60.0


@dataclass
class LiveHub:
    hub: Hub
    boxes: list[Box]
    loop: asyncio.AbstractEventLoop

    @property
    def kubeconfig(self) -> Path:
        return self.hub.kubeconfig

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.hub.port}"

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it on the hub's own loop."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(_CALL_SECONDS)

    def forget_history(self) -> None:
        """Compact the store up to now: who wants an older revision is told 410."""
        store = self.hub.objects.store
        self.call(lambda: store.compact(store.revision))


@contextmanager
def live_hub(directory: Path, nodes: int = 2) -> Iterator[LiveHub]:
    """Its nodes are n1, n2, …, each with 8 CPUs and 16 GiB, Ready."""
    started: Future[LiveHub] = Future()
    ended = asyncio.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            started.set_result(await _started(stack, directory, nodes))
            await ended.wait()

    with ThreadPoolExecutor(1, "live-hub") as pool:
        running = pool.submit(lambda: asyncio.run(serve()))
        wait((started, running), _START_SECONDS, FIRST_COMPLETED)
        if not started.done():
            running.result(0)
        hub = started.result(0)
        try:
            yield hub
        finally:
            hub.loop.call_soon_threadsafe(ended.set)
            running.result(_START_SECONDS)


async def _started(stack: AsyncExitStack, directory: Path, nodes: int) -> LiveHub:
    network = in_memory()
    # Patient with its nodes: under load a lease may be late, and what these tests compare must not tell.
    made = await stack.enter_async_context(lab(directory / "hub", network, lease_timeout=30.0))
    boxes = [Box(f"n{number + 1}", directory / f"n{number + 1}", network) for number in range(nodes)]
    for box in boxes:
        box.start()
        stack.push_async_callback(box.stop)
    for box in boxes:
        await until(partial(made.ready, box.name, "True"), f"{box.name} is Ready")
    return LiveHub(made.hub, boxes, asyncio.get_running_loop())
