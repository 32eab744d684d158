"""OpenAPI v3 documents generated from the declared kinds: what `kubectl apply`, `create` and `explain` read (pure)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import orjson
from pydantic import BaseModel

from kubeapi.custom import CustomObject
from kubeapi.meta import KubeObject
from kubeapi.patch import STRATEGIC
from kubeapi.resource import Registry, ResourceType
from kubeapi.server import customschemas
from kubeapi.server.deletion import RETURNED
from kubeapi.server.discovery import group_versions
from kubeapi.server.fielddocs import Documented
from kubeapi.server.ownership import MAX_NAME
from kubeapi.strategic import MERGE_KEYS

_REF = "#/components/schemas/"
_META_TYPES = frozenset({"ObjectMeta", "OwnerReference", "Condition"})
_WRITE_PARAMETERS: dict[str, dict[str, Any]] = {
    "dryRun": {"type": "string", "enum": ["All"]},
    "fieldManager": {"type": "string", "maxLength": MAX_NAME},
    "fieldValidation": {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
}
_PATCH_PARAMETERS = {**_WRITE_PARAMETERS, "force": {"type": "boolean"}}
_OPERATION = {
    "type": "object",
    "properties": {
        "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
        "path": {"type": "string"},
        "from": {"type": "string"},
        "value": {},
    },
    "required": ["op", "path"],
}
_PATCHES: dict[str, dict[str, Any]] = {
    "application/json-patch+json": {"type": "array", "items": _OPERATION},
    "application/merge-patch+json": {"type": "object"},
    STRATEGIC: {"type": "object"},
    "application/apply-patch+yaml": {"type": "object"},
}
"""What a body of each type looks like."""

_PORT_KEYS = {"ContainerPort": "containerPort", "ServicePort": "port"}
"""By type, how a list of ports is merged."""

Schema = dict[str, Any]

_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_STATUS_SCHEMA: Schema = {
    "type": "object",
    "description": "Status is what a request that failed is answered with.",
    "properties": {
        "apiVersion": {"type": "string", "description": ""},
        "kind": {"type": "string", "description": ""},
        "metadata": {"type": "object", "description": ""},
        "status": {"type": "string", "description": "Success or Failure."},
        "message": {"type": "string", "description": "For people."},
        "reason": {"type": "string", "description": "For programs; one word."},
        "details": {"type": "object", "description": "Whom it is about, and causes by field."},
        "code": {"type": "integer", "format": "int32", "description": "The HTTP status."},
    },
    "required": ["kind", "apiVersion", "status"],
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Status", "version": "v1"}],
}


class Documents:
    """One document per group and version, made when first asked for, and anew when its kinds are others."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[str, _Document] = {}

    def index(self) -> Schema:
        paths = {}
        for group, version in group_versions(self._registry):
            path = _path(group, version)
            digest = self._made(group, version).digest
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def all(self) -> list[Schema]:
        return [self._made(group, version).data for group, version in group_versions(self._registry)]

    def document(self, path: str) -> Schema | None:
        """`api/v1`, `apis/apps/v1`."""
        for group, version in group_versions(self._registry):
            if path == _path(group, version):
                return self._made(group, version).data
        return None

    def _made(self, group: str, version: str) -> _Document:
        kinds = [item for item in self._registry if (item.group, item.version) == (group, version)]
        path = _path(group, version)
        made = self._documents.get(path)
        if made is None or list(map(id, made.kinds)) != list(map(id, kinds)):
            made = self._documents[path] = _Document(kinds)
        return made


class _Document:
    def __init__(self, kinds: Sequence[ResourceType[Any]]) -> None:
        self.kinds = kinds

    @cached_property
    def data(self) -> Schema:
        return _document(self.kinds)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha512(orjson.dumps(self.data)).hexdigest().upper()


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _document(kinds: Sequence[ResourceType[Any]]) -> Schema:
    paths: Schema = {}
    schemas: Schema = {_STATUS: _STATUS_SCHEMA}
    for item in kinds:
        paths |= _paths(item)
        schemas |= _schemas(item)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2+copepod"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


# Paths


def _paths(item: ResourceType[Any]) -> Schema:
    base = f"/{_path(item.group, item.version)}"
    collection = f"{base}/namespaces/{{namespace}}/{item.plural}" if item.namespaced else f"{base}/{item.plural}"
    paths: Schema = {
        collection: _operations(item, {"get": "list", "post": "create", "delete": "deletecollection"}),
        f"{collection}/{{name}}": _operations(
            item, {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
        ),
    }
    for sub in item.subresources:
        if sub.writable_object:
            methods = {"get": "get", "put": "update", "patch": "patch"}
            paths[f"{collection}/{{name}}/{sub.name}"] = _operations(item, methods, sub.verbs)
    if item.namespaced:
        paths[f"{base}/{item.plural}"] = _operations(item, {"get": "list"})
    for path, operations in paths.items():
        operations["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ]
    return paths


def _operations(item: ResourceType[Any], methods: dict[str, str], verbs: Sequence[str] = ()) -> Schema:
    """Those of `methods` that the server takes."""
    taken = verbs or item.verbs
    return {method: _operation(item, method, verb) for method, verb in methods.items() if verb in taken}


def _operation(item: ResourceType[Any], method: str, verb: str) -> Schema:
    is_custom = issubclass(item.model, CustomObject)
    name = _root_name(item)
    reference = {"$ref": _REF + name}
    operation: Schema = {
        "tags": [f"{item.group or 'core'}_{item.version}"],
        "operationId": f"{verb}{item.group.partition('.')[0].title() or 'Core'}{item.version.title()}{item.kind}",
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": item.group, "version": item.version, "kind": item.kind},
        "responses": _responses(verb, _answer(item, verb, name)),
    }
    if method in ("post", "put", "patch"):
        types: tuple[str, ...] = tuple(_PATCHES) if method == "patch" else ("application/json", "application/yaml")
        if is_custom:  # kubectl patches in a way that it finds here
            types = tuple(kind for kind in types if kind != STRATEGIC)
        content = {kind: {"schema": _PATCHES.get(kind, reference)} for kind in types}
        operation["requestBody"] = {"content": content, "required": True}
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": schema}
            for name, schema in (_PATCH_PARAMETERS if method == "patch" else _WRITE_PARAMETERS).items()
        ]
    return operation


def _answer(item: ResourceType[Any], verb: str, name: str) -> Schema:
    one = {"$ref": _REF + name}
    if verb in ("list", "deletecollection"):
        return {"$ref": f"{_REF}{name}List"}
    if verb == "delete" and item.plural not in RETURNED:
        return {"anyOf": [{"$ref": _REF + _STATUS}, one]}  # of one that waits for its finalizers, the object
    return one


def _responses(verb: str, schema: Schema) -> Schema:
    succeeded = {"200": "OK"} | ({"201": "Created"} if verb in ("create", "update", "patch") else {})
    described = {code: (words, schema) for code, words in succeeded.items()}
    described["default"] = ("What was wrong", {"$ref": _REF + _STATUS})
    return {
        code: {"description": words, "content": {"application/json": {"schema": schema}}}
        for code, (words, schema) in described.items()
    }


# Schemas


def _schemas(item: ResourceType[Any]) -> Schema:
    return _object_schemas(item) | {_root_name(item) + "List": _list_schema(item)}


def _list_schema(item: ResourceType[Any]) -> Schema:
    text = {"type": "string", "description": ""}
    meta = {"resourceVersion": text, "continue": text, "remainingItemCount": {"type": "integer", "description": ""}}
    items = {"type": "array", "items": {"$ref": _REF + _root_name(item)}, "description": ""}
    described = "The revision that was read, and where the next page continues."
    return {
        "type": "object",
        "description": f"Objects of kind {item.kind}.",
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object", "description": described, "properties": meta},
            "items": items,
        },
        "required": ["items"],
        "x-kubernetes-group-version-kind": [{"group": item.group, "version": item.version, "kind": f"{item.kind}List"}],
    }


def _object_schemas(item: ResourceType[Any]) -> Schema:
    if issubclass(item.model, CustomObject):
        return _custom_schemas(item)
    root, definitions = _pydantic_schema(item.model)
    names = {name: _full_name(item, name) for name in (*definitions, item.kind)}
    schemas = {names[name]: _clean(schema, names) for name, schema in {**definitions, item.kind: root}.items()}
    schemas[names[item.kind]]["x-kubernetes-group-version-kind"] = [
        {"group": item.group, "version": item.version, "kind": item.kind}
    ]
    return schemas


def _custom_schemas(item: ResourceType[Any]) -> Schema:
    _, definitions = _pydantic_schema(KubeObject)
    names = {name: _full_name(item, name) for name in definitions}
    common = {names[name]: _clean(schema, names) for name, schema in definitions.items()}
    return common | {customschemas.full_name(item): customschemas.schema(item, _REF + names["ObjectMeta"])}


def _pydantic_schema(model: type[BaseModel]) -> tuple[Schema, Schema]:
    schema = model.model_json_schema(by_alias=True, ref_template="{model}", schema_generator=Documented)
    return schema, schema.pop("$defs", {})


def _root_name(item: ResourceType[Any]) -> str:
    return customschemas.full_name(item) if issubclass(item.model, CustomObject) else _full_name(item, item.kind)


def _full_name(item: ResourceType[Any], name: str) -> str:
    """As the reference names its types: `io.k8s.api.core.v1.Pod`."""
    if name in _META_TYPES:
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
    return f"io.k8s.api.{item.group.partition('.')[0] or 'core'}.{item.version}.{name}"


def _clean(schema: Schema, names: dict[str, str]) -> Schema:
    """JSON Schema as OpenAPI 3.0 wants it: no null types, references by full name; and how lists are merged."""
    if "$ref" in schema:
        return _reference(schema, names)
    alternatives = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if alternatives:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default", "title")}
        first = _clean(alternatives[0], names) if len(alternatives) == 1 else {}
        return {**first, **rest}
    cleaned: Schema = {key: schema[key] for key in ("type", "description", "format", "enum") if key in schema}
    if "default" in schema and schema["default"] not in ({}, [], None):
        cleaned["default"] = schema["default"]
    if "items" in schema:
        cleaned["items"] = _clean(schema["items"], names)
    if isinstance(schema.get("additionalProperties"), dict):
        cleaned["additionalProperties"] = _clean(schema["additionalProperties"], names)
    if "properties" in schema:
        cleaned["properties"] = {name: _property(name, part, names) for name, part in schema["properties"].items()}
    return cleaned


def _reference(schema: Schema, names: dict[str, str]) -> Schema:
    rest = {key: schema[key] for key in ("description",) if key in schema}
    return {"allOf": [{"$ref": _REF + names[schema["$ref"]]}], **rest}


def _property(name: str, schema: Schema, names: dict[str, str]) -> Schema:
    cleaned = _clean(schema, names)
    key = _PORT_KEYS.get(schema.get("items", {}).get("$ref", "")) if name == "ports" else MERGE_KEYS.get(name)
    if cleaned.get("type") == "array" and key:
        cleaned |= {"x-kubernetes-patch-merge-key": key, "x-kubernetes-patch-strategy": "merge"}
    cleaned.setdefault("description", "")
    return cleaned
