"""API errors: exactly the `Status` objects a Kubernetes API server answers with (tests/data/kubernetes/api)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong. `message` is without the field's path: `Invalid value: "2": must be …`."""

    reason: str
    """`FieldValueInvalid`, `FieldValueRequired`, `FieldValueDuplicate`, `FieldValueForbidden`, …"""
    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        data = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in data.items() if value}


class ApiError(Exception):
    """A failure that a client sees. `details` is None where the server leaves it out, `{}` where it writes it empty."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata

    def to_dict(self) -> dict[str, Any]:
        """The `Status` object, keys in the server's order."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata or {}),
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            status["details"] = dict(self.details)
        status["code"] = self.code
        return status

    @property
    def retry_after(self) -> int | None:
        """Seconds, for the Retry-After header."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None


def _subject(name: str, resource: str, group: str = "", **more: Any) -> dict[str, Any]:
    """`kind` here is the resource (`pods`) or the kind (`Pod`), as the server has it for that error."""
    data = {"name": name, "group": group, "kind": resource} | more
    return {key: value for key, value in data.items() if value}


def qualified(resource: str, group: str = "") -> str:
    """`pods`, `leases.coordination.k8s.io`."""
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, name: str, group: str = "") -> ApiError:
    message = f'{qualified(resource, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _subject(name, resource, group))


def path_not_found() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: str, name: str, group: str = "") -> ApiError:
    message = f'{qualified(resource, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _subject(name, resource, group))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, name: str, message: str = STALE, group: str = "") -> ApiError:
    """A failed compare-and-swap by default. `resource` is the resource (`pods`)."""
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {message}'
    return ApiError(409, "Conflict", text, _subject(name, resource, group))


def uid_mismatch(kind: str, name: str, wanted: str, found: str) -> ApiError:
    """A delete whose precondition names another UID. `kind` is the kind (`Pod`), as the server says it here."""
    return conflict(
        kind,
        name,
        f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated",
    )


def version_mismatch(kind: str, name: str, wanted: str, found: str) -> ApiError:
    """A delete whose precondition names another resourceVersion."""
    return conflict(
        kind,
        name,
        f"the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record "
        f"({found}). The object might have been modified",
    )


def invalid(kind: str, name: str, causes: Iterable[Cause], group: str = "") -> ApiError:
    """422: every field that is wrong, in the order found; what is said twice is said once."""
    unique = list(dict.fromkeys(causes))
    parts = list(dict.fromkeys(map(str, unique)))
    text = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    label = qualified(kind, group)
    details = _subject(name, kind, group, causes=[cause.to_dict() for cause in unique])
    return ApiError(422, "Invalid", f'{label} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(
    resource: str, name: str, message: str, group: str = "", causes: Sequence[Mapping[str, Any]] = ()
) -> ApiError:
    """Refused by admission or authorisation: `pods "p" is forbidden: …`."""
    label = qualified(resource, group)
    text = f'{label} "{name}" is forbidden: {message}' if name else f"{label} is forbidden: {message}"
    return ApiError(403, "Forbidden", text, _subject(name, resource, group, causes=list(causes)))


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


_REPRESENTATIONS = (
    "application/json, application/yaml, application/vnd.kubernetes.protobuf, "
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)


def not_acceptable(representations: str = _REPRESENTATIONS) -> ApiError:
    message = f"406: Not Acceptable\n\nAvailable representations: {representations}"
    return ApiError(406, "NotAcceptable", message, {})


def unsupported_media(accepted: Iterable[str] = ()) -> ApiError:
    """`accepted`: media types to name, where the server names them."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return ApiError(415, "UnsupportedMediaType", message if listed else "415: Unsupported Media Type", {})


def too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def gone(asked: int, oldest: int) -> ApiError:
    """410: history from revision `asked` is compacted away; `oldest` is where it begins."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({oldest})")


CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def continue_expired(token: str) -> ApiError:
    """410 for a list's `continue`; `token` goes on inconsistently, for those who want that."""
    return ApiError(410, "Expired", CONTINUE_EXPIRED, metadata={"continue": token})


def too_large_version(asked: int, current: int) -> ApiError:
    """504: the client has seen a revision that this store does not have (yet)."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details)


def too_many_requests(message: str, retry_after: int = 1) -> ApiError:
    """`retry_after` in seconds."""
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})


def timeout(message: str) -> ApiError:
    """504: what was asked for took too long."""
    return ApiError(504, "Timeout", f"Timeout: {message}")


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def internal(message: str) -> ApiError:
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, {"causes": [{"message": message}]})


def success(code: int = 200, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The `Status` of a success (eviction, deletion)."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = dict(details)
    return status | {"code": code}
