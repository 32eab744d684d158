"""`kubectl exec`, `attach`, `port-forward`: to the node that has the VM, through a conversation on the link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from cloudhub.link import Session
from edgelink import frames
from edgelink.api import Conversation, NodeOffline, StreamRefused, StreamRequest
from edgelink.frames import Way
from kubeapi import errors
from kubeapi.core import Pod
from kubeapi.server import streaming
from kubeapi.server.streaming import Broken, Channel, Wish


class Link(Protocol):
    """As far as it is needed here."""

    async def converse(self, node: str, request: StreamRequest) -> Conversation:
        """Raises NodeOffline, StreamRefused."""


class LinkStreams:
    """Implements kubeapi.server.streaming.Source."""

    def __init__(self, link: Link, sessions: Mapping[str, Session]) -> None:
        self._link, self._sessions = link, sessions

    def check(self, pod: Pod) -> None:
        node = pod.spec.node_name or ""
        session = self._sessions.get(node)
        if session is None or not session.connected:
            raise errors.unavailable(self._offline(node))

    async def open(self, pod: Pod, container: str, wish: Wish) -> streaming.Conversation:
        node = pod.spec.node_name or ""
        try:
            conversation = await self._link.converse(node, _request(pod, container, wish))
        except NodeOffline as error:
            raise errors.unavailable(self._offline(node)) from error
        except StreamRefused as error:
            raise Broken(str(error)) from error
        return _Talk(conversation)

    def _offline(self, node: str) -> str:
        session = self._sessions.get(node)
        if session is None:
            return f"node {node} has not connected since this hub started; try again when it is back"
        return f"node {node} is offline since {session.since} ({session.reason}); try again when it is back"


def _request(pod: Pod, container: str, wish: Wish) -> StreamRequest:
    uid = pod.metadata.uid or ""
    flags = {name: "true" for name, is_set in (("stdin", wish.stdin), ("tty", wish.tty)) if is_set}
    if wish.port is not None:
        return StreamRequest("connect", uid, container, {"port": str(wish.port)})
    if wish.command:
        return StreamRequest("exec", uid, container, flags | frames.packed_command(wish.command))
    once = any(item.name == container and item.stdin_once for item in pod.spec.containers)
    return StreamRequest("attach", uid, container, flags | ({"once": "true"} if once else {}))


class _Talk:
    """See kubeapi.server.streaming.Conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        try:
            async for piece in self._conversation.read():
                way, data = frames.unpacked(piece)
                yield way, data if way != Way.RESULT else str(frames.result_code(data)).encode()
        except (NodeOffline, StreamRefused) as error:
            raise Broken(str(error)) from error

    async def write(self, channel: int, data: bytes) -> None:
        if channel == Channel.CLOSE or data:
            for piece in frames.packed(channel, data):
                await self._conversation.write(piece)

    def close(self) -> None:
        self._conversation.close()
