"""Serves the kinds that CustomResourceDefinitions define, and cleans up after those that go.

Level-triggered, as every controller here: whatever woke it, it looks at all definitions. Every replica of the hub
serves the kinds itself; what they write (conditions, the finalizer) is the same whoever writes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kubeapi import customkinds, customnames
from kubeapi.apiextensions import CLEANUP, CustomResourceDefinition, Names
from kubeapi.clock import timestamp
from kubeapi.customnames import Taken
from kubeapi.errors import ApiError
from kubeapi.resource import ResourceType
from kubeapi.server import setbacks
from kubeapi.server.deletion import DeleteOptions
from kubeapi.server.objects import StoreObjects
from metastore.api import Compacted

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0

Definition = CustomResourceDefinition


class CustomKinds:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects
        self._resource = objects.registry.of(Definition)
        self._built_in = objects.registry.copied()
        self._served: dict[str, object] = {}
        """Kinds by key, each with what its declarations were made from."""
        self._going: set[str] = set()
        """Kinds whose last objects are awaited."""

    async def load(self) -> None:
        """What is established already is served from the start, before anybody asks."""
        for definition in await self._definitions():
            self._serve(definition)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
                return  # the store was closed
            except Exception as error:  # noqa: BLE001 (a worker: it backs off and looks again)
                setbacks.note(_log, "custom resource definitions", _RETRY_SECONDS, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        while True:
            watched = self._watched()
            watch = self._objects.store.watch(self._objects.store.revision, watched)
            try:
                await self.reconcile()
                while watched == self._watched():
                    try:
                        await anext(watch)
                    except StopAsyncIteration:
                        return
                    await self.reconcile()
            except Compacted:
                continue  # outrun: look at everything again
            finally:
                watch.close()

    def _watched(self) -> frozenset[str]:
        """Definitions, and the objects of those that go."""
        return frozenset({self._resource.key, *self._going})

    async def reconcile(self) -> None:
        definitions = await self._definitions()
        for definition in definitions:
            if definition.metadata.deletion_timestamp:
                await self._end(definition)
            else:
                await self._establish(definition, definitions)
        names = {item.metadata.name for item in definitions}
        for key in [key for key in self._served if key not in names]:
            self._forget(key)

    async def _definitions(self) -> list[Definition]:
        """The oldest first: names belong to whoever came first."""
        page = await self._objects.page(self._resource)
        found = [entity.copied() for entity in page.entities]
        return sorted(found, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.name))

    # Coming

    async def _establish(self, definition: Definition, all_of_them: list[Definition]) -> None:
        by_others = self._taken(definition, all_of_them)
        now = timestamp(self._objects.clock.now())
        named = await self._write(definition, lambda current: customnames.with_names(current, by_others, now))
        if named is not None:
            definition.status = named.status
            self._serve(named)

    def _taken(self, definition: Definition, all_of_them: list[Definition]) -> Taken:
        group = definition.spec.group
        names = [
            item.status.accepted_names
            for item in all_of_them
            if item.spec.group == group and item.metadata.uid != definition.metadata.uid and item.status.accepted_names
        ]
        return customnames.taken([*names, *(_names(item) for item in self._built_in if item.group == group)])

    def _serve(self, definition: Definition) -> None:
        """Declares the kind anew where anything about it changed."""
        if not definition.status.is_true("Established"):
            return
        meta, names = definition.metadata, definition.status.accepted_names
        made_of = (meta.uid, definition.spec, names, meta.deletion_timestamp is not None)
        if self._served.get(meta.name) == made_of:
            return
        self._served[meta.name] = made_of
        try:
            kinds = customkinds.kinds(definition)
        except (
            LookupError,
            TypeError,
            ValueError,
        ):  # stored by a release that knew better, or worse: not the others' fault
            _log.exception("%s cannot be served as it is defined", meta.name)
            return
        self._objects.registry.put(meta.name, kinds)
        _log.info("serving %s", meta.name)

    # Going

    async def _end(self, definition: Definition) -> None:
        key = definition.metadata.name
        self._going.add(key)
        self._serve(definition)
        now = timestamp(self._objects.clock.now())
        await self._write(definition, lambda current: customnames.with_end(current, now))
        if not await self._empty(customkinds.stored_kind(definition)):
            await self._release(definition)

    async def _empty(self, kind: ResourceType[Any]) -> bool:
        """Delete all objects of the kind; returns whether some remain."""
        remaining = False
        for entity in (await self._objects.page(kind)).entities:
            key = entity.row.key
            try:
                options = DeleteOptions(uid=entity.row.uid)
                deleted = await self._objects.delete_object(kind, key.namespace, key.name, options)
            except ApiError as error:
                if error.code not in (404, 409):  # gone already, or another object by now: the next look sees
                    raise
                remaining = remaining or error.code == 409
            else:
                remaining = remaining or not deleted.gone
        return remaining

    async def _release(self, definition: Definition) -> None:
        def released(current: Definition) -> Definition:
            if current.metadata.uid == definition.metadata.uid:
                current.metadata.finalizers = [name for name in current.metadata.finalizers if name != CLEANUP]
            return current

        await self._change(definition, released, "")

    def _forget(self, key: str) -> None:
        self._objects.registry.put(key, ())
        self._served.pop(key, None)
        self._going.discard(key)
        _log.info("no longer serving %s", key)

    # Writing

    async def _write(self, definition: Definition, edit: Callable[[Definition], Definition]) -> Definition | None:
        """A new status, where it is another one. None: the definition has gone meanwhile."""
        if edit(definition).status == definition.status:
            return definition

        def guarded(current: Definition) -> Definition:
            return edit(current) if current.metadata.uid == definition.metadata.uid else current

        return await self._change(definition, guarded, "status")

    async def _change(
        self, definition: Definition, edit: Callable[[Definition], Definition], subresource: str
    ) -> Definition | None:
        try:
            return await self._objects.change(self._resource, None, definition.metadata.name, edit, subresource)
        except ApiError as error:
            if error.code != 404:
                raise
            return None


def _names(item: ResourceType[Any]) -> Names:
    return Names(
        plural=item.plural,
        singular=item.singular,
        short_names=list(item.short_names),
        kind=item.kind,
        list_kind=f"{item.kind}List",
    )
