"""A broker and transports in memory, with faults, on the event loop's time: for simulations and the lab.

Every delivery may be dropped, doubled or delayed (delays reorder), as the given chance decides; connections may be cut
(packets vanish, both ends find out by keepalive) and the broker restarted (sessions and queues are gone).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgelink.pacing import Chance, Timing, backoff
from edgelink.transport import Down, Incoming, Publication, Signal, Up, WillFactory


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities per delivery; seconds."""

    drop: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    """The longest delay; each delivery draws its own, so messages overtake each other."""


def matches(pattern: str, topic: str) -> bool:
    """MQTT's filters, without `#`."""
    wanted, given = pattern.split("/"), topic.split("/")
    return len(wanted) == len(given) and all(w in ("+", g) for w, g in zip(wanted, given, strict=True))


class MemoryBroker:
    def __init__(self, chance: Chance, faults: Faults | None = None) -> None:
        self._chance = chance
        self.faults = faults or Faults()
        self.running = True
        self.refused: set[str] = set()
        """Client ids whose connections are refused, as with a bad password."""
        self._cut: set[str] = set()
        self._links: dict[str, _Link] = {}
        self.delivered = 0
        self.observe: Callable[[Publication], None] = lambda _: None

    # --- faults ---

    def cut(self, client: str) -> None:
        """From now on packets of this client vanish in both directions."""
        self._cut.add(client)

    def heal(self, client: str) -> None:
        self._cut.discard(client)

    def stop(self) -> None:
        """As by kill -9: every connection breaks, every queue is lost, no last will is sent."""
        self.running = False
        links, self._links = self._links, {}
        for link in links.values():
            link.close("the broker went away")

    def start(self) -> None:
        self.running = True

    def abort(self, client: str) -> None:
        """The client's connection breaks without a goodbye: its last will is published."""
        link = self._links.pop(client, None)
        if link is not None:
            link.close("the connection ended")
            if link.will is not None:
                self.publish(link.will)

    # --- for transports ---

    def is_cut(self, client: str) -> bool:
        return client in self._cut

    def connect(self, client: str, link: _Link) -> str | None:
        """None, or why not."""
        if not self.running or client in self._cut:
            return "cannot connect to the broker"
        if client in self.refused:
            return "the broker refused the connection: Not authorized"
        self.abort(client)  # one connection per client id
        self._links[client] = link
        return None

    def leave(self, client: str, link: _Link) -> None:
        if self._links.get(client) is link:
            del self._links[client]

    def publish(self, message: Publication) -> None:
        self.observe(message)
        for client, link in list(self._links.items()):
            if any(matches(pattern, message.topic) for pattern in link.subscriptions):
                self._deliver(client, link, message)

    def _deliver(self, client: str, link: _Link, message: Publication) -> None:
        faults, chance = self.faults, self._chance
        if faults.drop and chance.random() < faults.drop:
            return
        copies = 2 if faults.double and chance.random() < faults.double else 1
        for _ in range(copies):
            loop = asyncio.get_running_loop()
            if faults.delay:
                loop.call_later(chance.random() * faults.delay, self._arrive, client, link, message)
            else:  # timers of one moment would not keep their order
                loop.call_soon(self._arrive, client, link, message)

    def _arrive(self, client: str, link: _Link, message: Publication) -> None:
        if client not in self._cut and self._links.get(client) is link:
            self.delivered += 1
            link.deliver(Incoming(message.topic, message.payload))


class _Link:
    """One connection of one client."""

    def __init__(
        self, subscriptions: Sequence[str], will: Publication | None, deliver: Callable[[Signal], None]
    ) -> None:
        self.subscriptions, self.will, self.deliver = tuple(subscriptions), will, deliver
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def close(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


class MemoryTransport:
    """See `edgelink.transport.Transport`. `keepalive` in seconds: how long a cut goes unnoticed."""

    def __init__(
        self,
        broker: MemoryBroker,
        client_id: str,
        chance: Chance,
        timing: Timing | None = None,
        keepalive: float = 12.0,
    ) -> None:
        self._broker, self._client, self._chance = broker, client_id, chance
        self._timing, self._keepalive = timing or Timing(), keepalive
        self._inbox: asyncio.Queue[Signal] = asyncio.Queue()
        self._link: _Link | None = None

    async def run(self, subscriptions: Sequence[str], will: WillFactory) -> None:
        attempt = 0
        while True:
            link = _Link(subscriptions, will(), self._inbox.put_nowait)
            refusal = self._broker.connect(self._client, link)
            attempt = attempt + 1 if refusal else 0
            self._inbox.put_nowait(Down(refusal or await self._serve(link)))
            await asyncio.sleep(backoff(self._timing, attempt, self._chance))

    async def _serve(self, link: _Link) -> str:
        self._link = link
        self._inbox.put_nowait(Up())
        try:
            while not link.ended.done():
                await asyncio.wait([link.ended], timeout=self._keepalive)
                if self._broker.is_cut(self._client):
                    self._broker.abort(self._client)  # the broker's keepalive runs out as well
            return link.ended.result()
        finally:
            self._link = None
            self._broker.leave(self._client, link)

    async def receive(self) -> Signal:
        return await self._inbox.get()

    async def publish(self, topic: str, payload: bytes, qos: int) -> None:
        if self._link is not None and not self._broker.is_cut(self._client):
            self._broker.publish(Publication(topic, payload, qos))
