"""The topic tree of ADR 0002, made and parsed in one place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ROOT = "copepod"


class Channel(StrEnum):
    DOWN = "down"
    UP = "up"
    LEASE = "lease"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message belongs: a node's channel, or with `stream` one of its streams (`channel` is its direction)."""

    cluster: str
    node: str
    channel: Channel
    stream: str = ""

    @property
    def topic(self) -> str:
        middle = f"stream/{self.stream}/" if self.stream else ""
        return f"{ROOT}/{self.cluster}/{self.node}/{middle}{self.channel}"


def parse_topic(topic: str) -> Address | None:
    """The address a topic names, or None for a topic that is not ours."""
    match topic.split("/"):
        case [root, cluster, node, "down" | "up" | "lease" as channel] if root == ROOT:
            return Address(cluster, node, Channel(channel))
        case [root, cluster, node, "stream", stream, "down" | "up" as channel] if root == ROOT and stream:
            return Address(cluster, node, Channel(channel), stream)
    return None


def node_subscriptions(cluster: str, node: str) -> tuple[str, ...]:
    return (f"{ROOT}/{cluster}/{node}/down", f"{ROOT}/{cluster}/{node}/stream/+/down")


def hub_subscriptions(cluster: str) -> tuple[str, ...]:
    return (f"{ROOT}/{cluster}/+/up", f"{ROOT}/{cluster}/+/lease", f"{ROOT}/{cluster}/+/stream/+/up")
