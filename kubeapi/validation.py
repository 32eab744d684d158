"""Validation of metadata and of the small kinds, with the server's paths and words. Pods: `kubeapi.podvalidation`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kubeapi import names, quantity
from kubeapi.core import Binding, ConfigMap, Event, Lease, Namespace, Node, Secret
from kubeapi.errors import Cause
from kubeapi.fields import (
    IMMUTABLE,
    NEGATIVE,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
)
from kubeapi.meta import KubeObject, ObjectMeta, OwnerReference

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes, keys and values together."""
DATA_LIMIT = 1024 * 1024
"""Bytes in a ConfigMap or Secret."""
_STANDARD_FINALIZERS = (
    "kubernetes",
    "orphan",
    "foregroundDeletion",
    "customresourcecleanup.apiextensions.k8s.io",
)


def validate_metadata(
    meta: ObjectMeta,
    *,
    namespaced: bool,
    name_rule: Callable[[str], Sequence[str]] = names.dns_subdomain,
    custom: bool = False,
) -> list[Cause]:
    """`custom`: of a kind that users define, whose finalizers may have any qualified name."""
    causes = []
    if meta.generate_name:
        causes += [invalid("metadata.generateName", meta.generate_name, m) for m in _prefix(meta, name_rule)]
    if not meta.name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid("metadata.name", meta.name, problem) for problem in name_rule(meta.name)]
    if namespaced and not meta.namespace:
        causes.append(required("metadata.namespace"))
    elif namespaced:
        causes += [invalid("metadata.namespace", meta.namespace, m) for m in names.dns_label(meta.namespace or "")]
    elif meta.namespace:
        causes.append(forbidden("metadata.namespace", "not allowed on this type"))
    if (meta.generation or 0) < 0:
        causes.append(invalid("metadata.generation", meta.generation, NEGATIVE))
    return [*causes, *_labels_and_owners(meta, custom)]


def validate_metadata_update(new: KubeObject, old: KubeObject, *, custom: bool = False) -> list[Cause]:
    """What may never change, and the finalizers of an object that is being deleted."""
    after, before = new.metadata, old.metadata
    causes = []
    if before.deletion_timestamp:
        added = sorted(set(after.finalizers) - set(before.finalizers))
        if added:
            listed = ", ".join(shown(name) for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            causes.append(forbidden("metadata.finalizers", detail))
    if (after.generation or 0) < (before.generation or 0):
        causes.append(invalid("metadata.generation", after.generation or 0, "must not be decremented"))
    for path, value, kept in (
        ("metadata.name", after.name, before.name),
        ("metadata.namespace", after.namespace or "", before.namespace or ""),
        ("metadata.uid", after.uid, before.uid),
        ("metadata.creationTimestamp", after.creation_timestamp, before.creation_timestamp),
        ("metadata.deletionTimestamp", after.deletion_timestamp, before.deletion_timestamp),
        (
            "metadata.deletionGracePeriodSeconds",
            after.deletion_grace_period_seconds,
            before.deletion_grace_period_seconds,
        ),
    ):
        if value != kept:
            causes.append(invalid(path, value, IMMUTABLE))
    return [*causes, *_labels_and_owners(after, custom)]


def validate_labels(labels: Mapping[str, str], path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += [invalid(path, key, problem) for problem in names.qualified_name(key)]
        causes += [invalid(path, value, problem) for problem in names.label_value(value)]
    return causes


def validate_amounts(resources: Mapping[str, str], path: str) -> list[Cause]:
    """A plain resource list (overhead, capacity, allocatable)."""
    causes = []
    for name, text in sorted(resources.items()):
        where = f"{path}[{name}]"
        causes += [invalid(where, name, problem) for problem in names.qualified_name(name)]
        causes += validate_amount(name, text, where)
    return causes


def validate_amount(name: str, text: str, path: str) -> list[Cause]:
    """One quantity of the named resource."""
    value = quantity.parse(text).value
    if value < 0:
        return [invalid(path, text, NEGATIVE)]
    if "/" in name and "kubernetes.io/" not in name and value != value.to_integral_value():
        return [invalid(path, text, "must be an integer")]
    return []


def validate_namespace(namespace: Namespace) -> list[Cause]:
    return validate_metadata(namespace.metadata, namespaced=False, name_rule=names.dns_label)


def validate_node(node: Node) -> list[Cause]:
    causes = validate_metadata(node.metadata, namespaced=False)
    seen = set()
    for index, taint in enumerate(node.spec.taints):
        path = f"spec.taints[{index}]"
        causes += [invalid(f"{path}.key", taint.key, problem) for problem in names.qualified_name(taint.key)]
        if taint.effect not in TAINT_EFFECTS:
            causes.append(not_supported(f"{path}.effect", taint.effect, TAINT_EFFECTS))
        if (taint.key, taint.effect) in seen:
            causes.append(duplicate(path, taint.to_dict()))
        seen.add((taint.key, taint.effect))
    after = node.metadata.annotations.get(GIVE_UP_AFTER)
    if after is not None and not _GIVE_UP_AFTER.fullmatch(after):
        field = f"metadata.annotations[{GIVE_UP_AFTER}]"
        causes.append(invalid(field, after, "must be whole seconds, at most nine digits"))
    for which, resources in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        causes += validate_amounts(resources, f"status.{which}")
    return causes


TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GIVE_UP_AFTER = "copepod.dev/give-up-after"
"""Annotation of a node: seconds of silence after which pods that do not say for themselves are given up."""
_GIVE_UP_AFTER = re.compile(r"[0-9]{1,9}")


def validate_node_update(new: Node, old: Node) -> list[Cause]:
    causes = [*validate_metadata_update(new, old), *validate_node(new)]
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        detail = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", detail))
    if old.spec.pod_cidrs and new.spec.pod_cidrs != old.spec.pod_cidrs:
        causes.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    return causes


def validate_configmap(config: ConfigMap) -> list[Cause]:
    causes = validate_metadata(config.metadata, namespaced=True)
    for key in config.data:
        causes += [invalid(f"data[{key}]", key, problem) for problem in names.config_key(key)]
        if key in config.binary_data:
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in config.binary_data:
        causes += [invalid(f"binaryData[{key}]", key, problem) for problem in names.config_key(key)]
    if _size(config.data) + _size(config.binary_data) > DATA_LIMIT:
        causes.append(too_long("", DATA_LIMIT))
    return causes


def validate_configmap_update(new: ConfigMap, old: ConfigMap) -> list[Cause]:
    causes = validate_metadata_update(new, old)
    if old.immutable:
        causes += _immutable(
            new.immutable, (("data", new.data, old.data), ("binaryData", new.binary_data, old.binary_data))
        )
    return [*causes, *validate_configmap(new)]


def validate_secret(secret: Secret) -> list[Cause]:
    causes = validate_metadata(secret.metadata, namespaced=True)
    for key in secret.data:
        causes += [invalid(f"data[{key}]", key, problem) for problem in names.config_key(key)]
    if _size(secret.data) > DATA_LIMIT * 4 // 3:
        causes.append(too_long("data", DATA_LIMIT))
    return causes


def validate_secret_update(new: Secret, old: Secret) -> list[Cause]:
    causes = validate_metadata_update(new, old)
    if new.type != old.type:
        causes.append(invalid("type", new.type, IMMUTABLE))
    if old.immutable:
        causes += _immutable(new.immutable, (("data", new.data, old.data),))
    return [*causes, *validate_secret(new)]


def validate_event(event: Event) -> list[Cause]:
    causes = validate_metadata(event.metadata, namespaced=True)
    about = event.involved_object.namespace or "default"
    if about != event.metadata.namespace and event.involved_object.namespace:
        causes.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    return causes


def validate_lease(lease: Lease) -> list[Cause]:
    causes = validate_metadata(lease.metadata, namespaced=True)
    duration, transitions = lease.spec.lease_duration_seconds, lease.spec.lease_transitions
    if duration is not None and duration <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid("spec.leaseTransitions", transitions, NEGATIVE))
    return causes


def validate_binding(binding: Binding) -> list[Cause]:
    causes = []
    if binding.target.kind not in (None, "", "Node"):
        causes.append(not_supported("target.kind", binding.target.kind, ("Node", "<empty>")))
    if not binding.target.name:
        causes.append(required("target.name"))
    return causes


def _prefix(meta: ObjectMeta, rule: Callable[[str], Sequence[str]]) -> Sequence[str]:
    """A generateName may end in `-`: something follows it."""
    prefix = meta.generate_name or ""
    return rule(prefix[:-1] + "a" if prefix.endswith("-") else prefix)


def _labels_and_owners(meta: ObjectMeta, custom: bool) -> list[Cause]:
    causes = validate_labels(meta.labels, "metadata.labels")
    for key in meta.annotations:
        causes += [invalid("metadata.annotations", key, m) for m in names.qualified_name(key.lower())]
    if _size(meta.annotations) > ANNOTATIONS_LIMIT:
        causes.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT))
    return [*causes, *_owners(meta.owner_references), *_finalizers(meta.finalizers, custom)]


def _owners(owners: Sequence[OwnerReference]) -> list[Cause]:
    causes = []
    controller = ""
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        if not owner.api_version:
            causes.append(invalid(f"{path}.apiVersion", owner.api_version, "version must not be empty"))
        for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                causes.append(invalid(f"{path}.{name}", value, "must not be empty"))
        if owner.controller and controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {owner.name}"
            )
            causes.append(invalid("metadata.ownerReferences", [item.to_dict() for item in owners], detail))
        controller = owner.name if owner.controller else controller
    return causes


def _finalizers(finalizers: Sequence[str], custom: bool) -> list[Cause]:
    causes = []
    for name in finalizers:
        problems = names.qualified_name(name)
        causes += [invalid("metadata.finalizers", name, problem) for problem in problems]
        if not problems and not custom and "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid("metadata.finalizers", name, detail))
    return causes


def _immutable(flag: bool | None, parts: Sequence[tuple[str, object, object]]) -> list[Cause]:
    causes = []
    if not flag:
        causes.append(forbidden("immutable", "field is immutable when `immutable` is set"))
    causes += [forbidden(path, "field is immutable when `immutable` is set") for path, new, old in parts if new != old]
    return causes


def _size(data: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())
