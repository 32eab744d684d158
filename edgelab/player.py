"""Plays a scenario on a box, and keeps the ledger of what was acknowledged on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from edgelab.box import Box
from edgelab.client import ApiUnavailable, Client
from edgelab.faults import Link, NftLink, can_cut, table_name
from edgelab.invariants import Seen, Verdict, every_node_is_heard_throughout, judge, unsettled
from edgelab.ledger import Ledger, Size, Wish
from edgelab.nodestore import NoStore
from edgelab.observer import PODS, hub_pods, look
from edgelab.process import Child, Say
from edgelab.proxy import Flow, ProxyLink
from edgelab.scenario import (
    ALL,
    Create,
    Delete,
    Resize,
    Scenario,
    Slow,
    Step,
    WaitNodes,
    WaitPods,
    WaitSettled,
)
from edgelab.state import HUB
from edgelab.waiting import NotReached, until_none
from vmruntime.api import VmError

PATIENCE = 180.0
"""Seconds after the last step, and the end of all faults, within which everything wished must have come true."""
_IMAGE = "copepod/micro:latest"
_STRATEGIC = "application/strategic-merge-patch+json"
_PAUSE = 0.05
"""Seconds between two requests of the background load."""
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Refused(Exception):
    """The hub said no to what a scenario asks for."""


class Player:
    def __init__(self, box: Box, scenario: Scenario, say: Say) -> None:
        self._box, self._scenario, self._say = box, scenario, say
        self._client = Client(box.kubeconfig)
        self._load: asyncio.Task[None] | None = None
        self._cut: set[str] = set()
        self._packets = _packet_links(box) if can_cut() else {}
        self.ledger = Ledger()

    async def play(self) -> list[Verdict]:
        """Every step, the end of all faults, then the verdicts. Raises NotReached, Refused, ApiUnavailable and
        ChildFailed where a step could not be done."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            for number, step in enumerate(self._scenario.steps, 1):
                self._say(f"[{loop.time() - began:5.1f} s] {number}/{len(self._scenario.steps)} {_said(step)}")
                try:
                    await self._do(step)
                except (NotReached, Refused, ApiUnavailable) as error:
                    raise type(error)(f"step {number} ({step.verb}): {error}") from error
        finally:
            await self._stop_load()
        self._say(f"[{loop.time() - began:5.1f} s] all links whole, everything running: waiting until all is settled")
        await self._mend()
        more = (every_node_is_heard_throughout,) if self._scenario.heard_throughout else ()
        return judge(self.ledger, await self._settled(PATIENCE), *more)

    # -- steps ------------------------------------------------------------------------------------------------------

    async def _do(self, step: Step) -> None:
        if step.create:
            await asyncio.gather(*(self._create(step.create, name) for name in step.create.names))
        elif step.resize:
            for name in self._names(step.resize.pods):
                await self._resize(name, _merged(self._wish(name).sizes[-1], step.resize))
        elif step.delete:
            for name in self._names(step.delete.pods):
                await self._delete(name, step.delete)
        elif step.load:
            await self._start_load() if step.load == "start" else await self._stop_load()
        elif step.wait:
            await self._wait(step.wait)
        elif step.rest is not None:
            await asyncio.sleep(step.rest)
        elif step.fill_disk or step.free_disk:
            await self._disks(step)
        elif step.links:
            await self._disturb(step)
        else:
            await self._parts(step)

    async def _create(self, wanted: Create, name: str) -> None:
        size = Size(wanted.cpu, wanted.memory)
        status, pod = await self._client.call("POST", PODS, _manifest(wanted, name, size))
        if status != 201:
            raise Refused(f"pod {name}: {pod.get('message', status)}")
        may_leave = wanted.give_up_after is not None
        self.ledger.wishes.append(Wish(name, pod["metadata"]["uid"], [size], may_leave=may_leave))

    async def _resize(self, name: str, size: Size) -> None:
        wish = self._wish(name)
        amounts = {"cpu": size.cpu, "memory": size.memory}
        patch = {"spec": {"containers": [{"name": "vm", "resources": {"requests": amounts, "limits": amounts}}]}}
        away = await self._is_away(wish)
        wish.unsure.append(size)  # taken back when it is refused, and acknowledged when it is not
        status, answer = await self._client.call("PATCH", f"{PODS}/{name}/resize", patch, _STRATEGIC)
        if status != 200:
            wish.unsure.remove(size)
            raise Refused(f"resize of {name}: {answer.get('message', status)}")
        wish.resized(size, away=away)

    async def _is_away(self, wish: Wish) -> bool:
        """Whether the pod's node is cut off, and the hub has noticed: what was sent before may still be on its way."""
        node = wish.node or (await hub_pods(self._client)).get(wish.name, {}).get("spec", {}).get("nodeName")
        wish.node = node
        if not self._cut & {node, HUB}:
            return False
        return await self._readiness(node) == "Unknown"

    async def _delete(self, name: str, wanted: Delete) -> None:
        wish = self._wish(name)
        path = f"{PODS}/{name}?gracePeriodSeconds=0" if wanted.force else f"{PODS}/{name}"
        status, answer = await self._client.call("DELETE", path)
        if status not in (200, 202):
            raise Refused(f"deletion of {name}: {answer.get('message', status)}")
        wish.deleted, wish.forced = True, wanted.force

    def _wish(self, name: str) -> Wish:
        wish = self.ledger.of(name)
        if wish is None:
            raise Refused(f"pod {name} is not there now")
        return wish

    def _names(self, names: Iterable[str]) -> list[str]:
        return [wish.name for wish in self.ledger.living] if ALL in names else list(names)

    # -- faults -----------------------------------------------------------------------------------------------------

    def _links(self, names: Iterable[str]) -> dict[str, ProxyLink]:
        assert self._box.hub_link is not None, "a lab that plays scenarios has proxied links"
        links = {HUB: self._box.hub_link}
        pairs = zip(self._box.node_names, self._box.links, strict=True)
        links |= {name: link for name, link in pairs if isinstance(link, ProxyLink)}
        return {n: link for n, link in links.items() if n in names or (ALL in names and n != HUB)}

    async def _disturb(self, step: Step) -> None:
        for name, link in self._links(step.links).items():
            if step.cut:
                await self._packets.get(name, link).cut()
                self._cut.add(name)
            elif step.heal:
                await self._heal(name, link)
            elif step.reset:
                await link.reset()
            elif step.half_open:
                await link.half_open()
            elif step.one_way:
                await link.shape(Flow(up=step.one_way.passes == "up", down=step.one_way.passes == "down"))
                self._cut.add(name)
            elif step.slow:
                await link.shape(_flow(step.slow))

    async def _heal(self, name: str, link: ProxyLink) -> None:
        back = [w for w in self.ledger.living if name in (w.node, HUB)] if name in self._cut else []
        for wish in back:
            wish.node_returns()
        self._cut.discard(name)
        if name in self._packets:
            await self._packets[name].restore()
        await link.restore()

    async def _disks(self, step: Step) -> None:
        names = step.fill_disk or step.free_disk or ()
        for name, disk in self._box.disks.items():
            if name in names or (ALL in names and name != HUB):
                await (disk.fill() if step.fill_disk else disk.free())

    async def _parts(self, step: Step) -> None:
        for part in step.kill or step.stop or step.start or ():
            children: tuple[Child, ...] = {
                "broker": (self._box.broker,), "hub": (self._box.hub,), "agents": self._box.agents,
            }[part]  # fmt: skip
            for child in children:
                if step.kill:
                    await child.kill()
                    self.ledger.agent_kills += child in self._box.agents
                elif step.stop:
                    await child.stop()
                else:
                    await child.start()

    async def _mend(self) -> None:
        for name, link in self._links([ALL, HUB]).items():
            await self._heal(name, link)
        for disk in self._box.disks.values():
            await disk.free()
        for child in (self._box.broker, self._box.hub, *self._box.agents):
            await child.start()

    # -- load -------------------------------------------------------------------------------------------------------

    async def _start_load(self) -> None:
        if self._load is None:
            self._load = asyncio.create_task(self._resize_on(), name="background load")

    async def _stop_load(self) -> None:
        task, self._load = self._load, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _resize_on(self) -> None:
        """A hub that does not answer is asked again; only what it acknowledged counts."""
        turn = 0
        while True:
            for wish in self.ledger.living:
                turn += 1
                size = Size(f"{100 + turn % 90}m", wish.sizes[-1].memory)
                with contextlib.suppress(ApiUnavailable, Refused):
                    await self._resize(wish.name, size)
                await asyncio.sleep(_PAUSE)

    # -- waiting ----------------------------------------------------------------------------------------------------

    async def _wait(self, wanted: WaitNodes | WaitPods | WaitSettled) -> None:
        match wanted:
            case WaitNodes():
                await until_none(lambda: self._nodes_differ(wanted), f"nodes Ready={wanted.ready}", wanted.within)
            case WaitPods():
                await until_none(lambda: self._pods_differ(wanted), f"pods {wanted.are}", wanted.within)
                await self._note_nodes()
            case WaitSettled():
                complaint = unsettled(self.ledger, await self._settled(wanted.within))
                if complaint:
                    raise NotReached(f"settled: not within {wanted.within:.0f} s ({complaint})")

    async def _readiness(self, node: str) -> str:
        conditions = (await self._client.get(f"/api/v1/nodes/{node}"))["status"].get("conditions", ())
        return {c["type"]: str(c["status"]) for c in conditions}.get("Ready", "absent")

    async def _nodes_differ(self, wanted: WaitNodes) -> str | None:
        names = self._box.node_names if ALL in wanted.nodes else wanted.nodes
        try:
            seen = {name: await self._readiness(name) for name in names}
        except ApiUnavailable as error:
            return str(error)
        return next((f"{name} is {is_}" for name, is_ in seen.items() if is_ != wanted.ready), None)

    async def _pods_differ(self, wanted: WaitPods) -> str | None:
        try:
            pods = await hub_pods(self._client)
        except ApiUnavailable as error:
            return str(error)
        names = [wish.name for wish in self.ledger.living] if ALL in wanted.pods else wanted.pods
        return next((f"{name} is {is_}" for name in names if (is_ := _state(pods.get(name))) != wanted.are), None)

    async def _note_nodes(self) -> None:
        pods = await hub_pods(self._client)
        for wish in self.ledger.living:
            if wish.node is None and wish.name in pods:
                wish.node = pods[wish.name]["spec"].get("nodeName")

    async def _settled(self, patience: float) -> Seen:
        """What is seen once everything has come true, or when patience ends."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        seen: Seen | None = None
        while True:
            try:
                seen = await look(self._box, self._client)
                if unsettled(self.ledger, seen) is None:
                    return seen
                trouble = ""
            except (ApiUnavailable, NoStore, VmError) as error:
                trouble = str(error)
            if loop.time() >= deadline:
                if seen is None:
                    raise NotReached(f"the lab could not be looked at: {trouble}")
                return seen
            await asyncio.sleep(0.5)


def _packet_links(box: Box) -> dict[str, Link]:
    """Where packets may be dropped they are, between a node and its proxy: then TCP itself sees the silence."""
    table = table_name(os.getpid())
    pairs = zip(box.node_names, box.links, strict=True)
    return {n: NftLink(table, box.facts.address(n), link.port) for n, link in pairs if isinstance(link, ProxyLink)}


def _flow(wanted: Slow) -> Flow:
    return Flow(delay=wanted.delay, jitter=wanted.jitter, bytes_per_second=wanted.bytes_per_second)


def _merged(size: Size, wanted: Resize) -> Size:
    return Size(wanted.cpu or size.cpu, wanted.memory or size.memory)


def _state(pod: Mapping[str, Any] | None) -> str:
    if pod is None:
        return "Gone"
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    ready = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}.get("Ready")
    return "Ready" if ready == "True" else "NotReady"


def _manifest(wanted: Create, name: str, size: Size) -> dict[str, Any]:
    amounts = {"cpu": size.cpu, "memory": size.memory}
    resources = {"requests": amounts, "limits": amounts}
    spec: dict[str, Any] = {"containers": [{"name": "vm", "image": _IMAGE, "resources": resources}]}
    if wanted.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": wanted.node}
    if wanted.give_up_after is not None:
        spec["tolerations"] = [
            {
                "key": _UNREACHABLE,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": wanted.give_up_after,
            }
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _said(step: Step) -> str:
    """The step, as it stands in the file."""
    value = step.model_dump(by_alias=True, exclude_unset=True, mode="json")[_alias(step.verb)]
    if isinstance(value, dict):
        value = ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return f"{_alias(step.verb)}: {_plain(value)}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _alias(verb: str) -> str:
    return verb.replace("_", "-")
