"""Objects of kinds that users define (CustomResourceDefinitions). What they are made of, their schema says.

Each served version of a kind has a class of its own, made by `model`; the fields beyond metadata are plain JSON data.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, ClassVar

from kubeapi import schemarules, structural
from kubeapi.meta import KubeObject
from kubeapi.structural import Schema


class CustomObject(KubeObject):
    schema_of: ClassVar[Schema] = {}
    has_rules: ClassVar[bool] = False
    """Whether any part of the schema has rules in CEL."""
    stored_as: ClassVar[str] = ""
    """The apiVersion that the store keeps, whatever version it was written in: versions differ in nothing else."""

    @property
    def content(self) -> dict[str, Any]:
        """All but apiVersion, kind and metadata. Changing it changes the object."""
        if self.__pydantic_extra__ is None:
            self.__pydantic_extra__ = {}
        return self.__pydantic_extra__

    def unknown(self) -> Iterator[str]:
        return structural.unknown(self.content, self.schema_of, is_object=True)

    def prune(self) -> None:
        structural.prune(self.content, self.schema_of, is_object=True)

    def fill(self) -> None:
        structural.default(self.content, self.schema_of)


def model(api_version: str, kind: str, schema: Schema, stored_as: str) -> type[CustomObject]:
    namespace = {
        "__module__": __name__,
        "__annotations__": {"api_version": str, "kind": str},
        "api_version": api_version,
        "kind": kind,
        "schema_of": schema,
        "has_rules": schemarules.count(schema) > 0,
        "stored_as": stored_as,
        "__doc__": schema.get("description"),
    }
    return types.new_class(kind, (CustomObject,), exec_body=lambda body: body.update(namespace))
