"""`kubectl logs`: from the node that has the VM, through a stream of the link."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Protocol, cast

from cloudhub.link import Session
from edgelink.api import NodeOffline, StreamRefused, StreamRequest
from kubeapi import errors
from kubeapi.core import ContainerStatus, Pod
from kubeapi.server.logs import LogOptions


class Streams(Protocol):
    """The link, as far as it is needed here."""

    async def open_stream(self, node: str, request: StreamRequest) -> AsyncIterator[bytes]:
        """Raises NodeOffline, StreamRefused; iterating raises NodeOffline when the session ends."""


class LinkLogs:
    """Implements kubeapi.server.logs.LogSource."""

    def __init__(self, streams: Streams, sessions: Mapping[str, Session]) -> None:
        self._streams = streams
        self._sessions = sessions

    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        node = pod.spec.node_name
        if not node:
            raise errors.bad_request(f"pod {pod.metadata.name} does not have a host assigned")
        if options.previous and (reason := _no_previous(pod, container)):
            raise errors.bad_request(reason)
        request = StreamRequest("logs", pod.metadata.uid or "", container, options.to_mapping())
        try:
            chunks = await self._streams.open_stream(node, request)
            # Closed when the client goes away: that is what stops the node from sending.
            async with aclosing(cast("AsyncGenerator[bytes, None]", chunks)):
                async for chunk in chunks:
                    yield chunk
        except NodeOffline as error:
            raise errors.unavailable(self._offline(node)) from error
        except StreamRefused as error:
            raise errors.bad_request(_not_started(pod, container) or str(error)) from error

    def _offline(self, node: str) -> str:
        session = self._sessions.get(node)
        if session is None:
            return f"node {node} has not connected since this hub started; its logs can be read when it is back"
        return f"node {node} is offline since {session.since} ({session.reason}); its logs can be read when it is back"


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    return next((item for item in pod.status.container_statuses if item.name == container), None)


def _not_started(pod: Pod, container: str) -> str:
    """Why there is nothing to read yet, in the reference's words; empty when it has been started."""
    status = _status(pod, container)
    if status is not None and (status.container_id or status.last_state or status.restart_count):
        return ""
    waiting = status.state.waiting if status and status.state else None
    why = waiting.reason if waiting and waiting.reason else "ContainerCreating"
    return f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {why}'


def _no_previous(pod: Pod, container: str) -> str:
    """Why the log before the last restart cannot be had; empty when it can: a VM's console begins anew with each
    start, so until the next one the console at hand is that of the run before."""
    status = _status(pod, container)
    if status is None or not (status.last_state or status.restart_count):
        return f'previous terminated container "{container}" in pod "{pod.metadata.name}" not found'
    if status.state and status.state.running:
        return f'the log of container "{container}" begins at its last start: what was before is not kept'
    return ""
