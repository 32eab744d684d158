"""The pieces of a conversation with a program or a console: a byte that says what it is, and its data.

The numbers are those of Kubernetes' `v5.channel.k8s.io`, so that a hub passes most of them on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import orjson

from edgelink.streams import CHUNK

_OPTION = 4000
"""Characters of one option's value at most (`edgelink.wire` takes 4096)."""


class Way(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    RESULT = 3
    """`{"code": <exit code>}`, the last piece."""
    RESIZE = 4
    """`{"Width": …, "Height": …}`"""
    CLOSE = 255
    """The data is one byte: the way on which nothing more comes."""


def packed(way: int, data: bytes) -> Iterator[bytes]:
    """Pieces that each fit into one message."""
    size = CHUNK - 1
    return (bytes((way,)) + data[at : at + size] for at in range(0, max(len(data), 1), size))


def unpacked(piece: bytes) -> tuple[int, bytes]:
    """Way and data."""
    return piece[0], piece[1:]


def packed_command(argv: Sequence[str]) -> dict[str, str]:
    """As options of an `open`, whose values are short."""
    text = orjson.dumps(argv).decode()
    return {f"command.{at // _OPTION}": text[at : at + _OPTION] for at in range(0, len(text), _OPTION)}


def unpacked_command(options: Mapping[str, str]) -> list[str]:
    """Empty for what is no command."""
    text = ""
    for n in range(len(options)):
        text += options.get(f"command.{n}", "")
    try:
        argv = orjson.loads(text)
    except ValueError:
        return []
    return argv if isinstance(argv, list) and all(type(word) is str for word in argv) else []


def result(code: int) -> bytes:
    return bytes((Way.RESULT,)) + orjson.dumps({"code": code})


def result_code(data: bytes) -> int:
    """255 for what is no result."""
    try:
        code = orjson.loads(data)["code"]
    except (ValueError, TypeError, KeyError):
        return 255
    return code if type(code) is int else 255


def size_of(data: bytes) -> tuple[int, int] | None:
    """Rows and columns of a RESIZE; None for what is no size."""
    try:
        size = orjson.loads(data)
        rows, columns = size["Height"], size["Width"]
    except (ValueError, TypeError, KeyError):
        return None
    whole = type(rows) is int and type(columns) is int and 0 < rows < 65536 and 0 < columns < 65536
    return (rows, columns) if whole else None
