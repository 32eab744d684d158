"""The node's end of the link: edgelink's backend over the book."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from edgecore.book import Book
from edgecore.spec import vm_uuid
from edgecore.streams import talk
from edgecore.usage import UsageMeter
from edgelink.api import ItemKey, NodeFacts, StreamRefused, StreamRequest, UpItem, ViewChange
from kubeapi.sdnotify import notify
from vmruntime.api import Runtime, RuntimeUnavailable, VmNotFound

log = logging.getLogger(__name__)


class BookBackend:
    """Implements edgelink.api.NodeBackend."""

    def __init__(
        self, book: Book, runtime: Runtime, meter: UsageMeter, boot_id: str, new_id: Callable[[], str]
    ) -> None:
        self._book = book
        self._runtime = runtime
        self._meter = meter
        self._boot_id = boot_id
        self._new_id = new_id
        self._reported: tuple[bool, str] | None = None

    async def facts(self) -> NodeFacts:
        store = self._book.store
        return NodeFacts(
            store.store_id, self._boot_id, self._book.cursor, await store.outbox_high(), await self._book.acked()
        )

    async def apply(self, change: ViewChange) -> None:
        await self._book.apply(change)

    async def held(self) -> Mapping[ItemKey, tuple[str, int]]:
        return self._book.held()

    async def outbox(self, limit: int) -> Sequence[UpItem]:
        entries = await self._book.store.outbox(limit)
        return [UpItem(entry.number, entry.lane.value, entry.subject, entry.value) for entry in entries]

    async def acknowledged(self, upto: int) -> None:
        await self._book.acknowledged(upto)

    async def new_identity(self) -> None:
        await self._book.new_identity(self._new_id())

    async def serve(self, request: StreamRequest, given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`logs`: the serial console of a container's VM. `usage`: what the node and its VMs use now. The rest are
        conversations (`edgecore.streams`)."""
        if request.kind == "usage":
            return self._usage()
        if request.kind not in ("logs", "exec", "attach", "connect"):
            raise StreamRefused(f"this node does not serve {request.kind!r} streams")
        pod = self._book.pods.get(request.pod_uid)
        if pod is None:
            raise StreamRefused("the pod is not on this node")
        uuid = vm_uuid(request.pod_uid, request.container)
        if request.kind != "logs":
            return await talk(self._runtime, uuid, request.container, request.kind, request.options, given)
        tail = request.options.get("tailLines")
        follow = request.options.get("follow") == "true"
        return self._console(uuid, int(tail) if tail is not None else None, follow)

    async def _usage(self) -> AsyncIterator[bytes]:
        yield await self._meter.report(self._book.pods)

    async def _console(self, uuid: str, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._runtime.console(uuid, tail=tail, follow=follow):
                yield chunk
        except VmNotFound as error:
            raise StreamRefused("the container's VM does not exist (yet)") from error
        except RuntimeUnavailable as error:
            raise StreamRefused(str(error)) from error

    def link_changed(self, connected: bool, reason: str) -> None:
        """Each state and each new reason is told once, in the log and to the service manager (S-02)."""
        if self._reported == (connected, reason):
            return
        self._reported = connected, reason
        text = "hub reached" if connected else "hub out of reach" + (f": {reason}" if reason else "")
        log.log(logging.INFO if connected else logging.WARNING, "%s", text)
        notify(f"STATUS={text}")
