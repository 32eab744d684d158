"""Label and field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.core import Pod
from kubeapi.errors import ApiError
from kubeapi.resources import NODES, PODS
from kubeapi.selectors import EVERYTHING, parse_fields, parse_labels

LABELS = {"app": "web", "tier": "front", "cpu": "8", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app!=web", False),
        ("gone!=web", True),
        ("app=web,tier=back", False),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api,db)", True),
        ("gone notin (x)", True),
        ("app", True),
        ("!app", False),
        ("!gone", True),
        ("! gone , app", True),
        ("gone", False),
        ("cpu>4", True),
        ("cpu<4", False),
        ("app>4", False),
        ("empty=", True),
        ("app=", False),
        ("app in (web),!gone,cpu>4", True),
        ("example.com/role=x", False),
        ("app in ()", False),
        ("empty in (,a)", True),
    ],
)
def test_labels(selector: str, matches: bool) -> None:
    assert parse_labels(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    "selector",
    ["a=b,", ",a", "a b", "a in", "a in x", "a in (x", "=a", "a>x", "!", "a=b c=d", "a==!b", "-a=b", "a=b$", "in=(x)"],
)
def test_bad_label_selectors(selector: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(selector)
    assert caught.value.code == 400


@given(st.text(max_size=20))
def test_any_text_parses_or_is_a_bad_request(text: str) -> None:
    try:
        selector = parse_labels(text)
    except ApiError as error:
        assert error.code == 400  # noqa: PT017 - either outcome is right
    else:
        selector.matches(LABELS)


label_values = st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True)


@given(st.dictionaries(label_values, label_values, max_size=4))
def test_own_labels_always_match(labels: dict[str, str]) -> None:
    assert parse_labels(",".join(f"{key}={value}" for key, value in labels.items())).matches(labels)


POD = Pod.from_dict(
    {
        "metadata": {"name": "a", "namespace": "demo"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.namespace!=demo", False),
        ("spec.nodeName=n1,status.phase=Running", True),
        ("spec.nodeName==n1,status.phase!=Running", False),
        ("spec.nodeName=", False),
        ("status.nominatedNodeName=", True),
        ("spec.hostNetwork=false", True),
    ],
)
def test_fields(selector: str, matches: bool) -> None:
    assert parse_fields(selector, PODS).matches(POD, PODS) is matches


def test_escapes_in_field_selectors() -> None:
    selector = parse_fields(r"metadata.name=a\,b\=c\\", PODS)
    assert selector.exact("metadata.name") == "a,b=c\\"
    assert selector.exact("spec.nodeName") is None


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("spec.nodeName=x", "field label not supported: spec.nodeName"),
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ("metadata.name=a=b", "invalid field selector: metadata.name=a=b: unescaped '=' in value"),
    ],
)
def test_bad_field_selectors(selector: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fields(selector, NODES)
    assert caught.value.message == message


def test_everything() -> None:
    assert EVERYTHING.matches({})
