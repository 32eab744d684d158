"""What exec, attach and port-forward have in common: who may ask for what, who delivers it, and how it ends.

The channels are those of the reference's `v4.channel.k8s.io` and `v5.channel.k8s.io`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from aiohttp import web
from multidict import MultiMapping

from kubeapi import errors
from kubeapi.core import Pod
from kubeapi.server import queries


class Channel(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    """Server to client: the closing `Status`. From a source: the exit code, in decimal digits."""
    RESIZE = 4
    CLOSE = 255
    """Its data is the number of the channel on which nothing more comes (version 5)."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A program in a container (`command`), a port of it (`port`), or with neither its console."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    command: tuple[str, ...] = ()
    port: int | None = None


class Conversation(Protocol):
    def read(self) -> AsyncIterator[tuple[int, bytes]]:
        """Channel and data, until the other side ends it. Raises Broken."""

    async def write(self, channel: int, data: bytes) -> None:
        """STDIN, RESIZE, CLOSE. Waits while nobody takes it; after the end nothing happens."""

    def close(self) -> None:
        """Whoever opened it must close it."""


class Source(Protocol):
    def check(self, pod: Pod) -> None:
        """Raises ApiError (503) when the pod's node is known to be out of reach now."""

    async def open(self, pod: Pod, container: str, wish: Wish) -> Conversation:
        """Raises ApiError (503: the node is offline), and Broken where the node refuses."""


class Broken(Exception):
    """It cannot begin, or go on; the message is for the user."""


class NoSource:
    """Where no node can be asked."""

    def check(self, pod: Pod) -> None:
        raise errors.unavailable("this server has no connection to nodes, so nothing can be run there")

    async def open(self, pod: Pod, container: str, wish: Wish) -> Conversation:
        self.check(pod)
        raise NotImplementedError


SOURCE: web.AppKey[Source] = web.AppKey("streams", Source)


def wish_of(query: MultiMapping[str], *, exec_: bool) -> Wish:
    """Raises ApiError 400, in the reference's words."""
    wish = Wish(
        stdin=queries.flag(query, "stdin"),
        stdout=queries.flag(query, "stdout"),
        stderr=queries.flag(query, "stderr"),
        tty=queries.flag(query, "tty"),
        command=tuple(query.getall("command", [])) if exec_ else (),
    )
    if not (wish.stdin or wish.stdout or wish.stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if wish.tty and wish.stderr:
        raise errors.bad_request("tty and stderr cannot both be true")
    if exec_ and not any(wish.command):
        raise errors.bad_request("you must specify at least one command for the container")
    return wish


def container_of(pod: Pod, asked: str) -> str:
    """Raises ApiError 400 in the reference's words."""
    name = pod.metadata.name
    names = [item.name for item in pod.spec.containers]
    if not asked:
        if len(names) == 1:
            return names[0]
        raise errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    if asked not in (*names, *(item.name for item in pod.spec.init_containers)):
        raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    return asked


# -- how it ends ------------------------------------------------------------------------------------------------------


def ended(code: int) -> Mapping[str, Any]:
    """The closing Status of a program that ended with that code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def broken(reason: str) -> Mapping[str, Any]:
    """The closing Status of what could not go on."""
    return errors.internal(f"error executing command in container: {reason}").to_dict()


def is_asked(request: web.Request, protocol: str) -> bool:
    """Whether the client wants to go on by that protocol."""
    upgrades = request.headers.get("Upgrade", "").lower()
    return "upgrade" in request.headers.get("Connection", "").lower() and upgrades == protocol.lower()


def offered(request: web.Request, header: str) -> Sequence[str]:
    """The subprotocols a client offers, in its order."""
    values = ",".join(request.headers.getall(header, []))
    return [name.strip() for name in values.split(",") if name.strip()]
