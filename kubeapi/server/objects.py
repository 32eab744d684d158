"""Objects over the store: what create, update and delete mean, for every declared kind alike.

`StoreObjects` implements `kubeapi.objects.Objects` for controllers, and offers the HTTP handlers the same operations
with their options (dry run, subresources, preconditions). Every change is a compare-and-swap on the row's revision.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubeapi import errors
from kubeapi.clock import Clock, timestamp
from kubeapi.core import Namespace, Pod
from kubeapi.errors import ApiError, Cause
from kubeapi.meta import KubeObject
from kubeapi.objects import Listing, WatchEvent, WatchEventType
from kubeapi.resource import Registry, ResourceType
from kubeapi.server import binding, deletion, framing, ownership, preparing
from kubeapi.server.admitting import Admission
from kubeapi.server.deletion import DeleteOptions, Verdict
from kubeapi.server.entities import Entities, Entity, EntityPage, encode, encode_put, key_of
from kubeapi.server.names import generated_name
from kubeapi.server.ownership import Author
from metastore.api import (
    Change,
    ChangeType,
    Compacted,
    Conflict,
    Delete,
    NotFound,
    Op,
    Put,
    Row,
    Store,
    StoreError,
    UidMismatch,
    Unavailable,
    Watch,
)

T = TypeVar("T", bound=KubeObject)

_ATTEMPTS = 50
"""Of a read-change-write against concurrent writers, before the client is told to retry. One of them succeeds in each
round, so this many may write one object at once and none who names no resourceVersion is refused."""
_NAME_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    entities: EntityPage[T]
    revision: int


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    obj: T
    """As it was last, or as it is now where it is not gone yet."""
    gone: bool


class StoreObjects:
    def __init__(self, store: Store, registry: Registry, clock: Clock, new_uid: Callable[[], str]) -> None:
        self.store = store
        self.registry = registry.copied()
        """Kinds that users define come and go in it."""
        self.clock = clock
        self._new_uid = new_uid
        self.entities = Entities()
        self.admission = Admission(self)

    # kubeapi.objects.Objects

    async def get(self, model: type[T], namespace: str | None, name: str) -> T:
        return (await self.read(self.registry.of(model), namespace, name)).copied()

    async def list(self, model: type[T], namespace: str | None = None) -> Listing[T]:
        page = await self.page(self.registry.of(model), namespace)
        return Listing(tuple(entity.copied() for entity in page.entities), str(page.revision))

    async def watch(
        self, model: type[T], resource_version: str, namespace: str | None = None
    ) -> AsyncIterator[WatchEvent[T]]:
        resource = self.registry.of(model)
        watch = self.open_watch(resource, int(resource_version))
        try:
            with _StoreErrors():
                async for change in watch:
                    if not namespace or change.row.key.namespace == namespace:
                        yield self._event(resource, change)
        finally:
            watch.close()

    async def create(self, obj: T) -> T:
        return await self.create_object(self.registry.of(type(obj)), obj)

    async def update(self, obj: T) -> T:
        return await self.replace_object(self.registry.of(type(obj)), obj)

    async def update_status(self, obj: T) -> T:
        return await self.replace_object(self.registry.of(type(obj)), obj, "status")

    async def bind(self, namespace: str, name: str, node: str, *, uid: str | None = None) -> None:
        await self.bind_pod(namespace, name, binding.Target(node, uid))

    async def delete(
        self,
        model: type[T],
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(grace_seconds=grace_seconds, uid=uid)
        await self.delete_object(self.registry.of(model), namespace, name, options)

    def encode_put(self, obj: KubeObject, expect: int | None) -> Put:
        """For a commit that writes an object together with other things. No defaulting or validation happens here."""
        return encode_put(self.registry.of(type(obj)), obj, expect)

    # Reading

    async def read(
        self, resource: ResourceType[T], namespace: str | None, name: str, *, known: bool = False
    ) -> Entity[T]:
        """`known` as in metastore.api.Store.get. Raises ApiError 404."""
        with _StoreErrors():
            row = await self.store.get(key_of(resource, namespace, name), known=known)
        if row is None:
            raise errors.not_found(resource.plural, name, resource.group)
        return self.entities.of(resource, row)

    async def page(
        self,
        resource: ResourceType[T],
        namespace: str | None = None,
        *,
        at: int | None = None,
        known: bool = False,
    ) -> Page[T]:
        """All objects of a kind, as they are or as they were. Raises metastore.api.Compacted if that past is gone."""
        scope = namespace or None if resource.namespaced else None
        with _StoreErrors(passing=Compacted):
            listing = await self.store.list(resource.key, scope, at=at, known=known)
        return Page(self.entities.page(resource, scope, listing.rows), listing.revision)

    def open_watch(self, resource: ResourceType[Any], after: int) -> Watch:
        """Raises ApiError 410."""
        with _StoreErrors():
            return self.store.watch(after, frozenset({resource.key}))

    def _event(self, resource: ResourceType[T], change: Change) -> WatchEvent[T]:
        obj = self.entities.of(resource, change.row).copied()
        if change.type is ChangeType.DELETE:
            return WatchEvent(WatchEventType.DELETED, obj)
        created = change.row.created == change.row.revision
        return WatchEvent(WatchEventType.ADDED if created else WatchEventType.MODIFIED, obj)

    # Writing

    async def create_object(
        self, resource: ResourceType[T], obj: T, *, dry_run: bool = False, by: str | None = ownership.INTERNAL
    ) -> T:
        """`obj` stays as it is; the answer is what was stored. Raises ApiError 400, 403, 404, 409, 422.

        `by` is the manager who writes; None = `obj` says itself who owns what (an apply).
        """
        return (await self.insert(resource, obj.copied(), dry_run=dry_run, by=by)).copied()

    async def insert(
        self, resource: ResourceType[T], obj: T, *, dry_run: bool = False, by: str | None = ownership.INTERNAL
    ) -> Entity[T]:
        """As `create_object`, but `obj` is given away and what was stored is shared."""
        if obj.metadata.resource_version:
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            await self._require_namespace(resource, obj)
        else:
            obj.metadata.namespace = None
        prefix = obj.metadata.generate_name if not obj.metadata.name else None
        for attempt in range(_NAME_ATTEMPTS):
            if prefix:
                obj.metadata.name = generated_name(prefix, self._new_uid())
            try:
                return await self._insert(resource, obj.copied() if prefix else obj, dry_run, by)
            except ApiError as error:
                if not prefix or error.reason != "AlreadyExists" or attempt == _NAME_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _insert(self, resource: ResourceType[T], obj: T, dry_run: bool, by: str | None) -> Entity[T]:
        meta, now = obj.metadata, timestamp(self.clock.now())
        meta.uid = self._new_uid()
        meta.creation_timestamp = now
        meta.deletion_timestamp = meta.deletion_grace_period_seconds = meta.generation = None
        resource.strategy.default(obj)
        if by is not None:
            meta.managed_fields = ownership.created(resource, obj, by, now)
        obj = await self.admission.mutate(resource, obj, None, dry_run=dry_run)
        resource.strategy.prepare_create(obj)
        preparing.refuse(resource, obj, resource.strategy.validate_create(obj))
        await self.admission.validate(resource, obj, None, dry_run=dry_run)
        put = encode_put(resource, obj, 0)
        with _StoreErrors(passing=Conflict):
            try:
                async with self.admission.reserving(resource, "", obj, None):
                    if not dry_run:
                        stored = await self._commit_one(resource, put)
                        await self._recheck_namespace(resource, stored.row)
                        return stored
                    taken = await self.store.get(put.key)
            except Conflict as error:
                raise errors.already_exists(resource.plural, meta.name, resource.group) from error
        if taken:
            raise errors.already_exists(resource.plural, meta.name, resource.group)
        return Entity.of_object(resource, obj)

    async def _recheck_namespace(self, resource: ResourceType[T], row: Row) -> None:
        """A namespace that went while this was written took no notice of it: take it back. Raises ApiError 404."""
        if not resource.namespaced:
            return
        try:
            await self.read(self.registry.of(Namespace), None, row.key.namespace, known=True)
        except ApiError as error:
            if error.code == 404:
                await self.store.commit(Delete(row.key, uid=row.uid, missing_ok=True))
            raise

    async def _require_namespace(self, resource: ResourceType[T], obj: T) -> None:
        name = obj.metadata.namespace or ""
        if not name:
            raise errors.bad_request("an object of this kind needs a namespace")
        namespace = (await self.read(self.registry.of(Namespace), None, name)).obj
        if namespace.metadata.deletion_timestamp:
            error = errors.forbidden(
                resource.plural,
                obj.metadata.name or obj.metadata.generate_name or "",
                f"unable to create new content in namespace {name} because it is being terminated",
                resource.group,
            )
            cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
            error.details = {**(error.details or {}), "causes": [cause.to_dict()]}
            raise error

    async def replace_object(
        self,
        resource: ResourceType[T],
        obj: T,
        subresource: str = "",
        *,
        dry_run: bool = False,
        by: str = ownership.INTERNAL,
    ) -> T:
        """PUT: `obj` in place of what is there. A resourceVersion or UID that is set must match (409)."""
        return (await self.replace(resource, obj, subresource, dry_run=dry_run, by=by)).copied()

    async def replace(
        self,
        resource: ResourceType[T],
        obj: T,
        subresource: str = "",
        *,
        dry_run: bool = False,
        by: str = ownership.INTERNAL,
    ) -> Entity[T]:
        """As `replace_object`; what was stored is shared."""

        def instead(current: T) -> T:
            preparing.check_identity(resource, obj, current)
            return obj.copied()

        meta = obj.metadata
        return await self.edit(resource, meta.namespace, meta.name, instead, subresource, dry_run=dry_run, by=by)

    async def change(
        self,
        resource: ResourceType[T],
        namespace: str | None,
        name: str,
        edit: Callable[[T], T],
        subresource: str = "",
        *,
        dry_run: bool = False,
        by: str | None = ownership.INTERNAL,
        through: str = "",
    ) -> T:
        """As `edit`; the answer belongs to the caller."""
        changed = await self.edit(resource, namespace, name, edit, subresource, dry_run=dry_run, by=by, through=through)
        return changed.copied()

    async def edit(
        self,
        resource: ResourceType[T],
        namespace: str | None,
        name: str,
        edit: Callable[[T], T],
        subresource: str = "",
        *,
        dry_run: bool = False,
        by: str | None = ownership.INTERNAL,
        through: str = "",
    ) -> Entity[T]:
        """Read, edit, admit, write; again from the start when another writer came between.

        `edit` gets a private copy and returns the wish. A wish whose resourceVersion is not the current one is a
        conflict (409). What changes nothing is not written. `by` as in `create_object`; `through` is the subresource
        by whose form it writes the object itself (`scale`).
        """
        for _ in range(_ATTEMPTS):
            entity = await self.read(resource, namespace, name)
            old = entity.obj
            wish = edit(entity.copied())
            preparing.check_identity(resource, wish, old)
            wish = await self.admission.mutate(resource, wish, old, subresource, dry_run=dry_run)
            new = preparing.prepared(
                resource, subresource, wish, entity, Author(by, timestamp(self.clock.now()), through)
            )
            await self.admission.validate(resource, new, old, subresource, dry_run=dry_run)
            value, row = encode(new), entity.row
            if value == row.value:
                return entity
            op: Op = Put(row.key, row.uid, value, row.revision)
            if deletion.released(new):
                op = Delete(row.key, expect=row.revision, uid=row.uid)
            try:
                async with self.admission.reserving(resource, subresource, new, old):
                    if dry_run:
                        return Entity(resource, Row(row.key, row.uid, row.revision, row.created, value))
                    with _StoreErrors(passing=(Conflict, NotFound, UidMismatch)):
                        return await self._commit_one(resource, op)
            except (Conflict, NotFound, UidMismatch):
                continue
        raise errors.conflict(resource.plural, name, group=resource.group)

    async def bind_pod(self, namespace: str, name: str, target: binding.Target, *, dry_run: bool = False) -> None:
        """Raises ApiError 404, 409."""
        now = self.clock.now()

        def bound(pod: Pod) -> Pod:
            return binding.bound(pod, target, now)

        await self.change(self.registry.of(Pod), namespace, name, bound, binding.SUBRESOURCE, dry_run=dry_run)

    async def delete_object(
        self, resource: ResourceType[T], namespace: str | None, name: str, options: DeleteOptions
    ) -> Deleted[T]:
        """Raises ApiError 404, 409."""
        for _ in range(_ATTEMPTS):
            entity = await self.read(resource, namespace, name)
            row, obj = entity.row, entity.copied()
            await self.admission.admit_deletion(resource, entity.obj, dry_run=options.dry_run)
            verdict = deletion.plan(resource, obj, options, self.clock.now())
            if verdict is Verdict.KEEP or options.dry_run:
                return Deleted(obj, gone=verdict is Verdict.REMOVE)
            op: Op = Put(row.key, row.uid, encode(obj), row.revision)
            if verdict is Verdict.REMOVE:
                op = Delete(row.key, expect=row.revision, uid=row.uid)
            try:
                with _StoreErrors(passing=(Conflict, NotFound, UidMismatch)):
                    stored = await self._commit_one(resource, op)
            except (Conflict, NotFound, UidMismatch):
                continue
            return Deleted(stored.copied(), gone=verdict is Verdict.REMOVE)
        raise errors.conflict(resource.plural, name, group=resource.group)

    async def _commit_one(self, resource: ResourceType[T], op: Op) -> Entity[T]:
        if isinstance(op, Put) and len(op.value) > framing.MAX_STORED:
            raise errors.too_large(f"limit is {framing.MAX_STORED}")
        return self.entities.of(resource, (await self.store.commit(op)).changes[0].row)


class _StoreErrors:
    """The store's failures as API errors, but for those that the caller handles itself. A class, since every read
    passes here: a generator costs several times as much."""

    __slots__ = ("_passing",)

    def __init__(self, passing: type[StoreError] | tuple[type[StoreError], ...] = ()) -> None:
        self._passing = passing

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, self._passing):
            return
        if isinstance(error, Compacted):
            raise errors.gone(error.asked, error.oldest) from error
        if isinstance(error, Unavailable):
            raise errors.unavailable(f"the store cannot be written or read now: {error}") from error
