"""What `kubectl explain` says of a field: a text of `descriptions/`, else the docstring beneath the field.

The sources are read when an OpenAPI document is first asked for, not when the hub starts.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

_ITSELF = "_"
"""Where a type's own text is."""


class Documented(GenerateJsonSchema):
    """Generates schemas with the texts in them."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        texts = of(schema["cls"])
        if texts.get(_ITSELF):
            made["description"] = texts[_ITSELF]
        for name, part in made.get("properties", {}).items():
            text = texts.get(name)
            if text:
                part["description"] = text
        return made


def of(model: type[BaseModel]) -> Mapping[str, str]:
    """By the field's name on the wire."""
    texts: dict[str, str] = {}
    for base in reversed([cls for cls in model.__mro__ if issubclass(cls, BaseModel) and cls is not BaseModel]):
        named = _docstrings(base.__module__).get(base.__qualname__, {})
        for name, info in model.model_fields.items():
            if name in named:
                texts[info.alias or name] = named[name]
        texts |= written().get(base.__name__, {})
    return {name: text.replace("{kind}", model.__name__) for name, text in texts.items()}


@cache
def written() -> Mapping[str, Mapping[str, str]]:
    """Type → field → text."""
    texts: dict[str, dict[str, str]] = {}
    for page in (resources.files("kubeapi.server") / "descriptions").iterdir():
        texts |= tomllib.loads(page.read_text(encoding="utf-8"))
    return texts


@lru_cache(maxsize=256)
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """Class → field → text, of a whole module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, KeyError, TypeError):  # no sources (a frozen program): there are no texts then
        return {}
    return {node.name: dict(_fields(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for part, following in itertools.pairwise(node.body):
        match part, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
