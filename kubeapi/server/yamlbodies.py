"""YAML bodies become JSON data, event by event (pure): no tree of nodes, which takes a kilobyte for every comma.

Read as sigs.k8s.io/yaml reads it: no timestamps. Aliases are refused, since with them a small body can grow without
bound, and tags beyond JSON's types with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import orjson
import yaml
from yaml.constructor import SafeConstructor

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_STR, _MERGE = _TAG + "str", _TAG + "merge"
_PLAIN = frozenset({"int", "float", "bool", "null"})
_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAG) in (*_PLAIN, "merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_MOST_EVENTS = 200_000
"""Two for each entry of a map, one for each of a list; some microseconds each, in which nobody else is served."""


class BadYaml(ValueError):
    """Not YAML, or more than JSON can say."""


class TooDeep(BadYaml):
    """Nested deeper than allowed."""


def load(body: bytes, most_depth: int) -> Any:
    """The only document in `body`; None where there is none. Raises BadYaml."""
    try:
        value = _document(yaml.parse(body, Loader=_Loader), most_depth)
        return orjson.loads(orjson.dumps(value))
    except yaml.YAMLError as error:
        raise BadYaml(" ".join(str(error).split())) from error
    except orjson.JSONEncodeError as error:
        raise BadYaml(str(error)) from error


def _document(events: Iterator[yaml.Event], most_depth: int) -> Any:
    documents = _Builder(most_depth)
    for number, event in enumerate(events):
        if number > _MOST_EVENTS:
            raise BadYaml(f"more than {_MOST_EVENTS} keys and values")
        documents.take(event)
    return documents.value


class _Builder:
    """Grows the value from the parser's events. Open containers are on a stack: nesting costs no recursion."""

    def __init__(self, most_depth: int) -> None:
        self.value: Any = None
        self._most_depth = most_depth
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []
        """For each open container: the key whose value comes next; None where a key is due, or in a list."""
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._start({}, event.tag)
            case yaml.SequenceStartEvent():
                self._start([], event.tag)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
                self._keys.pop()
            case yaml.AliasEvent():
                raise BadYaml("YAML aliases are not accepted")
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise BadYaml("expected a single document in the stream, but found another document")

    def _start(self, container: dict[str, Any] | list[Any], tag: str | None) -> None:
        if tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            raise BadYaml(f"{tag} has no equivalent in JSON")
        if len(self._open) >= self._most_depth:
            raise TooDeep
        if self._wants_key():
            raise BadYaml("the key of a map is no text")
        self._add(container)
        self._open.append(container)
        self._keys.append(None)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._wants_key():
            self._keys[-1] = _key(event)
        else:
            self._add(_constructed(_tag_of(event), event.value))

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _add(self, value: Any) -> None:
        if not self._open:
            self.value = value
        elif isinstance(parent := self._open[-1], list):
            parent.append(value)
        else:
            parent[self._keys[-1] or ""] = value
            self._keys[-1] = None


def _tag_of(event: yaml.ScalarEvent) -> str:
    if event.tag not in (None, "!"):
        return str(event.tag)
    if event.tag == "!" or not event.implicit[0]:
        return _STR
    resolvers = _RESOLVERS.get(event.value[:1], ())
    return next((tag for tag, pattern in resolvers if pattern.match(event.value)), _STR)


def _key(event: yaml.ScalarEvent) -> str:
    """Keys of JSON are text; `on` is a boolean in YAML 1.1, and becomes the key `true`."""
    tag = _tag_of(event)
    if tag == _MERGE:
        raise BadYaml("YAML merge keys are not accepted")
    value = _constructed(tag, event.value)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        raise BadYaml("the key of a map is no text")
    return str(value) if isinstance(value, int) else str(event.value)


_CONSTRUCTOR = SafeConstructor()


def _constructed(tag: str, text: str) -> Any:
    kind = tag.removeprefix(_TAG)
    if kind in ("str", "merge"):
        return text
    if kind not in _PLAIN:
        raise BadYaml(f"{tag} has no equivalent in JSON")
    try:
        value = getattr(_CONSTRUCTOR, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
        return _in_json(value)
    except (ValueError, LookupError, OverflowError) as error:
        raise BadYaml(f"cannot read {text[:100]!r} as {kind}") from error


def _in_json(value: Any) -> Any:
    """An integer beyond 64 bits is a float, as in Go. Raises ValueError, OverflowError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return float(value)
    return value
