"""The admission plug-ins that are built in, named as the reference names them. The rules are pure (`kubeapi.admission`,
`podclasses`); these fetch what the rules look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from kubeapi import admission, podclasses, virtualmachineform
from kubeapi.core import LimitRange, Node, Pod
from kubeapi.errors import ApiError
from kubeapi.meta import KubeObject
from kubeapi.policies import PriorityClass, RuntimeClass
from kubeapi.server.chain import Mutating, Operation, Request

if TYPE_CHECKING:
    from kubeapi.server.objects import StoreObjects

RESIZE = "resize"
M = TypeVar("M", bound=KubeObject)


class PodDefaults:
    """Around the plug-ins that complete a new pod: its Arktos form says afterwards what they have made of it."""

    def __init__(self, *plugins: Mutating) -> None:
        self._plugins = plugins

    async def admit(self, request: Request) -> None:
        pod = request.new
        if request.operation is not Operation.CREATE or not isinstance(pod, Pod):
            return
        form = virtualmachineform.form_of(pod)
        for plugin in self._plugins:
            await plugin.admit(request)
        virtualmachineform.realign(pod, form)


class LimitRanger:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects

    async def admit(self, request: Request) -> None:
        if isinstance(request.new, Pod):
            admission.apply_limit_defaults(request.new, await self._ranges(request.new))

    async def validate(self, request: Request) -> None:
        new, old = request.new, request.old
        if not isinstance(new, Pod):
            return
        if old is None or (isinstance(old, Pod) and resizes(request.subresource, new, old)):
            admission.admit_limits(new, await self._ranges(new))

    async def _ranges(self, pod: Pod) -> Sequence[LimitRange]:
        return await known(self._objects, LimitRange, pod.metadata.namespace)


class Priority:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects

    async def admit(self, request: Request) -> None:
        if isinstance(request.new, Pod):
            podclasses.apply_priority(request.new, await known(self._objects, PriorityClass))


class RuntimeClasses:
    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects

    async def admit(self, request: Request) -> None:
        if isinstance(request.new, Pod):
            name = request.new.spec.runtime_class_name
            podclasses.apply_runtime(request.new, await found(self._objects, RuntimeClass, name))


class PodResize:
    """Refuses what the pod's node can never do."""

    def __init__(self, objects: StoreObjects) -> None:
        self._objects = objects

    async def validate(self, request: Request) -> None:
        new, old = request.new, request.old
        if isinstance(new, Pod) and isinstance(old, Pod) and resizes(request.subresource, new, old):
            admission.admit_resize(new, old, await found(self._objects, Node, new.spec.node_name))


def resizes(subresource: str, new: Pod, old: Pod) -> bool:
    """By the subresource; in Arktos' form by an ordinary update as well."""
    if subresource == RESIZE:
        return new.spec != old.spec
    return not subresource and virtualmachineform.resizes(new.spec, old.spec)


async def known(objects: StoreObjects, model: type[M], namespace: str | None = None) -> Sequence[M]:
    """Read only: what it gives is shared. The request has read already, and so has refreshed what is known."""
    resource = objects.registry.of(model)
    held = objects.store.held(resource.key, namespace)
    if held is not None and not held:
        return ()  # as it is with most kinds that admission looks at, at each write
    page = await objects.page(resource, namespace, known=True)
    return [entity.obj for entity in page.entities]


async def found(objects: StoreObjects, model: type[M], name: str | None) -> M | None:
    if not name:
        return None
    try:
        return await objects.get(model, None, name)
    except ApiError as error:
        if error.code != 404:
            raise
        return None
