"""Query parameters become typed options here (pure). Unknown ones are ignored, as the reference does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kubeapi import errors
from kubeapi.numbers import decimal
from kubeapi.server import continuation
from kubeapi.server.continuation import Continuation

Query = Mapping[str, str]

DEFAULT_WATCH_SECONDS = 1800
"""A watch that asked for no timeout ends after this, so that clients spread over restarted servers again."""
MAX_WATCH_SECONDS = 24 * 3600


class Match(Enum):
    NEWEST = ""
    EXACT = "Exact"
    NOT_OLDER_THAN = "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    """0 = all."""
    resume: Continuation | None = None
    revision: int = 0
    """With EXACT: as it was then. With NOT_OLDER_THAN: at least. 0 = whatever there is."""
    match: Match = Match.NEWEST


@dataclass(frozen=True, slots=True)
class WatchOptions:
    label_selector: str = ""
    field_selector: str = ""
    after: int = 0
    """0 = begin with what exists now, as ADDED events."""
    timeout_seconds: float = DEFAULT_WATCH_SECONDS
    bookmarks: bool = False
    initial_events: bool = False
    """Existing objects first, then a bookmark that says so (a WatchList)."""


class FieldValidation(Enum):
    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    manager: str = ""
    """As asked for; empty = it is left to us."""
    force: bool | None = None
    """Of an apply: also what others own. None = not said."""


def is_watch(query: Query) -> bool:
    return flag(query, "watch")


def flag(query: Query, name: str) -> bool:
    """As Go reads it: present and neither empty, `0` nor `false`."""
    return query.get(name, "").lower() not in ("", "0", "f", "false")


def integer(query: Query, name: str) -> int | None:
    """Raises ApiError 400."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        value = int(text)
    except ValueError as error:
        raise errors.bad_request(f'{name}: strconv.ParseInt: parsing "{text}": invalid syntax') from error
    if abs(value) >= 1 << 63:
        raise errors.bad_request(f'{name}: strconv.ParseInt: parsing "{text}": value out of range')
    return value


def list_options(query: Query) -> ListOptions:
    """Raises ApiError 400."""
    revision, match = _revision(query), _match(query)
    token = query.get("continue", "")
    if token and revision:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if query.get("resourceVersionMatch") and not query.get("resourceVersion"):
        raise errors.bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match is Match.EXACT and not revision:
        raise errors.bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
    if match is Match.NEWEST and revision:
        match = Match.NOT_OLDER_THAN
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=max(0, integer(query, "limit") or 0),
        resume=_resume(token) if token else None,
        revision=revision,
        match=match,
    )


def watch_options(query: Query) -> WatchOptions:
    """Raises ApiError 400, 422."""
    initial = flag(query, "sendInitialEvents")
    if initial and _match(query) is not Match.NOT_OLDER_THAN:
        raise errors.bad_request("sendInitialEvents requires resourceVersionMatch=NotOlderThan")
    if query.get("resourceVersionMatch") and not query.get("sendInitialEvents"):
        raise errors.bad_request("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    asked = integer(query, "timeoutSeconds") or DEFAULT_WATCH_SECONDS
    return WatchOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        after=0 if initial else _revision(query),
        timeout_seconds=float(min(max(asked, 1), MAX_WATCH_SECONDS)),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=initial,
    )


def write_options(query: Query, dry_run: str | None = None) -> WriteOptions:
    """`dry_run` is what the body said, where it has such a field. Raises ApiError 400."""
    asked = dry_run if dry_run is not None else query.get("dryRun", "")
    if asked not in ("", "All"):
        raise errors.bad_request(f'dryRun: Unsupported value: "{asked}": supported values: "All"')
    validation = query.get("fieldValidation", "") or FieldValidation.WARN.value
    force = flag(query, "force") if query.get("force") else None
    try:
        return WriteOptions(asked == "All", FieldValidation(validation), query.get("fieldManager", ""), force)
    except ValueError as error:
        supported = ", ".join(f'"{item.value}"' for item in FieldValidation)
        raise errors.bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: {supported}'
        ) from error


def _revision(query: Query) -> int:
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    revision = decimal(text)
    if revision is None:
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": not a resource version of this server')
    return revision


def _match(query: Query) -> Match:
    try:
        return Match(query.get("resourceVersionMatch", ""))
    except ValueError as error:
        value = query["resourceVersionMatch"]
        raise errors.bad_request(
            f'resourceVersionMatch: Unsupported value: "{value}": supported values: "Exact", "NotOlderThan", ""'
        ) from error


def _resume(token: str) -> Continuation:
    try:
        return continuation.decode(token)
    except continuation.BadToken as error:
        raise errors.bad_request(str(error)) from error
