"""Wire version 1: frozen messages ⇄ bytes (docs/adr/0002-wire-protocol.md).

Everything from the network becomes a typed message here or a `WireError`, never anything else; inside, messages are
trusted. Version 1 is frozen by the golden files in tests/data/wire/v1: fields may be added, never changed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from edgelink.api import Cursor, Item, ItemKey, NodeFacts, Removal, Removed, StreamRequest, UpItem
from edgelink.messages import (
    Ack,
    Alive,
    Batch,
    Cancel,
    Credit,
    Data,
    Delta,
    End,
    Hello,
    Lease,
    Message,
    Open,
    Part,
    Refused,
    UpAck,
    Welcome,
    Who,
    Will,
)

VERSION: Final = 1
"""In every envelope of this format. A later one comes beside it: greetings stay in version 1 for ever, what follows is
in the version that the two have agreed on."""
VERSIONS: Final = (VERSION,)
"""What this program speaks."""
MAX_PAYLOAD: Final = 256 * 1024
"""Bytes of one MQTT payload; longer messages travel in parts (`edgelink.parts`)."""
_MAX_TEXT: Final = 4096
_MAX_NUMBER: Final = 2**63 - 1


def agreed(offered: Iterable[int], spoken: Iterable[int]) -> int | None:
    """The newest version that both sides speak."""
    return max(set(offered) & set(spoken), default=None)


class WireError(Exception):
    """A payload that is not a message of ours. `kind` is short and of few values, for counting."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """One envelope. Values of items are passed through as they are: they must be JSON."""
    kind, session, n, body = _write(message)
    envelope: dict[str, Any] = {"v": VERSION, "t": kind, "s": session}
    if n is not None:
        envelope["n"] = n
    envelope["b"] = body
    return orjson.dumps(envelope)


def _write(m: Message) -> tuple[str, str, int | None, dict[str, Any]]:
    match m:
        case Hello():
            f = m.facts
            facts = {"store": f.store_id, "boot": f.boot_id, "cursor": _write_cursor(f.cursor), "high": f.high}
            return "hello", "", None, {"nonce": m.nonce, "versions": m.versions, **facts, "acked": f.acked}
        case Welcome():
            return "welcome", m.session, None, {
                "nonce": m.nonce, "version": m.version, "hub": m.hub, "up": m.up,
            }  # fmt: skip
        case Refused():
            return "refused", "", None, {"nonce": m.nonce, "reason": m.reason[:_MAX_TEXT]}
        case Who():
            return "who", m.session, None, {}
        case Delta():
            return "delta", m.session, m.n, _write_delta(m)
        case Ack():
            return "ack", m.session, m.n, {"gap": m.gap} if m.gap else {}
        case Batch():
            return "batch", m.session, None, {"prev": m.prev, "high": m.high, "items": _write_items(m.items)}
        case UpAck():
            return "upack", m.session, m.n, {}
        case Lease():
            return "lease", m.session, None, {
                "cursor": _write_cursor(m.cursor), "digest": m.digest, "up": m.up,
            }  # fmt: skip
        case Alive():
            return "alive", m.session, None, {}
        case Will():
            return "will", m.connection, None, {}
        case _:
            return _write_stream(m)


def _write_stream(m: Open | Data | End | Credit | Cancel | Part) -> tuple[str, str, int | None, dict[str, Any]]:
    match m:
        case Open(session, id, request, credit):
            asked = {"kind": request.kind, "pod": request.pod_uid, "container": request.container}
            options = dict(request.options)
            return "open", session, None, {"id": id, **asked, "options": options, "credit": credit}
        case Data(session, n, chunk):
            return "data", session, n, {"b64": base64.b64encode(chunk).decode()}
        case End(session, n, error, refused):
            return "end", session, n, {"error": error[:_MAX_TEXT], "refused": refused}
        case Credit(session, size):
            return "credit", session, None, {"bytes": size}
        case Cancel(session):
            return "cancel", session, None, {}
        case Part(session, id, i, of, data):
            return "part", session, i, {"id": id, "of": of, "b64": base64.b64encode(data).decode()}


def _write_cursor(cursor: Cursor | None) -> dict[str, Any] | None:
    return None if cursor is None else {"hub": cursor.hub_store, "rev": cursor.revision}


def _write_key(key: ItemKey) -> dict[str, Any]:
    return {"kind": key.kind, "ns": key.namespace, "name": key.name}


def _write_delta(m: Delta) -> dict[str, Any]:
    body: dict[str, Any] = {"prev": m.prev, "hub": m.hub, "rev": m.rev}
    body["put"] = [
        {**_write_key(i.key), "uid": i.uid, "rev": i.revision, "obj": orjson.Fragment(i.value)} for i in m.put
    ]
    body["removed"] = [{**_write_key(r.key), "uid": r.uid, "why": r.why.value} for r in m.removed]
    if m.complete:
        body |= {"complete": True, "absence": m.absence, "digest": m.digest}
    return body


def _write_items(items: Iterable[UpItem]) -> list[dict[str, Any]]:
    return [{"n": i.number, "lane": i.lane, "subject": i.subject, "v": orjson.Fragment(i.value)} for i in items]


# --- reading ---------------------------------------------------------------------------------------------------------


def decode(payload: bytes, limit: int = MAX_PAYLOAD) -> Message:
    """Parse one payload of at most `limit` bytes. Raises WireError and nothing else."""
    if len(payload) > limit:
        raise WireError("oversized", f"{len(payload)} bytes, at most {limit} are taken")
    try:
        envelope = _Fields(orjson.loads(payload))
    except ValueError as error:
        raise WireError("malformed", f"not JSON: {error}") from error
    if (version := envelope.number("v")) != VERSION:
        raise WireError("version", f"wire version {version} was not agreed")
    if envelope.get("seal") is not None:
        raise WireError("sealed", "sealed bodies are not part of version 1")
    kind = envelope.text("t")
    reader = _READERS.get(kind)
    if reader is None:
        raise WireError("type", f"unknown message type {kind[:40]!r}")
    return reader(envelope, _Fields(envelope.get("b")))


class _Fields:
    """Strict access to a JSON object's fields; unknown ones are ignored."""

    __slots__ = ("_fields",)

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise WireError("malformed", "a JSON object was expected")
        self._fields = value

    def get(self, name: str) -> Any:
        return self._fields.get(name)

    def text(self, name: str, default: str | None = None, most: int = _MAX_TEXT) -> str:
        value = self._fields.get(name, default)
        if type(value) is not str or len(value) > most:
            raise WireError("malformed", f"`{name}` must be a text of at most {most} characters")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        value = self._fields.get(name, default)
        if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
            raise WireError("malformed", f"`{name}` must be a number from 0 to 2^63-1")
        return value

    def flag(self, name: str) -> bool:
        value = self._fields.get(name, False)
        if type(value) is not bool:
            raise WireError("malformed", f"`{name}` must be true or false")
        return value

    def list(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise WireError("malformed", f"`{name}` must be a list")
        return value

    def json(self, name: str) -> bytes:
        """The field's value as JSON bytes."""
        if name not in self._fields:
            raise WireError("malformed", f"`{name}` is missing")
        try:
            return orjson.dumps(self._fields[name])
        except (TypeError, ValueError) as error:  # orjson reads deeper nesting than it writes
            raise WireError("malformed", f"`{name}`: {error}") from error

    def binary(self, name: str) -> bytes:
        try:
            return base64.b64decode(self.text(name, most=_MAX_NUMBER), validate=True)
        except ValueError as error:
            raise WireError("malformed", f"`{name}` is not base64: {error}") from error

    def key(self) -> ItemKey:
        return ItemKey(self.text("kind"), self.text("ns"), self.text("name"))


def _token(envelope: _Fields) -> str:
    token = envelope.text("s", most=128)
    if not token:
        raise WireError("malformed", "`s` must name a session")
    return token


def _read_cursor(value: object) -> Cursor | None:
    if value is None:
        return None
    fields = _Fields(value)
    return Cursor(fields.text("hub"), fields.number("rev"))


def _read_hello(_: _Fields, b: _Fields) -> Hello:
    versions = tuple(v for v in b.list("versions") if type(v) is int)
    cursor = _read_cursor(b.get("cursor"))
    facts = NodeFacts(b.text("store"), b.text("boot"), cursor, b.number("high"), b.number("acked", 0))
    return Hello(b.text("nonce", most=128), versions[:64], facts)


def _read_welcome(e: _Fields, b: _Fields) -> Welcome:
    return Welcome(_token(e), b.text("nonce"), b.number("version"), b.text("hub"), b.number("up"))


def _read_delta(e: _Fields, b: _Fields) -> Delta:
    n, prev = e.number("n"), b.number("prev")
    if prev >= n:
        raise WireError("malformed", f"delta {n} names {prev} as its predecessor")
    complete = b.flag("complete")
    return Delta(
        _token(e), n, prev, b.text("hub"), b.number("rev"),
        put=tuple(_read_item(_Fields(i)) for i in b.list("put")),
        removed=tuple(_read_removed(_Fields(r)) for r in b.list("removed")),
        complete=complete,
        absence=complete and b.flag("absence"),
        digest=b.text("digest", "") if complete else "",
    )  # fmt: skip


def _read_item(b: _Fields) -> Item:
    return Item(b.key(), b.text("uid"), b.number("rev"), b.json("obj"))


def _read_removed(b: _Fields) -> Removed:
    try:
        return Removed(b.key(), b.text("uid"), Removal(b.text("why")))
    except ValueError as error:
        raise WireError("malformed", f"`why`: {error}") from error


def _read_batch(e: _Fields, b: _Fields) -> Batch:
    items = tuple(_read_up_item(_Fields(i)) for i in b.list("items"))
    batch = Batch(_token(e), b.number("prev"), b.number("high"), items)
    numbers = [batch.prev, *(i.number for i in items)]
    if not items or numbers != sorted(set(numbers)) or numbers[-1] != batch.high:
        raise WireError("malformed", "a batch's numbers must rise from `prev` to `high`")
    return batch


def _read_up_item(b: _Fields) -> UpItem:
    lane = b.text("lane")
    if lane not in ("level", "log"):
        raise WireError("malformed", f"unknown lane {lane[:40]!r}")
    return UpItem(b.number("n"), lane, b.text("subject"), b.json("v"))


def _read_lease(e: _Fields, b: _Fields) -> Lease:
    return Lease(_token(e), _read_cursor(b.get("cursor")), b.text("digest"), b.number("up"))


def _read_open(e: _Fields, b: _Fields) -> Open:
    options = _Fields(b.get("options"))
    named = {name: options.text(name) for name in options._fields}
    request = StreamRequest(b.text("kind"), b.text("pod"), b.text("container"), named)
    stream = b.text("id", most=128)
    if not stream or not stream.isalnum():
        raise WireError("malformed", "`id` must be letters and digits: it becomes part of a topic")
    return Open(_token(e), stream, request, b.number("credit"))


def _read_part(e: _Fields, b: _Fields) -> Part:
    return Part(_token(e), b.text("id", most=128), e.number("n"), b.number("of"), b.binary("b64"))


_READERS: Final[dict[str, Callable[[_Fields, _Fields], Message]]] = {
    "hello": _read_hello,
    "welcome": _read_welcome,
    "refused": lambda _, b: Refused(b.text("nonce"), b.text("reason")),
    "who": lambda e, _: Who(_token(e)),
    "delta": _read_delta,
    "ack": lambda e, b: Ack(_token(e), e.number("n"), b.number("gap", 0)),
    "batch": _read_batch,
    "upack": lambda e, _: UpAck(_token(e), e.number("n")),
    "lease": _read_lease,
    "alive": lambda e, _: Alive(_token(e)),
    "will": lambda e, _: Will(_token(e)),
    "open": _read_open,
    "data": lambda e, b: Data(_token(e), e.number("n"), b.binary("b64")),
    "end": lambda e, b: End(_token(e), e.number("n"), b.text("error", ""), b.flag("refused")),
    "credit": lambda e, b: Credit(_token(e), b.number("bytes")),
    "cancel": lambda e, _: Cancel(_token(e)),
    "part": _read_part,
}
