"""What the server says it serves: aggregated discovery and the older lists, from the registry (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeapi import versions
from kubeapi.resource import Registry, ResourceType, Subresource
from kubeapi.server.extras import EXTRA_RESOURCES, ExtraResource

Kinds = Iterable[ResourceType[Any]]


def group_versions(registry: Registry) -> list[tuple[str, str]]:
    """(group, version), core first, then by name; of a group's versions, the preferred one first."""
    found = {(item.group, item.version) for item in registry} | {(item.group, item.version) for item in EXTRA_RESOURCES}
    return sorted(found, key=lambda item: (item[0], versions.priority(item[1])))


def aggregated(registry: Registry, *, core: bool, version: str) -> dict[str, Any]:
    """`/api` (core) or `/apis` as an APIGroupDiscoveryList."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, api in group_versions(registry):
        if (group == "") == core:
            entry = {"version": api, "resources": _discovered(registry, group, api), "freshness": "Current"}
            groups.setdefault(group, []).append(entry)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {"metadata": {"name": name} if name else {}, "versions": entries} for name, entries in groups.items()
        ],
    }


def _discovered(registry: Registry, group: str, version: str) -> list[dict[str, Any]]:
    kinds = [_discover(item) for item in registry if (item.group, item.version) == (group, version)]
    extras = [_discover_extra(item) for item in EXTRA_RESOURCES if (item.group, item.version) == (group, version)]
    return sorted(kinds + extras, key=lambda entry: str(entry["resource"]))


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _discover(item: ResourceType[Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": item.plural,
        "responseKind": _kind(item.group, item.version, item.kind),
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.singular,
        "verbs": list(item.verbs),
    }
    if item.short_names:
        entry["shortNames"] = list(item.short_names)
    if item.categories:
        entry["categories"] = list(item.categories)
    if item.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _kind(*_group_version(item, sub), sub.kind or item.kind),
                "verbs": list(sub.verbs),
            }
            for sub in sorted(item.subresources, key=lambda sub: sub.name)
        ]
    return entry


def _group_version(item: ResourceType[Any], sub: Subresource) -> tuple[str, str]:
    return (sub.group, sub.version) if sub.kind and sub.version else (item.group, item.version)


def _discover_extra(item: ExtraResource) -> dict[str, Any]:
    return {
        "resource": item.plural,
        "responseKind": _kind(item.group, item.version, item.kind),
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.singular,
        "verbs": ["create"],
    }


def api_versions(server_address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(registry: Registry) -> dict[str, Any]:
    names = dict.fromkeys(group for group, _ in group_versions(registry) if group)
    groups = [group for name in names if (group := api_group(registry, name))]
    for group in groups:
        del group["kind"], group["apiVersion"]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, name: str) -> dict[str, Any] | None:
    served = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for group, version in group_versions(registry)
        if group == name and name
    ]
    if not served:
        return None
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": served,
        "preferredVersion": served[0],
    }


def resource_list(registry: Registry, group: str, version: str) -> dict[str, Any] | None:
    """`/api/v1`, `/apis/<group>/<version>`."""
    if (group, version) not in group_versions(registry):
        return None
    resources: list[dict[str, Any]] = []
    for item in registry:
        if (item.group, item.version) == (group, version):
            resources += _legacy(item)
    for extra in EXTRA_RESOURCES:
        if (extra.group, extra.version) == (group, version):
            resources.append(_legacy_entry(extra.plural, extra.singular, extra.namespaced, extra.kind, ("create",)))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted(resources, key=lambda entry: str(entry["name"])),
    }


def _legacy(item: ResourceType[Any]) -> list[dict[str, Any]]:
    entry = _legacy_entry(item.plural, item.singular, item.namespaced, item.kind, item.verbs)
    if item.short_names:
        entry["shortNames"] = list(item.short_names)
    if item.categories:
        entry["categories"] = list(item.categories)
    found = [entry]
    for sub in item.subresources:
        name = f"{item.plural}/{sub.name}"
        extra = _legacy_entry(name, "", item.namespaced, sub.kind or item.kind, sub.verbs)
        if sub.kind and sub.version:
            extra |= {"group": sub.group, "version": sub.version}
        found.append(extra)
    return found


def _legacy_entry(name: str, singular: str, namespaced: bool, kind: str, verbs: Iterable[str]) -> dict[str, Any]:
    return {
        "name": name,
        "singularName": singular,
        "namespaced": namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
