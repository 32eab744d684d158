"""Label and field selectors: parse what a client sends, match objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubeapi import names
from kubeapi.errors import ApiError, bad_request
from kubeapi.meta import KubeObject
from kubeapi.resource import ResourceType

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `operator`: in, notin, exists, absent, gt, lt (= is `in` of one, != is `notin`)."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if self.operator in ("absent", "exists"):
            return (value is not None) == (self.operator == "exists")
        if self.operator == "notin":
            return value is None or value not in self.values
        if value is None:
            return False
        if self.operator == "in":
            return value in self.values
        bound = int(next(iter(self.values)))
        try:
            number = int(value)
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = LabelSelector()

_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")


def parse_labels(text: str) -> LabelSelector:
    """`app=web,tier in (a,b),!gone,cpu>4`. Raises ApiError 400."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise _unparsable(text)
    requirements = []
    while tokens:
        requirement, tokens = _requirement(tokens, text)
        requirements.append(requirement)
        if tokens:
            if tokens[0] != ",":
                raise _expected(text, tokens[0], "',' or 'end of string'")
            tokens = tokens[1:]
            if not tokens:
                raise _expected(text, "", "identifier after ','")
    return LabelSelector(tuple(requirements))


def _requirement(tokens: list[str], text: str) -> tuple[Requirement, list[str]]:
    if tokens[0] == "!":
        if len(tokens) < 2:
            raise _expected(text, "", "identifier")
        return Requirement(_key(tokens[1], text), "absent"), tokens[2:]
    key, rest = _key(tokens[0], text), tokens[1:]
    if not rest or rest[0] == ",":
        return Requirement(key, "exists"), rest
    operator, rest = rest[0], rest[1:]
    if operator in ("=", "==", "!="):
        value, rest = ("", rest) if not rest or rest[0] == "," else (rest[0], rest[1:])
        kind = "notin" if operator == "!=" else "in"
        return Requirement(key, kind, frozenset({_value(value, key)})), rest
    if operator in ("<", ">"):
        if not rest or not re.fullmatch(r"-?\d+", rest[0]):
            raise bad_request(
                f"for 'Gt', 'Lt' operators, the value must be an integer: unable to parse requirement in {text!r}"
            )
        return Requirement(key, "gt" if operator == ">" else "lt", frozenset({rest[0]})), rest[1:]
    if operator in ("in", "notin"):
        values, rest = _set(rest, key, text)
        return Requirement(key, operator, values), rest
    raise _expected(text, operator, "in, notin, =, ==, !=, gt, lt")


def _set(tokens: list[str], key: str, text: str) -> tuple[frozenset[str], list[str]]:
    if not tokens or tokens[0] != "(":
        raise _expected(text, tokens[0] if tokens else "", "'('")
    if ")" not in tokens:
        raise _expected(text, "", "',' or ')'")
    end = tokens.index(")")
    values = "".join(tokens[1:end]).split(",")
    return frozenset(_value(value, key) for value in values), tokens[end + 1 :]


def _key(text: str, selector: str) -> str:
    if text in ("=", "==", "!=", ",", "(", ")", "<", ">", "!"):
        raise _expected(selector, text, "!, identifier, or 'end of string'")
    problems = names.qualified_name(text)
    if problems:
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{text}": {"; ".join(problems)}')
    return text


def _value(text: str, key: str) -> str:
    problems = names.label_value(text)
    if problems:
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": {"; ".join(problems)}'
        )
    return text


def _expected(selector: str, found: str, expected: str) -> ApiError:
    return bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")


def _unparsable(selector: str) -> ApiError:
    return bad_request(f'couldn\'t parse the selector string "{selector}"')


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    field: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, obj: KubeObject, resource: ResourceType[KubeObject]) -> bool:
        return all((field_value(obj, resource, item.field) == item.value) is item.equal for item in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value that the selector asks of `field`, if it asks for one (`metadata.name=x`)."""
        return next((item.value for item in self.requirements if item.field == field and item.equal), None)


_META: Mapping[str, Callable[[KubeObject], str]] = {
    "metadata.name": lambda obj: obj.metadata.name,
    "metadata.namespace": lambda obj: obj.metadata.namespace or "",
}


def field_value(obj: KubeObject, resource: ResourceType[KubeObject], field: str) -> str:
    getter = _META.get(field) or resource.fields[field]
    return getter(obj)


def parse_fields(text: str, resource: ResourceType[KubeObject]) -> FieldSelector:
    """`spec.nodeName=n1,status.phase!=Running`. Raises ApiError 400 for what the kind cannot be selected by."""
    requirements = []
    for term in filter(None, _split(text)):
        match = re.fullmatch(r"((?:\\.|[^=!\\])*)(==|!=|=)((?:\\.|[^\\])*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match[1], match[2], _unescape(match[3], text)
        if field not in _META and field not in resource.fields:
            raise bad_request(f"field label not supported: {field}")
        requirements.append(FieldRequirement(field, operator != "!=", value))
    return FieldSelector(tuple(requirements))


def _split(text: str) -> Sequence[str]:
    """At commas that no backslash escapes."""
    return [part.lstrip(",") for part in re.findall(r",?(?:\\.|[^,\\])*", text) if part]


def _unescape(value: str, selector: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*=", value):
        raise bad_request(f"invalid field selector: {selector}: unescaped '=' in value")
    return re.sub(r"\\(.)", r"\1", value)
