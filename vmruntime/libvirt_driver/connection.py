"""One connection to libvirtd: blocking calls in threads, events handed to the loop, reconnecting by itself (S-40).

Nothing of libvirt's own errors leaves this package: `translated` turns each into one of ours, chained.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import libvirt

from vmruntime.api import EventType, GuestUnavailable, RuntimeUnavailable, VmError, VmEvent, VmNotFound
from vmruntime.subscriptions import RESYNC

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

THREADS = 16
RECONNECT_SECONDS = 0.5
KEEPALIVE = (5, 3)
"""Seconds between probes, and how many may go unanswered: a hung libvirtd is noticed after 15-20 s."""

_LINK_DOMAINS = (libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE)
_LINK_CODES = (libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN, libvirt.VIR_ERR_AUTH_FAILED)
_AGENT_CODES = (
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
)


def to_ours(error: libvirt.libvirtError) -> VmError:
    code, domain, text = error.get_error_code(), error.get_error_domain(), error.get_error_message() or str(error)
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return VmNotFound(text)
    # The remote driver passes on what libvirtd answered under the answer's own domain; what is of the link
    # is lost contact.
    if code in _LINK_CODES or domain in _LINK_DOMAINS:
        return RuntimeUnavailable(f"libvirtd does not answer: {text}; is libvirtd.service running?")
    if code in _AGENT_CODES or (domain == libvirt.VIR_FROM_QEMU and "agent" in text.lower()):
        return GuestUnavailable(f"the guest agent does not answer: {text}")
    if code == libvirt.VIR_ERR_OPERATION_INVALID and "not running" in text:
        return GuestUnavailable(text)
    return VmError(f"libvirt: {text}")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        raise to_ours(error) from error


_events_started = threading.Lock()


def _start_event_thread() -> None:
    """libvirt's client has one event loop for the process. It runs in a daemon thread, started once."""
    if not _events_started.acquire(blocking=False):
        return
    libvirt.virEventRegisterDefaultImpl()
    # libvirt prints every error on stderr unless given a handler; each reaches us as an exception as well.
    libvirt.registerErrorHandler(lambda context, error: None, None)

    def run() -> None:
        while True:
            libvirt.virEventRunDefaultImpl()

    threading.Thread(target=run, name="libvirt-events", daemon=True).start()


class Connection:
    """Opened at the first call. When libvirtd goes, calls raise RuntimeUnavailable until it is back."""

    def __init__(self, uri: str, on_event: Callable[[VmEvent], None]) -> None:
        self._uri, self._on_event = uri, on_event
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="libvirt")
        self._lock = threading.Lock()
        self._conn: Any = None
        self._missed = False
        """Whether events may have been missed when the connection opens next."""
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reconnecting: asyncio.Task[None] | None = None

    async def call(self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)` in a thread. Raises only VmError."""
        if self._closed:
            raise RuntimeUnavailable("this runtime has been closed")
        self._loop = asyncio.get_running_loop()

        def run() -> T:
            with translated():
                return function(self._open(), *args, **kwargs)

        try:
            return await self._loop.run_in_executor(self._pool, run)
        except RuntimeUnavailable as error:
            self._lost(str(error))
            raise

    def listen(self) -> None:
        """Make sure that events flow, also before the first call. On the loop's thread."""
        self._loop = asyncio.get_running_loop()
        if not self._missed and self._reconnecting is None and not self._closed:
            self._reconnecting = self._loop.create_task(self._reconnect(), name="libvirt-connect")

    async def outside(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something blocking that needs no connection (files, the probe)."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._pool, self._drop)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- in threads -----------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        with self._lock:
            if self._conn is not None and self._conn.isAlive():
                return self._conn
            self._conn = None
            _start_event_thread()
            missed, self._missed = self._missed, True
            conn = self._connect()
            self._conn = conn
            if missed:
                log.info("connected to libvirtd again")
                self._hand_over(RESYNC)
            return conn

    def _connect(self) -> Any:
        """Whatever keeps it from opening, there is no hypervisor then: that passes, or is mended by people."""
        try:
            conn = libvirt.open(self._uri)
            self._register(conn)
        except libvirt.libvirtError as error:
            text = error.get_error_message() or str(error)
            raise RuntimeUnavailable(
                f"cannot connect to libvirt at {self._uri}: {text}; is libvirtd running?"
            ) from error
        return conn

    def _drop(self) -> None:
        with self._lock:
            conn, self._conn = self._conn, None
        if conn is not None:
            try:
                conn.unregisterCloseCallback()
                conn.close()
            except libvirt.libvirtError:
                log.debug("closing a connection that was gone already")

    def _register(self, conn: Any) -> None:
        conn.setKeepAlive(*KEEPALIVE)
        conn.registerCloseCallback(self._on_close, None)
        handlers: list[tuple[int, Callable[..., None]]] = [
            (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_lifecycle),
            (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._hint(EventType.REBOOTED)),
            (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, self._hint(EventType.AGENT)),
            (libvirt.VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE, self._hint(EventType.RESIZED)),
        ]
        for event, handler in handlers:
            conn.domainEventRegisterAny(None, event, handler, None)

    def _hint(self, type: EventType) -> Callable[..., None]:
        return lambda conn, domain, *rest: self._hand_over(VmEvent(type, domain.UUIDString()))

    def _on_lifecycle(self, conn: Any, domain: Any, event: int, detail: int, opaque: object) -> None:
        type = _LIFECYCLE.get(event)
        if type is not None:
            self._hand_over(VmEvent(type, domain.UUIDString()))

    def _on_close(self, conn: Any, reason: int, opaque: object) -> None:
        self._to_loop(self._lost, "it was closed by the other end")

    def _hand_over(self, event: VmEvent) -> None:
        self._to_loop(self._on_event, event)

    def _to_loop(self, function: Callable[..., object], *args: object) -> None:
        loop = self._loop
        if loop is None or self._closed:
            return
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            log.debug("the event loop has ended; an event is dropped")

    # -- on the loop ----------------------------------------------------------------------------------------------

    def _lost(self, why: str) -> None:
        if self._closed or self._reconnecting is not None:
            return
        log.warning("no connection to libvirtd (%s); trying again every %g s", why, RECONNECT_SECONDS)
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(), name="libvirt-reconnect")

    async def _reconnect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    await loop.run_in_executor(self._pool, self._open)
                    return
                except RuntimeUnavailable:
                    await asyncio.sleep(RECONNECT_SECONDS)
        finally:
            self._reconnecting = None


_LIFECYCLE = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: EventType.STARTED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: EventType.STOPPED,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: EventType.STOPPED,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: EventType.REMOVED,
}
