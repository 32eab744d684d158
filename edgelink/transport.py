"""What the protocol asks of a message transport: MQTT's semantics at their weakest.

Any message may be lost, doubled, late or reordered; nothing is promised to whoever publishes. Implementations:
`edgelink.mqtt` (a real broker) and `edgelink.memory` (simulation); one contract suite runs on both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Publication:
    topic: str
    payload: bytes
    qos: int = 0


@dataclass(frozen=True, slots=True)
class Up:
    """Connected and subscribed."""


@dataclass(frozen=True, slots=True)
class Down:
    """No connection: lost, or an attempt failed. It is tried again, with back-off."""

    reason: str


@dataclass(frozen=True, slots=True)
class Incoming:
    topic: str
    payload: bytes


Signal = Up | Down | Incoming

WillFactory = Callable[[], Publication | None]


class Transport(Protocol):
    async def run(self, subscriptions: Sequence[str], will: WillFactory) -> None:
        """Keep a connection until cancelled, then close it cleanly (no last will is sent then).

        `will` is asked before each attempt, in the event loop's thread.
        """

    async def receive(self) -> Signal:
        """The next thing that happened, in order."""

    async def publish(self, topic: str, payload: bytes, qos: int) -> None:
        """Hand over to the network. With QoS 1 waits while too much is in flight; without a connection the message
        is dropped."""
