"""The shell around every planner: follow, queue, plan, act, and see what was done before planning again.

No double creation without bookkeeping: after its own writes the worker waits until the mirrors show them, so that the
next plan counts them. A write that fails ends the pass; the key comes back, ever more slowly, and is planned afresh.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from cloudhub.mirror import Identity
from cloudhub.recorder import Recorder
from cloudhub.workloads.actions import Action, Adopt, Create, Delete, Plan, SetStatus, Tell, Update
from cloudhub.workloads.cluster import Cluster, controller_of
from cloudhub.workloads.queue import WorkQueue
from kubeapi.clock import Clock
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.objects import Objects

T = TypeVar("T", bound=KubeObject)

_log = logging.getLogger(__name__)

Concerned = Callable[[Cluster, Any], Sequence[Identity]]
"""Which objects of a controller a change of something else concerns."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a plan is made from besides the object itself."""

    cluster: Cluster
    now: datetime
    trouble: str = ""
    """Why the last attempt to create something for this object was refused; empty: it was not."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A controller: what it is for, how it plans, and whose changes wake which of its objects."""

    model: type[T]
    component: str
    """As events name it: `replicaset-controller`."""
    plan: Callable[[T, Context], Plan]
    children: Sequence[type[Any]] = ()
    """Kinds whose changes wake their controller; where they have none, whoever in their namespace would claim them."""
    claims: Callable[[T, KubeObject], bool] = lambda obj, child: False
    wakes: Mapping[type[Any], Concerned] = field(default_factory=dict)
    """Other kinds whose changes matter."""
    notices: Mapping[type[Any], Callable[[Any], object]] = field(default_factory=dict)
    """What of such another object matters; else all of it does. Nodes report all the time, and mostly nothing new."""


class Controller(Generic[T]):
    def __init__(self, kind: Kind[T], cluster: Cluster, objects: Objects, clock: Clock) -> None:
        self._kind = kind
        self._cluster = cluster
        self._objects = objects
        self._clock = clock
        self._recorder = Recorder(objects, clock, kind.component)
        self._queue: WorkQueue[Identity] = WorkQueue()
        self._troubles: dict[Identity, str] = {}
        self._mirror = cluster.mirror(kind.model)
        self._mirror.listen(lambda obj: self._queue.add(_identity(obj)))
        for model in kind.children:
            cluster.mirror(model).listen(self._child_changed)
        for model, concerned in kind.wakes.items():
            cluster.mirror(model).listen(self._waker(model, concerned))

    async def run(self) -> None:
        """Until cancelled."""
        await self._cluster.synced()
        try:
            while True:
                await self._work(await self._queue.get())
        finally:
            self._queue.close()

    def _waker(self, model: type[Any], concerned: Concerned) -> Callable[[KubeObject], None]:
        notice = self._kind.notices.get(model)
        if notice is None:
            return lambda obj: self._wake(concerned(self._cluster, obj))
        noticed: dict[Identity, object] = {}

        def changed(obj: KubeObject) -> None:
            key = _identity(obj)
            current = self._cluster.find(model, key)
            before, now = noticed.pop(key, None), notice(current) if current is not None else None
            if now is not None:
                noticed[key] = now
            if before != now:
                self._wake(concerned(self._cluster, obj))

        return changed

    def _wake(self, keys: Sequence[Identity]) -> None:
        for key in keys:
            self._queue.add(key)

    def _child_changed(self, child: KubeObject) -> None:
        namespace, owner = child.metadata.namespace or "", controller_of(child)
        if owner is None:
            claims = self._kind.claims
            self._wake([key for key, obj in self._mirror.items.items() if key[0] == namespace and claims(obj, child)])
        elif owner.kind == self._kind.model.model_fields["kind"].default:
            self._queue.add((namespace, owner.name))

    async def _work(self, key: Identity) -> None:
        obj = self._mirror.items.get(key)
        if obj is None:
            self._troubles.pop(key, None)
            self._queue.succeeded(key)
            return
        try:
            await self._pass(key, obj)
        except ApiError as error:
            level = logging.DEBUG if error.code in (404, 409) else logging.WARNING
            _log.log(level, "%s: %s/%s: %s; retrying", self._kind.component, *key, error)
            self._queue.failed(key)
        except Exception:  # noqa: BLE001 (a worker's boundary: one object's fault must not stop the others)
            _log.exception("%s: %s/%s failed; retrying", self._kind.component, *key)
            self._queue.failed(key)
        else:
            self._queue.succeeded(key)

    async def _pass(self, key: Identity, obj: T) -> None:
        plan = self._kind.plan(obj, Context(self._cluster, self._clock.now(), self._troubles.get(key, "")))
        written: list[KubeObject] = []
        ended: list[KubeObject] = []
        try:
            for action in plan.actions:
                await self._do(action, obj, written, ended)
        finally:
            for item in written:
                await self._cluster.shows(item)
            for item in ended:
                await self._cluster.shows_end(item)
        self._settle(key, plan)

    def _settle(self, key: Identity, plan: Plan) -> None:
        if self._troubles.pop(key, None):
            self._queue.add(key)  # so that the status stops telling of it
        if plan.wake_after is not None:
            self._queue.add_after(key, max(plan.wake_after, 0.0))

    async def _do(self, action: Action, obj: T, written: list[KubeObject], ended: list[KubeObject]) -> None:
        match action:
            case Create():
                written.append(await self._create(action, obj))
            case Update(changed):
                written.append(await self._objects.update(changed))
            case Adopt(changed):
                await self._require_living(obj)
                written.append(await self._objects.update(changed))
            case SetStatus(changed):
                written.append(await self._objects.update_status(changed))
            case Delete(victim, message):
                await self._delete(victim)
                ended.append(victim)
                await self._say(obj, "SuccessfulDelete", message, victim)
            case Tell(kind, reason, message):
                await self._recorder.record(obj, kind, reason, message)

    async def _create(self, action: Create, obj: T) -> KubeObject:
        try:
            made = await self._objects.create(action.obj)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                await self._recorder.record(obj, "Warning", "FailedCreate", f"Error creating: {error}")
                if self._troubles.get(_identity(obj)) != str(error):
                    self._troubles[_identity(obj)] = str(error)
                    self._queue.add(_identity(obj))  # at once, so that the status tells of it
            raise
        await self._say(obj, "SuccessfulCreate", action.message, made)
        return made

    async def _delete(self, victim: KubeObject) -> None:
        meta = victim.metadata
        try:
            await self._objects.delete(type(victim), meta.namespace, meta.name, uid=meta.uid)
        except ApiError as error:
            if error.code not in (404, 409):
                raise  # otherwise it is gone already, or another one by now

    async def _require_living(self, obj: T) -> None:
        meta = obj.metadata
        current = await self._objects.get(type(obj), meta.namespace, meta.name)
        if current.metadata.uid != meta.uid or current.metadata.deletion_timestamp:
            raise ApiError(409, "Conflict", f"{obj.kind} {meta.name} is going: it adopts nothing")

    async def _say(self, obj: T, reason: str, message: str, about: KubeObject) -> None:
        if message:
            await self._recorder.record(obj, "Normal", reason, message.format(name=about.metadata.name))


def _identity(obj: KubeObject) -> Identity:
    return obj.metadata.namespace or "", obj.metadata.name
