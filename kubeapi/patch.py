"""Patches as the API server takes them: content type and body in, the patched object out, with the server's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from kubeapi import fields
from kubeapi.decode import DecodeError, build, load_json, strict_error
from kubeapi.errors import ApiError, bad_request, invalid, too_large, unsupported_media
from kubeapi.jsonpatch import MAX_OPERATIONS, JsonPatchError, MalformedPatch, json_patch, merge_patch
from kubeapi.meta import KubeObject
from kubeapi.strategic import PatchError, go_format, strategic_merge

T = TypeVar("T", bound=KubeObject)

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CONTENT_TYPES = (JSON, MERGE, STRATEGIC)


def apply_patch(current: T, content_type: str, body: bytes, *, strict: bool = False) -> T:
    """`current` with the patch in `body` applied and decoded, not yet defaulted nor validated.

    `strict` refuses fields that the type does not have. Raises ApiError 400, 413, 415, 422.
    """
    apply = _APPLY.get(content_type.partition(";")[0].strip())
    if apply is None:
        raise unsupported_media()
    data, shown = apply(current.to_dict(), load_json(body))
    if not isinstance(data, dict):
        raise bad_request("the patched object is no object")
    try:
        patched = build(type(current), data)
    except DecodeError as error:
        raise _unusable(shown, str(error)) from None
    problem = strict_error(patched) if strict else None
    if problem:
        raise _unusable(shown, problem)
    return patched


Applied = tuple[Any, str]
"""The patched data, and what the server shows of it in an error."""


def _strategic(current: dict[str, Any], patch: Any) -> Applied:
    if not isinstance(patch, dict):
        raise _not_a_map(patch)
    try:
        return strategic_merge(current, patch), go_format(patch)
    except PatchError as error:
        raise bad_request(str(error)) from None


def _merge(current: dict[str, Any], patch: Any) -> Applied:
    if not isinstance(patch, dict):
        raise _not_a_map(patch)
    data = merge_patch(current, patch)
    return data, orjson.dumps(data).decode()


def _json(current: dict[str, Any], patch: Any) -> Applied:
    if isinstance(patch, list) and len(patch) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}")
    try:
        data = json_patch(current, patch)
    except MalformedPatch as error:
        raise bad_request(str(error)) from None
    except JsonPatchError as error:
        # The reference keeps to itself which operation failed, and kubectl shows causes in place of the message.
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request") from error
    except RecursionError as error:
        raise _too_deep() from error
    try:
        return data, orjson.dumps(data).decode()
    except orjson.JSONEncodeError as error:
        raise _too_deep() from error


_APPLY: dict[str, Callable[[dict[str, Any], Any], Applied]] = {
    JSON: _json,
    MERGE: _merge,
    STRATEGIC: _strategic,
}


def _too_deep() -> ApiError:
    """Operations may push what is nested ever deeper; the limit for objects is lower still."""
    return bad_request("the patched object is nested too deeply")


def _not_a_map(patch: Any) -> ApiError:
    kind = "array" if isinstance(patch, list) else "string" if isinstance(patch, str) else "number"
    return bad_request(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")


def _unusable(shown: str, detail: str) -> ApiError:
    """The server names neither kind nor object here."""
    return invalid("", "", [fields.invalid("patch", shown, detail)])
