"""Errors are exactly the Status objects that a real API server answered with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from kubeapi import decode, defaults, errors
from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.patch import apply_patch
from kubeapi.podvalidation import validate_pod_create
from kubeapi.resources import PODS

DATA = Path(__file__).parents[2] / "data" / "kubernetes" / "api"


def recorded(name: str) -> dict[str, Any]:
    exchange: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return exchange


CONTINUE = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYjFcdTAwMDAifQ"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("err_404_path", errors.path_not_found()),
        ("err_404_pod", errors.not_found("pods", "none")),
        ("err_405_post", errors.method_not_allowed()),
        ("err_406", errors.not_acceptable()),
        ("err_409_exists", errors.already_exists("pods", "b1")),
        ("err_415", errors.unsupported_media()),
        (
            "delete_uid_mismatch",
            errors.uid_mismatch("Pod", "es", "x", "37879b59-1049-447b-ac98-0f53ff3c8d99"),
        ),
        ("list_rv_future", errors.too_large_version(99999999, 314)),
        ("list_continue_expired_410", errors.continue_expired(CONTINUE)),
    ],
)
def test_status_object_is_the_recorded_one(name: str, error: ApiError) -> None:
    exchange = recorded(name)
    assert orjson.dumps(error.to_dict()) == orjson.dumps(exchange["response"]), "same keys, same order"
    assert error.code == exchange["status"]


def test_expired_watch_is_the_recorded_status() -> None:
    assert errors.gone(705, 716).to_dict() == recorded("watch_old_rv_410")["response"]["object"]


def test_success_status_is_the_recorded_one() -> None:
    assert errors.success(201) == recorded("eviction")["response"]


def test_malformed_json_is_refused_as_recorded() -> None:
    exchange = recorded("err_bad_json")
    with pytest.raises(ApiError) as caught:
        decode.load_json(exchange["request"]["body"].encode())
    assert caught.value.to_dict() == exchange["response"]


def test_invalid_pod_is_refused_as_recorded() -> None:
    exchange = recorded("err_422_create")
    pod = decode.decode(Pod, exchange["request"]["body"])
    pod.metadata.namespace = "demo"
    PODS.strategy.default(pod)
    PODS.strategy.prepare_create(pod)
    refused = errors.invalid("Pod", pod.metadata.name, validate_pod_create(pod))
    assert refused.to_dict() == exchange["response"]


def test_unknown_field_is_refused_strictly_and_warned_of_otherwise_as_recorded() -> None:
    exchange = recorded("strict_unknown_field")
    pod = Pod.from_dict({"spec": {"containers": [{"name": "c1", "image": "x"}]}})
    defaults.default_pod(pod)
    request = exchange["request"]
    body = orjson.dumps(request["body"])
    with pytest.raises(ApiError) as caught:
        apply_patch(pod, request["contentType"], body, strict=True)
    assert caught.value.to_dict() == exchange["response"]
    patched = apply_patch(pod, request["contentType"], body)
    assert list(decode.unknown_fields(patched)) == ["spec.containers[0].bogus"]
    assert patched.to_dict()["spec"]["containers"][0]["bogus"] == 1, "unknown fields survive"


def test_same_cause_is_said_once() -> None:
    cause = errors.Cause("FieldValueForbidden", "Forbidden: no", "spec")
    error = errors.invalid("Pod", "a", [cause, cause])
    assert error.message == 'Pod "a" is invalid: spec: Forbidden: no'


def test_groups_are_named() -> None:
    error = errors.not_found("leases", "a", "coordination.k8s.io")
    assert error.message == 'leases.coordination.k8s.io "a" not found'
    assert error.details == {"name": "a", "group": "coordination.k8s.io", "kind": "leases"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"\xff", "invalid UTF-8 in JSON input"),
    ],
)
def test_syntax_errors_sound_like_go(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode.load_json(body)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (
            {"spec": {"containers": [{"resources": {"limits": {"memory": "x"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field Pod.metadata.labels.a of type string",
        ),
        ([], "json: cannot unmarshal array into Go value of type v1.Pod"),
    ],
)
def test_what_does_not_fit_the_type_is_a_bad_request(body: Any, ending: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode.decode(Pod, body)
    assert caught.value.message == f'Pod in version "v1" cannot be handled as a Pod: {ending}'
    assert caught.value.code == 400


def test_a_body_of_another_kind_is_refused() -> None:
    decode.check_kind({"kind": "Pod", "apiVersion": "v1"}, "v1", "Pod")
    decode.check_kind({}, "v1", "Pod")
    for body in ({"kind": "Node"}, {"apiVersion": "v2"}):
        with pytest.raises(ApiError) as caught:
            decode.check_kind(body, "v1", "Pod")
        assert caught.value.code == 400


def test_strict_create_names_every_unknown_field() -> None:
    pod = Pod.from_dict({"specs": 1, "spec": {"hostPID": True, "bogus": 2}})
    with pytest.raises(ApiError) as caught:
        decode.check_strict(pod)
    assert caught.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "specs", unknown field "spec.bogus"'
    )
