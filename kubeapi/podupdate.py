"""What may change in a pod by an ordinary update and by a status update, in the server's words.

Resources are not among it: they change by the `resize` subresource only (`kubeapi.resize`). Arktos' form is the
exception: its `spec.virtualMachine.resources` change by an ordinary update as well, by the rules of that subresource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeapi import gatedupdate, resize, virtualmachineform, virtualmachinevalidation
from kubeapi.core import Container, ContainerStatus, Pod, PodSpec, Toleration
from kubeapi.errors import Cause
from kubeapi.fields import IMMUTABLE, forbidden, invalid, required, shown
from kubeapi.podresources import is_sidecar
from kubeapi.podvalidation import validate_metadata_and_spec
from kubeapi.validation import validate_metadata_update

UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def validate_pod_update(new: Pod, old: Pod) -> list[Cause]:
    if not virtualmachineform.resizes(new.spec, old.spec):
        return _validate_update(new, old)
    rest = new.copied()
    virtualmachineform.unsize(rest.spec, old.spec)
    size = resize.keep_resize_changes(old, new)
    return list(dict.fromkeys([*resize.validate_resize(size, old), *_validate_update(rest, old)]))


def _validate_update(new: Pod, old: Pod) -> list[Cause]:
    causes = [*validate_metadata_update(new, old), *validate_metadata_and_spec(new)]
    for name, after, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(after) != len(before):
            return [*causes, forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
        causes += [required(f"spec.{name}[{index}].image") for index, item in enumerate(after) if not item.image]
    causes += _deadline(new.spec.active_deadline_seconds, old.spec.active_deadline_seconds)
    causes += _tolerations(new.spec.tolerations, old.spec.tolerations)
    added = [gate for gate in new.spec.scheduling_gates if gate not in old.spec.scheduling_gates]
    if added:
        detail = f"only deletion is allowed, but found new scheduling gate '{added[0].name}'"
        causes.append(forbidden("spec.schedulingGates", detail))
    causes += gatedupdate.validate(new.spec, old.spec)
    changes = list(_differences("spec", old.spec.to_dict(), _without_updatable(new.spec, old.spec).to_dict()))
    if changes:
        of_form = virtualmachinevalidation.UPDATABLE if old.spec.virtual_machine is not None else ()
        listed = ",".join((*UPDATABLE, *of_form))
        detail = f"pod updates may not change fields other than {listed}\n" + "".join(changes)
        causes.append(forbidden("spec", detail))
    return causes


def validate_pod_status_update(new: Pod, old: Pod) -> list[Cause]:
    causes = validate_metadata_update(new, old)
    if new.status.qos_class != old.status.qos_class:
        causes.append(invalid("status.qosClass", new.status.qos_class, IMMUTABLE))
    sidecars = {item.name for item in old.spec.init_containers if is_sidecar(item)}
    causes += _states("containerStatuses", new.status.container_statuses, old.status.container_statuses, old)
    ended = [item for item in old.status.init_container_statuses if item.name not in sidecars]
    causes += _states("initContainerStatuses", new.status.init_container_statuses, ended, old)
    return causes


def _deadline(new: int | None, old: int | None) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return [invalid(path, None, detail)] if old is not None else []
    if old is not None and new > old:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _tolerations(new: Sequence[Toleration], old: Sequence[Toleration]) -> list[Cause]:
    """Existing ones may only change their tolerationSeconds."""

    def key(item: Toleration) -> tuple[str | None, ...]:
        return (item.key, item.operator, item.value, item.effect)

    if {key(item) for item in old} - {key(item) for item in new}:
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", detail)]
    return []


def _without_updatable(new: PodSpec, old: PodSpec) -> PodSpec:
    """`new` with everything that may change set back to `old`'s."""
    spec = new.copied()
    for after, before in (
        *zip(spec.containers, old.containers, strict=True),
        *zip(spec.init_containers, old.init_containers, strict=True),
    ):
        _set_image(after, before)
    if spec.virtual_machine is not None and old.virtual_machine is not None:
        spec.virtual_machine.image = old.virtual_machine.image
        spec.virtual_machine.power_spec = old.virtual_machine.power_spec
        spec.virtual_machine.shutdown_behavior = old.virtual_machine.shutdown_behavior
    spec.active_deadline_seconds = old.active_deadline_seconds
    spec.scheduling_gates = old.scheduling_gates
    gatedupdate.set_back(spec, old)
    spec.tolerations = old.tolerations
    if (old.termination_grace_period_seconds or 0) < 0 and spec.termination_grace_period_seconds == 1:
        spec.termination_grace_period_seconds = old.termination_grace_period_seconds
    return spec


def _set_image(container: Container, before: Container) -> None:
    container.image = before.image


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """One line for each value that was lost (`-`) or set (`+`)."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(f"{path}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{path}[{index}]", before, after)
    elif old != new:
        if old is not None:
            yield f"- {path}: {shown(old)}\n"
        if new is not None:
            yield f"+ {path}: {shown(new)}\n"


def _states(name: str, new: Sequence[ContainerStatus], old: Sequence[ContainerStatus], pod: Pod) -> list[Cause]:
    """What has ended, and may not restart by its policy, stays ended."""
    policy = pod.spec.restart_policy
    if policy == "Always":
        return []
    states = {item.name: item.state for item in new}
    causes = []
    for index, before in enumerate(old):
        ended = before.state.terminated if before.state else None
        after = states.get(before.name)
        if ended is None or after is None or (ended.exit_code != 0 and policy == "OnFailure"):
            continue
        if after.terminated is None:
            path = f"status.{name}[{index}].state"
            causes.append(forbidden(path, "may not be transitioned to non-terminated state"))
    return causes
