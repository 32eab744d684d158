"""`kubectl logs`: from the node that has the VM, through a stream of the link."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Protocol, cast

from cloudhub.link import Session
from edgelink.api import NodeOffline, StreamRefused, StreamRequest
from kubeapi import errors
from kubeapi.core import Pod
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
            raise errors.bad_request(str(error)) from error

    def _offline(self, node: str) -> str:
        session = self._sessions.get(node)
        if session is None:
            return f"node {node} has not connected since this hub started; its logs can be read when it is back"
        return f"node {node} is offline since {session.since} ({session.reason}); its logs can be read when it is back"
