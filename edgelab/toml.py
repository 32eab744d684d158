"""Writes the TOML that the daemons' settings are read from (the standard library only reads it)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

Value = str | bool | int | float | Sequence[str]
Table = Mapping[str, "Value | Table"]


def dumps(table: Table) -> str:
    """Plain values first, then one `[section]` for each nested table; None is not a TOML value."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> list[str]:
    plain = [f"{key} = {_value(v)}" for key, v in table.items() if not isinstance(v, Mapping)]
    nested = [
        line
        for key, inner in table.items()
        if isinstance(inner, Mapping)
        for line in ("", f"[{'.'.join((*path, key))}]", *_lines(inner, (*path, key)))
    ]
    return plain + nested


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(_value(item) for item in value)}]"
