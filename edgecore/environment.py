"""A container's environment and command as its VM is given them: every reference resolved. Pure.

Source of the rules: the kubelet (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables) and
third_party/forked/golang/expansion. Later names win over earlier ones, `env` over `envFrom`; `$(NAME)` stands for what
is known by then, `$$` for a dollar sign, and what is not known stays as it is written.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from edgecore.sizes import Sizes
from kubeapi import names, quantity
from kubeapi.core import Container, EnvVar, Pod, ResourceRequirements

CONFIG_MAPS, SECRETS = "configmaps", "secrets"
_KINDS = {"configMap": (CONFIG_MAPS, "ConfigMap"), "secret": (SECRETS, "Secret")}
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


class EnvError(ValueError):
    """A reference that leads nowhere: reason CreateContainerConfigError. The message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container may ask about beside its own spec."""

    objects: Mapping[tuple[str, str], Mapping[str, Any]]
    """(`configmaps` or `secrets`, name) → the object, of the pod's namespace."""
    amounts: Mapping[str, Mapping[str, Decimal]]
    """Container name → `limits.cpu`, `requests.memory` and the like, in whole CPUs and bytes."""
    host_ip: str = ""
    pod_ip: str = ""


def environment(pod: Pod, container: Container, around: Surroundings) -> Mapping[str, str]:
    """In the order in which the names were first met. Raises EnvError."""
    found: dict[str, str] = {}
    for source in container.env_from:
        for name, value in _all_of(source, around):
            if not names.env_name(name):
                found[name] = value
    for variable in container.env:
        if (text := _value(pod, variable, container, around, found)) is not None:
            found[variable.name] = text
    return found


def command(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expanded(word, env) for word in (*container.command, *container.args))


def references(container: Container) -> Iterator[tuple[str, str]]:
    """(kind, name) of the objects that `environment` may look for."""
    for source in container.env_from:
        for field, (kind, _) in _KINDS.items():
            if reference := source.get(f"{field}Ref"):
                yield kind, str(reference.get("name") or "")
    for variable in container.env:
        for field, (kind, _) in _KINDS.items():
            if reference := (variable.value_from or {}).get(f"{field}KeyRef"):
                yield kind, str(reference.get("name") or "")


def amounts_of(resources: ResourceRequirements, sizes: Sizes) -> Mapping[str, Decimal]:
    """What is not said is what the VM has: no guest sees its host."""
    cpu = Decimal(sizes.cpu_limit_millicores or sizes.vcpus_online * 1000) / 1000
    memory = Decimal(sizes.memory_mib << 20)
    found = {"limits.cpu": cpu, "requests.cpu": cpu, "limits.memory": memory, "requests.memory": memory}
    for part in ("limits", "requests"):
        for name, text in getattr(resources, part).items():
            found[f"{part}.{name}"] = quantity.parse(text).value
    return found


def expanded(text: str, env: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else env.get(name, match[0])

    return _REFERENCE.sub(replace, text)


def _all_of(source: Mapping[str, Any], around: Surroundings) -> Iterator[tuple[str, str]]:
    for field in _KINDS:
        reference = source.get(f"{field}Ref")
        if reference is None:
            continue
        data = _data(field, reference, around)
        for key in sorted(data or {}):
            assert data is not None
            yield f"{source.get('prefix') or ''}{key}", data[key]


def _value(
    pod: Pod, variable: EnvVar, container: Container, around: Surroundings, known: Mapping[str, str]
) -> str | None:
    """None where an optional reference leads nowhere: then there is no such variable."""
    source = variable.value_from
    if not source:
        return expanded(variable.value or "", known)
    if reference := source.get("fieldRef"):
        return _field(pod, str(reference.get("fieldPath") or ""), around)
    if reference := source.get("resourceFieldRef"):
        return _resource(reference, container, around)
    for field, (_, kind) in _KINDS.items():
        reference = source.get(f"{field}KeyRef")
        if reference is None:
            continue
        data, key = _data(field, reference, around), str(reference.get("key") or "")
        if data is not None and key in data:
            return data[key]
        if reference.get("optional"):
            return None
        where = f"{pod.metadata.namespace}/{reference.get('name')}"
        raise EnvError(f"couldn't find key {key} in {kind} {where}")
    raise EnvError(f"env {variable.name}: this node does not know valueFrom {', '.join(sorted(source))}")


def _data(field: str, reference: Mapping[str, Any], around: Surroundings) -> Mapping[str, str] | None:
    """None where there is no such object and that is allowed."""
    kind, _ = _KINDS[field]
    name = str(reference.get("name") or "")
    found = around.objects.get((kind, name))
    if found is None:
        if reference.get("optional"):
            return None
        raise EnvError(f'{kind.removesuffix("s")} "{name}" not found')
    data: Mapping[str, str] = found.get("data") or {}
    if kind == SECRETS:
        return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}
    return data


def _field(pod: Pod, path: str, around: Surroundings) -> str:
    """Raises EnvError. Admission refuses other paths than these."""
    if match := _SUBSCRIPT.fullmatch(path):
        given = pod.metadata.labels if match[1] == "labels" else pod.metadata.annotations
        return given.get(match[2], "")
    answers = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
    }
    if path not in answers:
        raise EnvError(f"unsupported fieldPath: {path}")
    return answers[path] or ""


def _resource(reference: Mapping[str, Any], container: Container, around: Surroundings) -> str:
    """Whole multiples of the divisor, rounded up."""
    name, asked = str(reference.get("containerName") or container.name), str(reference.get("resource") or "")
    if name not in around.amounts:
        raise EnvError(f"container {name} not found")
    amounts = around.amounts[name]
    if asked not in amounts:
        raise EnvError(f"this node knows no resource {asked} of a VM")
    divisor = quantity.parse(str(reference.get("divisor") or "0")).value or Decimal(1)
    return str((amounts[asked] / divisor).to_integral_value(ROUND_CEILING))
