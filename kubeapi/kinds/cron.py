"""Whether a CronJob's schedule can be read, in the reference's words (github.com/robfig/cron/v3). Pure."""

from __future__ import annotations

import re

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: at for at, name in enumerate(_DAY_NAMES)}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


_EVERY = "@every "
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT, _UNIT = r"[0-9]{1,19}(?:\.[0-9]{0,19})?|\.[0-9]{1,19}", "|".join(sorted(_SECONDS, key=len, reverse=True))
_DURATION = re.compile(rf"[-+]?((?:{_AMOUNT})(?:{_UNIT}))+")
_LONGEST = (2**63 - 1) / 1e9
"""Seconds in Go's time.Duration."""


class CronError(ValueError):
    """The message is the reference's."""


def check(schedule: str) -> None:
    """Raises CronError."""
    if schedule.startswith("@"):
        if every(schedule) is None and schedule not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {schedule}")
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        listed = " ".join(fields)
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{listed}]")
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            _check_part(part, low, high, names)


def every(schedule: str) -> int | None:
    """The seconds of `@every 1h30m`, at least one; None: it is no such schedule. Raises CronError."""
    if not schedule.startswith(_EVERY):
        return None
    text = schedule.removeprefix(_EVERY)
    if not _DURATION.fullmatch(text):
        what = "missing unit in duration" if re.fullmatch(r"[-+]?[0-9.]+", text) else "invalid duration"
        raise CronError(f'failed to parse duration {schedule}: time: {what} "{text}"')
    parts = re.findall(rf"({_AMOUNT})({_UNIT})", text)
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    if seconds > _LONGEST:
        raise CronError(f'failed to parse duration {schedule}: time: invalid duration "{text}"')
    return 1 if text.startswith("-") else max(int(seconds), 1)


def _check_part(part: str, low: int, high: int, names: dict[str, int]) -> None:
    span, slash, step = part.partition("/")
    if "/" in step:
        raise CronError(f"too many slashes: {part}")
    if slash and _number(step, {}) == 0:
        raise CronError(f"step of range should be a positive number: {part}")
    if span in ("*", "?"):
        return
    start_text, dash, end_text = span.partition("-")
    if "-" in end_text:
        raise CronError(f"too many hyphens: {part}")
    start = _number(start_text, names)
    end = _number(end_text, names) if dash else high if slash else start
    if start < low:
        raise CronError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise CronError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {part}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > 9:  # no field of a schedule goes so far
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    return int(text)
