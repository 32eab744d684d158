"""Ages and durations as kubectl prints them (k8s.io/apimachinery/pkg/util/duration)."""

from __future__ import annotations

from datetime import datetime

from kubeapi.clock import parse_timestamp

UNKNOWN = "<unknown>"


def age(created: str | None, now: datetime) -> str:
    """`3s`, `5m12s`, `2d3h`; `<unknown>` without a timestamp."""
    if not created:
        return UNKNOWN
    try:
        return human(int((now - parse_timestamp(created)).total_seconds()))
    except (ValueError, TypeError):
        return UNKNOWN


def human(seconds: int) -> str:
    """At most two units, fewer digits the longer it is."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, lesser: str) -> str:
    return f"{first}{unit}{second}{lesser}" if second else f"{first}{unit}"
