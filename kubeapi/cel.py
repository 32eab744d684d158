"""The Common Expression Language as Kubernetes speaks it: `compile(expression) -> Program`, `program.evaluate(...)`.

The one door to the CEL library (docs/adr/0009-admission.md says why that one). What an expression can cost is bounded
here by its length, and by the runtime's budget of 10,000 iterations; it is not bounded in memory or time, since an
expression can double a text many times over: whoever evaluates what a stranger wrote does it in a process of its own
(`kubeapi.server.evaluator`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs come without the py.typed marker

from kubeapi import cellibrary as lib

MAX_EXPRESSION = 10 * 1024
"""Characters. The reference has no such limit; its longest expressions in use have some hundreds."""

_DYN, _BOOL, _INT, _DOUBLE, _STRING = (
    cel.Type.DYN,
    cel.Type.BOOL,
    cel.Type.INT,
    cel.Type.DOUBLE,
    cel.Type.STRING,
)
_MAP = cel.Type.Map(_STRING, _DYN)
_LIST = cel.Type.List(_DYN)
_EXTENSIONS = """
name: kubernetes
extensions:
- name: lists
- name: math
- name: optional
- name: sets
- name: strings
  version: 2
- name: two-var-comprehensions
"""


class CelError(Exception):
    """Of an expression. The message is for whoever wrote it."""


class CompileError(CelError):
    """It is no expression, names what is not there, or its types do not fit."""


class EvaluationError(CelError):
    """It has no value for these inputs."""


class BudgetExceeded(EvaluationError):
    """It took more than an expression may."""


@dataclass(frozen=True, slots=True)
class Program:
    expression: str
    result: str
    """The type of its values, as the checker knows it: `bool`, `string`, `int`…, `dyn`."""
    _compiled: Any = field(repr=False, compare=False)

    def evaluate(self, bindings: Mapping[str, Any]) -> Any:
        """The value, as plain Python. `bindings` are plain JSON values, one for each declared variable.

        Raises EvaluationError.
        """
        try:
            value = self._compiled.eval(data=dict(bindings))
            if value.type() == cel.Type.ERROR:
                raise _evaluation_error(str(value.value()))
            return value.plain_value()
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise _evaluation_error(str(error)) from error


def compile(expression: str, variables: Collection[str] = (), result: Collection[str] = ()) -> Program:
    """`variables` are the names that it may use, of any type. `result`: the types that it may have; empty = any.

    Raises CompileError.
    """
    if len(expression) > MAX_EXPRESSION:
        raise CompileError(f"the expression is longer than {MAX_EXPRESSION} characters")
    if not expression.strip():
        raise CompileError("expression is not specified")
    return _compiled(expression, tuple(sorted(variables)), tuple(result))


@lru_cache(maxsize=1024)
def _compiled(expression: str, variables: tuple[str, ...], result: tuple[str, ...]) -> Program:
    try:
        compiled = _environment(variables).compile(expression)
    except (RuntimeError, TypeError, ValueError) as error:
        raise CompileError(f"compilation failed: {_without_status(str(error))}") from error
    found = str(compiled.return_type().name()).lower()
    if result and found not in (*result, "dyn"):
        raise CompileError(f"must evaluate to {' or '.join(result)}")
    return Program(expression, found, compiled)


@lru_cache(maxsize=64)
def _environment(variables: tuple[str, ...]) -> Any:
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=dict.fromkeys(variables, _DYN),
        functions=_FUNCTIONS,
    )


def _without_status(text: str) -> str:
    """Without the library's own status words around what it says."""
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text)


_NO_KEY = re.compile(r'Key not found in map : "?(.*?)"?$')
_BUDGET = "operation cancelled: actual cost limit exceeded"


def _evaluation_error(text: str) -> EvaluationError:
    """In the reference's words, where it has words of its own (github.com/google/cel-go/common/types/err.go)."""
    plain = _without_status(text)
    if "Iteration budget exceeded" in plain:
        return BudgetExceeded(_BUDGET)
    if match := _NO_KEY.search(plain):
        return EvaluationError(f"no such key: {match.group(1)}")
    if plain.startswith("No matching overloads found"):
        return EvaluationError("no such overload")
    if plain.startswith("Applying SELECT to non-message type"):
        return EvaluationError("no such key: a field was selected of what has none")
    if match := re.match(r"Index error: index=(-?\d+) size=", plain):
        return EvaluationError(f"index out of bounds: {match.group(1)}")
    return EvaluationError({"divide by zero": "division by zero"}.get(plain, plain))


# The functions of kubeapi.cellibrary, declared


def _declare(name: str, *overloads: tuple[Any, list[Any], Callable[..., Any]], member: bool = True) -> Any:
    return cel.FunctionDecl(name, [_overload(name, item, member) for item in overloads])


def _overload(name: str, declared: tuple[Any, list[Any], Callable[..., Any]], member: bool) -> Any:
    returned, parameters, implementation = declared
    ident = "_".join((name, "member" if member else "global", *(item.name() for item in parameters)))
    return cel.Overload(ident, return_type=returned, parameters=parameters, is_member=member, impl=implementation)


def _parsers(name: str, check: str, parse: Callable[[str], Any], *members: tuple[Any, list[Any], Any]) -> list[Any]:
    """`name(text)`, the like-named methods, and `check(text)`."""
    own = [_overload(name, (_MAP, [_STRING], parse), False), *(_overload(name, item, True) for item in members)]
    return [cel.FunctionDecl(name, own), _declare(check, (_BOOL, [_STRING], lib.holds(parse)), member=False)]


_FUNCTIONS = [
    *_parsers("quantity", "isQuantity", lib.parse_quantity),
    *_parsers("ip", "isIP", lib.parse_ip, (_MAP, [_MAP], lib.cidr_ip)),
    *_parsers("cidr", "isCIDR", lib.parse_cidr),
    *_parsers("url", "isURL", lib.parse_url),
    *_parsers("semver", "isSemver", lib.parse_semver),
    _declare("isGreaterThan", (_BOOL, [_MAP, _MAP], lambda one, two: lib.compare(one, two) > 0)),
    _declare("isLessThan", (_BOOL, [_MAP, _MAP], lambda one, two: lib.compare(one, two) < 0)),
    _declare("compareTo", (_INT, [_MAP, _MAP], lib.compare)),
    _declare("add", (_MAP, [_MAP, _MAP], lib.add), (_MAP, [_MAP, _INT], lib.add)),
    _declare("sub", (_MAP, [_MAP, _MAP], lib.subtract), (_MAP, [_MAP, _INT], lib.subtract)),
    _declare("sign", (_INT, [_MAP], lib.sign)),
    _declare("isInteger", (_BOOL, [_MAP], lib.is_integer)),
    _declare("asInteger", (_INT, [_MAP], lib.as_integer)),
    _declare("asApproximateFloat", (_DOUBLE, [_MAP], lib.as_float)),
    *(_declare(name, (_INT, [_MAP], lib.version_part(i))) for i, name in enumerate(("major", "minor", "patch"))),
    _declare("family", (_INT, [_MAP], lib.family)),
    _declare("isLoopback", (_BOOL, [_MAP], lib.address_is(lambda found: found.is_loopback))),
    _declare("isUnspecified", (_BOOL, [_MAP], lib.address_is(lambda found: found.is_unspecified))),
    _declare("isLinkLocalUnicast", (_BOOL, [_MAP], lib.address_is(lambda found: found.is_link_local))),
    _declare("ip.isCanonical", (_BOOL, [_STRING], lib.is_canonical), member=False),
    _declare("containsIP", (_BOOL, [_MAP, _MAP], lib.contains_ip), (_BOOL, [_MAP, _STRING], lib.contains_ip)),
    _declare("containsCIDR", (_BOOL, [_MAP, _MAP], lib.contains_cidr), (_BOOL, [_MAP, _STRING], lib.contains_cidr)),
    _declare("prefixLength", (_INT, [_MAP], lib.prefix_length)),
    _declare("masked", (_MAP, [_MAP], lib.masked)),
    _declare("getScheme", (_STRING, [_MAP], lib.url_part(lambda parts: parts.scheme))),
    _declare("getHost", (_STRING, [_MAP], lib.url_part(lambda parts: parts.netloc.rpartition("@")[2]))),
    _declare("getHostname", (_STRING, [_MAP], lib.url_part(lib.url_hostname))),
    _declare("getPort", (_STRING, [_MAP], lib.url_part(lib.url_port))),
    _declare("getEscapedPath", (_STRING, [_MAP], lib.url_part(lib.url_path))),
    _declare("getQuery", (cel.Type.Map(_STRING, _LIST), [_MAP], lib.url_part(lib.url_query))),
    _declare("find", (_STRING, [_STRING, _STRING], lib.find)),
    _declare("findAll", (_LIST, [_STRING, _STRING], lib.find_all), (_LIST, [_STRING, _STRING, _INT], lib.find_all)),
    _declare("isSorted", (_BOOL, [_LIST], lib.is_sorted)),
    _declare("sum", (_DYN, [_LIST], lib.total)),
    _declare("min", (_DYN, [_LIST], lib.extreme(min, "min"))),
    _declare("max", (_DYN, [_LIST], lib.extreme(max, "max"))),
]
