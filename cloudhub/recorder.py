"""Events that the hub's controllers write about objects, for people (`kubectl describe`, `kubectl get events`)."""

from __future__ import annotations

import logging
from hashlib import blake2b

from kubeapi.clock import Clock, timestamp
from kubeapi.core import Event, EventSource, ObjectReference
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject, ObjectMeta
from kubeapi.objects import Objects

_log = logging.getLogger(__name__)


class Recorder:
    """Best effort, as everywhere in Kubernetes: an Event that cannot be written never stops the work it tells of."""

    def __init__(self, objects: Objects, clock: Clock, component: str) -> None:
        self._objects = objects
        self._clock = clock
        self._component = component

    async def record(self, about: KubeObject, kind: str, reason: str, message: str) -> None:
        """`kind` is `Normal` or `Warning`. Saying the same about the same object again counts up one Event."""
        event = self._event(about, kind, reason, message)
        try:
            try:
                await self._objects.create(event)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                await self._count_up(event)
        except ApiError as error:
            _log.warning("event %s about %s not written: %s", reason, about.metadata.name, error)

    async def _count_up(self, event: Event) -> None:
        stored = await self._objects.get(Event, event.metadata.namespace, event.metadata.name)
        stored.count = (stored.count or 1) + 1
        stored.last_timestamp = event.last_timestamp
        await self._objects.update(stored)

    def _event(self, about: KubeObject, kind: str, reason: str, message: str) -> Event:
        meta = about.metadata
        now = timestamp(self._clock.now())
        same = "\0".join((self._component, meta.uid or "", kind, reason, message))
        suffix = blake2b(same.encode(), digest_size=8).hexdigest()
        return Event(
            metadata=ObjectMeta(name=f"{meta.name[:200]}.{suffix}", namespace=meta.namespace or "default"),
            involved_object=ObjectReference(
                api_version=about.api_version,
                kind=about.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
            type=kind,
            reason=reason,
            message=message,
            source=EventSource(component=self._component),
            reporting_component=self._component,
            first_timestamp=now,
            last_timestamp=now,
            count=1,
        )
