"""A container's log: which container and what part of it is asked for (pure), and who delivers it (`LogSource`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kubeapi import errors
from kubeapi.clock import parse_timestamp
from kubeapi.core import Pod
from kubeapi.errors import Cause
from kubeapi.server import queries


@dataclass(frozen=True, slots=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    """Of the run before the last restart."""
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    """RFC 3339."""
    limit_bytes: int | None = None

    def to_mapping(self) -> dict[str, str]:
        """With the API's names, unset ones left out: how the options travel to a node."""
        data: dict[str, str | None] = {
            "follow": "true" if self.follow else None,
            "previous": "true" if self.previous else None,
            "timestamps": "true" if self.timestamps else None,
            "tailLines": _text(self.tail_lines),
            "sinceSeconds": _text(self.since_seconds),
            "sinceTime": self.since_time,
            "limitBytes": _text(self.limit_bytes),
        }
        return {name: value for name, value in data.items() if value is not None}


class LogSource(Protocol):
    def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log's bytes as they come; ends at its end, or with the consumer when following.

        Raises ApiError, while iterating, when there is nothing to read from: the node is offline (503), the container
        has not started (400).
        """


class NoLogs:
    """Where no node can be asked."""

    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        raise errors.unavailable("this server has no connection to nodes, so there are no logs to read")
        yield b""


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def parse(query: Mapping[str, str], pod: str) -> LogOptions:
    """Raises ApiError 400, 422."""
    options = LogOptions(
        follow=queries.flag(query, "follow"),
        previous=queries.flag(query, "previous"),
        timestamps=queries.flag(query, "timestamps"),
        tail_lines=queries.integer(query, "tailLines"),
        since_seconds=queries.integer(query, "sinceSeconds"),
        since_time=query.get("sinceTime") or None,
        limit_bytes=queries.integer(query, "limitBytes"),
    )
    if causes := list(_causes(options)):
        raise errors.invalid("PodLogOptions", pod, causes)
    return options


def _causes(options: LogOptions) -> list[Cause]:
    causes = []
    if options.tail_lines is not None and options.tail_lines < 0:
        message = f"Invalid value: {options.tail_lines}: must be greater than or equal to 0"
        causes.append(Cause("FieldValueInvalid", message, "tailLines"))
    if options.limit_bytes is not None and options.limit_bytes < 1:
        message = f"Invalid value: {options.limit_bytes}: must be greater than 0"
        causes.append(Cause("FieldValueInvalid", message, "limitBytes"))
    if options.since_seconds is not None and options.since_time is not None:
        causes.append(
            Cause("FieldValueForbidden", "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    if options.since_seconds is not None and options.since_seconds < 1:
        message = f"Invalid value: {options.since_seconds}: must be greater than 0"
        causes.append(Cause("FieldValueInvalid", message, "sinceSeconds"))
    if options.since_time is not None and not _is_time(options.since_time):
        causes.append(
            Cause("FieldValueInvalid", f'Invalid value: "{options.since_time}": must be RFC 3339', "sinceTime")
        )
    return causes


def _is_time(text: str) -> bool:
    try:
        return parse_timestamp(text).tzinfo is not None
    except ValueError:
        return False


def container_of(pod: Pod, asked: str) -> str:
    """The container whose log is meant. Raises ApiError 400 in the reference's words."""
    name = pod.metadata.name
    main = [item.name for item in pod.spec.containers]
    init = [item.name for item in pod.spec.init_containers]
    if not asked:
        if len(main) == 1:
            return main[0]
        message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
        if init:
            message += f" or one of the init containers: [{' '.join(init)}]"
        raise errors.bad_request(message)
    if asked not in (*main, *init):
        raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    return asked
