"""The JSONPath that CustomResourceDefinitions use: printer columns, scale paths, selectable fields. Pure.

Fields (`.a.b`, `['a.b']`, `.a\\.b`), elements (`[0]`, `[-1]`, `[*]`) and filters (`[?(@.type=="Ready")]`,
`[?(@.n > 1)]`, `[?(@.a)]`): the part of kubectl's language that yields values.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(
    r"""
    \.(?P<field>(?:[^.\[\]\\\s]|\\.)+)
    | \[\s*(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\s*\]
    | \[\s*(?P<index>-?\d+)\s*\]
    | (?P<all>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<left>[^\s=!<>)]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>'[^']*'|"[^"]*"|[^)\s]+)\s*)?\)\]
    """,
    re.VERBOSE,
)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class BadPath(ValueError):
    """No path; the message says why."""


Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class JsonPath:
    steps: tuple[Step, ...]
    names: tuple[str, ...] | None
    """Where it is nothing but fields."""

    def find(self, data: Any) -> list[Any]:
        found = [data]
        for step in self.steps:
            found = [item for value in found for item in step(value)]
        return found

    def first(self, data: Any) -> Any:
        """None: there is none."""
        return next(iter(self.find(data)), None)


@lru_cache(maxsize=2048)
def parse(text: str) -> JsonPath:
    """Raises BadPath."""
    rest, steps, names = text.strip().removeprefix("{").removesuffix("}").removeprefix("$"), [], []
    simple, at = True, 0
    while at < len(rest):
        match = _TOKEN.match(rest, at)
        if match is None:
            raise BadPath(f"unexpected {rest[at:]!r} in {text!r}")
        step, name = _step(match)
        steps.append(step)
        names.append(name or "")
        simple = simple and name is not None
        at = match.end()
    if not steps:
        raise BadPath(f"{text!r} names nothing")
    return JsonPath(tuple(steps), tuple(names) if simple else None)


def _step(match: re.Match[str]) -> tuple[Step, str | None]:
    name = match["field"] or match["quoted"]
    if name is not None:
        name = re.sub(r"\\(.)", r"\1", name)
        return _field(name), name
    if match["all"]:
        return _all, None
    if match["index"]:
        return _element(int(match["index"])), None
    return _filter(match["left"], match["op"], match["right"]), None


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and value.get(name) is not None:
            yield value[name]

    return step


def _element(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(left: str, name: str | None, right: str | None) -> Step:
    path = parse(left) if left else None
    compare, wanted = _OPERATORS.get(name or ""), _literal(right or "")

    def passes(item: Any) -> bool:
        found = path.find(item) if path else [item]
        if compare is None:
            return bool(found)
        try:
            return any(compare(value, wanted) for value in found)
        except TypeError:  # unlike kinds have no order
            return False

    def step(value: Any) -> Iterator[Any]:
        yield from filter(passes, value if isinstance(value, list) else ())

    return step


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"'):
        return text[1:-1]
    words: Mapping[str, Any] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
