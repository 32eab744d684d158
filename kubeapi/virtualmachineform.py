"""A pod in Arktos' form says what it is twice: as `spec.virtualMachine` and as its one container, the *mirror*. Pure.

The mirror is stored, not made up by readers, so that everything that knows containers only (typed clients, kubectl,
scheduler, quotas, nodes) sees a pod like any other. Both are kept in step: of two that differ, the one that was changed
decides. What only one of them can say (`userData`; `env`) the other does not repeat. Rules: docs/adr/0007.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from kubeapi.core import Container, PodSpec
from kubeapi.errors import Cause
from kubeapi.virtualmachine import RUNNING, STOP, VirtualMachine

RESIZED = ("resources", "resize_policy")
"""Of these, an ordinary update of a pod may change the machine's only: its containers' are the resize subresource's."""
SHARED = (
    "name", "image", "image_pull_policy", "volume_mounts", "volume_devices", *RESIZED,
)  # fmt: skip
"""What both say."""
WIRE: Mapping[str, str] = {
    name: alias for name, (alias, _) in VirtualMachine.wire_fields().items() if name in SHARED
}  # fmt: skip
_PATHS = (("template",), ("jobTemplate", "spec", "template"))


def mirrored(vm: VirtualMachine) -> Container:
    container = Container()
    for name in SHARED:
        setattr(container, name, deepcopy(getattr(vm, name)))
    return container


def unmirrored(container: Container) -> VirtualMachine:
    vm = VirtualMachine()
    for name in SHARED:
        setattr(vm, name, deepcopy(getattr(container, name)))
    return vm


def mirror_of(spec: PodSpec) -> Container | None:
    """The container that is kept in step, if this is the form and it is there."""
    vm, found = spec.virtual_machine, spec.containers
    return found[0] if vm is not None and len(found) == 1 and found[0].name == vm.name else None


def differing(spec: PodSpec) -> list[str]:
    """The shared fields, by their names here, in which mirror and machine differ."""
    vm, mirror = spec.virtual_machine, mirror_of(spec)
    if vm is None or mirror is None:
        return []
    return [name for name in SHARED if getattr(vm, name) != getattr(mirror, name)]


def complete(spec: PodSpec) -> None:
    """Give each of the two what only the other has, and the machine its own defaults; for `default_pod`, first."""
    vm = spec.virtual_machine
    if vm is None:
        return
    vm.power_spec = vm.power_spec or RUNNING
    vm.shutdown_behavior = vm.shutdown_behavior or STOP
    if not spec.containers:
        spec.containers = [mirrored(vm)]
    elif len(spec.containers) == 1:
        mirror = spec.containers[0]
        for name in SHARED:
            ours, its = getattr(vm, name), getattr(mirror, name)
            if not _said(its):
                setattr(mirror, name, deepcopy(ours))
            elif not _said(ours):
                setattr(vm, name, deepcopy(its))


def align(new: PodSpec, old: PodSpec, *, ordinary: bool = False) -> None:
    """Before defaults: what was changed in one of the two is changed in the other. Both changed: left to validation.

    A spec without `virtualMachine` that still has the mirror is of a client that does not know the form (and cuts what
    it does not know): it keeps the form. `ordinary`: not RESIZED from the mirror.
    """
    before, was = old.virtual_machine, mirror_of(old)
    if before is None or was is None:
        return
    if new.virtual_machine is None:
        if len(new.containers) != 1 or new.containers[0].name != before.name:
            return
        new.virtual_machine = before.copied()
    mirror, vm = mirror_of(new), new.virtual_machine
    if mirror is None:
        return
    for name in SHARED:
        ours, its = getattr(vm, name), getattr(mirror, name)
        if ours == its:
            continue
        if its == getattr(was, name):
            setattr(mirror, name, deepcopy(ours))
        elif ours == getattr(before, name) and not (ordinary and name in RESIZED):
            setattr(vm, name, deepcopy(its))


def resizes(new: PodSpec, old: PodSpec) -> bool:
    """An ordinary update wishes the machine another size: a resize, as Arktos had it."""
    vm, before = new.virtual_machine, old.virtual_machine
    return vm is not None and before is not None and vm.resources != before.resources


def unsize(spec: PodSpec, old: PodSpec) -> None:
    """Take a wish for another size back, in both places."""
    mirror, was = mirror_of(spec), mirror_of(old)
    if spec.virtual_machine is None or old.virtual_machine is None or mirror is None or was is None:
        return
    spec.virtual_machine.resources = old.virtual_machine.resources
    mirror.resources = was.resources


def spec_of(obj: Any) -> PodSpec | None:
    """The spec of a pod, or of an object's pod template."""
    spec = getattr(obj, "spec", None)
    if isinstance(spec, PodSpec):
        return spec
    job = getattr(spec, "job_template", None)
    template = getattr(job.spec if job is not None else spec, "template", None)
    found = spec if template is None else template.spec
    return found if isinstance(found, PodSpec) else None


def align_objects(new: Any, old: Any, *, ordinary: bool = False) -> None:
    after, before = spec_of(new), spec_of(old)
    if after is not None and before is not None and before.virtual_machine is not None:
        align(after, before, ordinary=ordinary)


def form_of(obj: Any) -> PodSpec | None:
    """What `realign` needs to know of an object that others are about to change; None where there is no VM form."""
    spec = spec_of(obj)
    return spec.copied() if spec is not None and spec.virtual_machine is not None else None


def realign(obj: Any, before: PodSpec | None) -> None:
    """After admission has changed an object: what it gave to the mirror the machine has, too, and the reverse."""
    spec = spec_of(obj)
    if before is not None and spec is not None:
        align(spec, before)


def told(spec: PodSpec, causes: list[Cause]) -> list[Cause]:
    """Causes about what both say, by the name under which it was written."""
    if mirror_of(spec) is None or differing(spec):
        return causes
    return [Cause(cause.reason, cause.message, _renamed(cause.field)) for cause in causes]


def _renamed(path: str) -> str:
    head = "spec.containers[0]."
    rest = path.removeprefix(head)
    shared = path.startswith(head) and rest.partition(".")[0].partition("[")[0] in WIRE.values()
    return f"spec.virtualMachine.{rest}" if shared else path


# Applied configurations


def applied(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration of server-side apply that applies its `virtualMachine` to the mirror as well.

    So both have the same owner, and whoever applies another value to either is told of the conflict.
    """
    for path in _PATHS:
        part: Any = config.get("spec")
        for name in path:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict):
            return _replaced(config, ("spec", *path, "spec"))
    return _replaced(config, ("spec",))


def _replaced(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """`data`, copied along the way, with the pod spec at `path` completed."""
    if not path:
        return _with_mirror(data)
    part = data.get(path[0])
    return data | {path[0]: _replaced(part, path[1:])} if isinstance(part, dict) else data


def _with_mirror(spec: dict[str, Any]) -> dict[str, Any]:
    vm = spec.get("virtualMachine")
    containers = spec.get("containers") or []
    if not isinstance(vm, dict) or not vm.get("name") or not isinstance(containers, list):
        return spec
    mirror = {name: vm[name] for name in WIRE.values() if name in vm}
    given = [item for item in containers if item.get("name") == vm["name"]]
    rest = [item for item in containers if item.get("name") != vm["name"]]
    return spec | {"containers": [{**mirror, **item} for item in given or [{}]] + rest}


def _said(value: Any) -> bool:
    """Something was written: a resources object without amounts says nothing."""
    return bool(value) and (not hasattr(value, "to_dict") or bool(value.to_dict()))
