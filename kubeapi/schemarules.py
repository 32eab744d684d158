"""`x-kubernetes-validations`: the CEL rules of structural schemas, collected for whoever evaluates them. Pure.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules.
Rules are typed here by their values, not by the schema: a `format: date-time` is a string to them; and
`optionalOldSelf` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeapi.errors import Cause
from kubeapi.fields import forbidden, invalid, not_supported, required
from kubeapi.schemavalues import MISSING, ROOT, by_key, key_of, kind_of
from kubeapi.structural import Schema, additional, field_of, items, properties

RULES = "x-kubernetes-validations"
MOST = 500
"""Rules of one version's schema. Each is compiled when the definition is written."""

_REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
_RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    }
)
_OLD = re.compile(r"\boldSelf\b")
_FIELD_PATH = re.compile(r"(\.[A-Za-z_][-\w]*|\['[^']*'\])+")


@dataclass(frozen=True, slots=True)
class Check:
    """One rule, to be true of one value."""

    rule: str
    path: str
    """Where the value is."""
    values: Mapping[str, Any]
    """`self`, and `oldSelf` for a rule about a transition."""
    kind: str
    """The value's type: the reference shows it in place of the value."""
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""

    def refusal(self, said: str = "") -> Cause:
        """`said` is what the message's expression made."""
        text = said or self.message or f"failed rule: {self.rule}"
        where = f"{self.path}{self.field_path}".removeprefix(".") or ROOT
        detail = {
            "FieldValueForbidden": f"Forbidden: {text}",
            "FieldValueRequired": f"Required value: {text}",
            "FieldValueDuplicate": f'Duplicate value: "{self.kind}"',
        }
        return Cause(self.reason, detail.get(self.reason, f'Invalid value: "{self.kind}": {text}'), where)

    def failure(self, error: str) -> Cause:
        """It has no value."""
        return invalid(self.path or ROOT, self.kind, f"{error} evaluating rule: {self.message or self.rule}")


def count(schema: Any) -> int:
    """How many rules there are, at any depth."""
    if isinstance(schema, Mapping):
        own = len(schema.get(RULES) or ()) if isinstance(schema.get(RULES), list) else 0
        return own + sum(count(part) for part in schema.values() if isinstance(part, Mapping))
    return 0


def checks(value: Any, schema: Schema, path: str = "", old: Any = MISSING) -> Iterator[Check]:
    """Of a valid value and all in it. What an update did not change is not asked again, but about the transition."""
    changed = old is MISSING or old != value
    for rule in schema.get(RULES) or ():
        transition = bool(_OLD.search(rule["rule"]))
        if transition and old is not MISSING:
            yield _check(rule, value, schema, path, {"oldSelf": escaped(old, schema)})
        elif not transition and changed:
            yield _check(rule, value, schema, path, {})
    if isinstance(value, dict):
        for name, part in value.items():
            below = field_of(schema, name)
            if below is not None and (path or name != "metadata"):
                before = old.get(name, MISSING) if isinstance(old, Mapping) else MISSING
                yield from checks(part, below, f"{path}.{name}" if path else name, before)
    elif isinstance(value, list) and (each := items(schema)) is not None:
        known = by_key(old, schema)
        for index, item in enumerate(value):
            before = known.get(key_of(item, schema), MISSING) if known else MISSING
            yield from checks(item, each, f"{path}[{index}]", before)


def _check(rule: Mapping[str, Any], value: Any, schema: Schema, path: str, more: Mapping[str, Any]) -> Check:
    return Check(
        rule["rule"],
        path,
        {"self": escaped(value, schema), **more},
        schema.get("type") or kind_of(value),
        rule.get("message") or "",
        rule.get("messageExpression") or "",
        rule.get("reason") or "FieldValueInvalid",
        rule.get("fieldPath") or "",
    )


def escaped(value: Any, schema: Schema) -> Any:
    """With names that an expression can write: `a-b` is `a__dash__b`, `namespace` is `__namespace__`."""
    if isinstance(value, dict):
        named, others = properties(schema), additional(schema)
        return {
            (_escape(name) if name in named else name): escaped(part, named.get(name) or others or {})
            for name, part in value.items()
        }
    if isinstance(value, list):
        each = items(schema) or {}
        return [escaped(item, each) for item in value]
    return value


def _escape(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    shown = name.replace("__", "__underscores__").replace(".", "__dot__").replace("-", "__dash__")
    return shown.replace("/", "__slash__")


# Definitions


def check(schema: Schema, path: str) -> list[Cause]:
    """What is wrong with a schema's own rules."""
    causes: list[Cause] = []
    for index, rule in enumerate(schema.get(RULES) or ()):
        causes += _definition(rule, schema, f"{path}.{RULES}[{index}]")
    return causes


def _definition(rule: Mapping[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    expression, transition = rule.get("rule") or "", bool(_OLD.search(rule.get("rule") or ""))
    if not expression.strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    if rule.get("optionalOldSelf"):
        yield forbidden(f"{path}.optionalOldSelf", "this server has oldSelf on updates only")
    names = ["self", "oldSelf"] if transition else ["self"]
    yield from _compiles(expression, names, ["bool"], f"{path}.rule")
    if rule.get("messageExpression"):
        yield from _compiles(rule["messageExpression"], names, ["string"], f"{path}.messageExpression")
    if "\n" in expression and not rule.get("message"):
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if rule.get("fieldPath") and not _leads_somewhere(rule["fieldPath"], schema):
        yield invalid(f"{path}.fieldPath", rule["fieldPath"], "fieldPath must be a valid path")


def _compiles(expression: str, names: Sequence[str], result: Sequence[str], path: str) -> Iterator[Cause]:
    from kubeapi import cel  # the hub's: a node has no use for it

    try:
        cel.compile(expression, names, result)
    except cel.CelError as error:
        yield invalid(path, expression, str(error))


def _leads_somewhere(path: str, schema: Schema) -> bool:
    if not _FIELD_PATH.fullmatch(path):
        return False
    for name in re.findall(r"\.([-\w]+)|\['([^']*)'\]", path):
        below = field_of(schema, name[0] or name[1])
        if below is None:
            return False
        schema = below
    return True
