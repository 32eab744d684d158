"""Name rules in the API server's words (k8s.io/apimachinery/pkg/util/validation): functions return what is wrong."""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"


def _pattern_error(message: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"


_LABEL_ERROR = _pattern_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_ERROR = _pattern_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_QUALIFIED_ERROR = _pattern_error(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
_PREFIX_HINT = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_LABEL_VALUE_ERROR = _pattern_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_ERROR = _pattern_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _length(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def dns_label(text: str) -> list[str]:
    return _length(text, 63) + ([] if _matches(_LABEL, text) else [_LABEL_ERROR])


def dns_subdomain(text: str) -> list[str]:
    return _length(text, 253) + ([] if _matches(_SUBDOMAIN, text) else [_SUBDOMAIN_ERROR])


def qualified_name(text: str) -> list[str]:
    """A label or annotation key, a resource name: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    errors = []
    if "/" in prefix:
        return [f"a qualified name {_QUALIFIED_ERROR} {_PREFIX_HINT}"]
    if slash:
        problems = dns_subdomain(prefix) if prefix else ["must be non-empty"]
        errors = [f"prefix part {problem}" for problem in problems]
    if not name:
        errors.append("name part must be non-empty")
    errors += [f"name part {problem}" for problem in _length(name, 63)]
    if not _matches(_QUALIFIED, name):
        errors.append(f"name part {_QUALIFIED_ERROR}")
    return errors


def label_value(text: str) -> list[str]:
    return _length(text, 63) + ([] if _matches(_LABEL_VALUE, text) else [_LABEL_VALUE_ERROR])


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    errors = _length(text, 253)
    if not _matches(_CONFIG_KEY, text):
        return [*errors, _CONFIG_KEY_ERROR]
    if text == ".":
        return [*errors, "must not be '.'"]
    if text.startswith(".."):
        return [*errors, "must not be '..'" if text == ".." else "must not start with '..'"]
    return errors


def env_name(text: str) -> list[str]:
    if text and all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def path_segment(text: str) -> list[str]:
    """A name that need only be one part of a path (RBAC): `system:node-reader`."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]
