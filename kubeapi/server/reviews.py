"""An AdmissionReview's answer (admission.k8s.io/v1), checked and put into errors (pure).

Rules and words: k8s.io/apiserver/pkg/admission/plugin/webhook/{request,errors}.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kubeapi.errors import ApiError

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_MAX_WARNING, _MAX_WARNINGS = 256, 4096
"""Characters of one, and of all: what one webhook may fill into the answer's headers."""


class BadAnswer(Exception):
    """It is no answer to what was asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    allowed: bool
    status: Mapping[str, Any]
    """Of a refusal; may be empty."""
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


def review(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": KIND, "apiVersion": API_VERSION, "request": dict(request)}


def parse(data: Any, uid: str, *, mutating: bool) -> Answer:
    """Raises BadAnswer."""
    if not isinstance(data, dict):
        raise BadAnswer("expected webhook response to be an object")
    found = (data.get("apiVersion"), data.get("kind"))
    if found != (API_VERSION, KIND):
        raise BadAnswer(
            f"expected webhook response of {API_VERSION}, Kind={KIND}, got {found[0] or ''}, Kind={found[1] or ''}"
        )
    response = data.get("response")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response was absent")
    if response.get("uid") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    status, warnings = response.get("status") or {}, response.get("warnings") or []
    return Answer(
        allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else {},
        patch=_patch(response) if mutating else (),
        warnings=_bounded([item for item in warnings if isinstance(item, str)] if isinstance(warnings, list) else []),
    )


def _patch(response: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    encoded, kind = response.get("patch"), response.get("patchType")
    if not encoded:
        if kind is not None:
            raise BadAnswer("webhook returned response.patchType but not response.patch")
        return ()
    if kind != "JSONPatch":
        raise BadAnswer(f'webhook returned invalid response.patchType of "{kind or ""}", expected JSONPatch')
    try:
        patch = orjson.loads(base64.b64decode(encoded, validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadAnswer(f"webhook returned a patch that cannot be decoded: {error}") from error
    if not isinstance(patch, list):
        raise BadAnswer("webhook returned a patch that is no list of operations")
    return patch


def _bounded(warnings: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for text in warnings:
        short = text[:_MAX_WARNING]
        if sum(map(len, kept)) + len(short) > _MAX_WARNINGS:
            break
        kept.append(short)
    return kept


def refusal(name: str, answer: Answer, resource: Mapping[str, str]) -> ApiError:
    """`resource`: `group`, `kind` (its plural) and `name`, for the details."""
    status = answer.status
    code = status.get("code")
    code = code if isinstance(code, int) and 400 <= code <= 599 else 403
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    denied = f'admission webhook "{name}" denied the request'
    text = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    details = status.get("details")
    shown = details if isinstance(details, dict) else {key: value for key, value in resource.items() if value}
    return ApiError(code, reason or ("InternalError" if code == 500 else "Forbidden"), text, shown)


def failed(name: str, why: str) -> ApiError:
    """The webhook could not be asked, and must be (failurePolicy Fail)."""
    message = f'failed calling webhook "{name}": {why}'
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})
