"""Quantities: exact, canonical, in the server's words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi import quantity
from kubeapi.core import ResourceRequirements
from kubeapi.quantity import FORMAT_ERROR, NUMERIC_ERROR, SUFFIX_ERROR, QuantityError, parse

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        ("0.641", "641m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("5000", "5k"),
        ("1024", "1024"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"),
        ("1025", "1025"),
        ("100M", "100M"),
        ("1e3", "1e3"),
        ("12e2", "1200"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("1e-3", "1e-3"),
        ("+1", "1"),
        ("-500m", "-500m"),
        ("-1Ki", "-1Ki"),
        (".5", "500m"),
        ("5.", "5"),
        ("0.1n", "1n"),
        ("100E", "9223372036854775807"),
        ("0.0000001Ki", "102400n"),
    ],
)
def test_canonical_form_is_the_servers(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_ERROR),
        ("lots", FORMAT_ERROR),
        ("1 Gi", FORMAT_ERROR),
        ("1Gi ", FORMAT_ERROR),
        ("--1", SUFFIX_ERROR),
        ("1.2.3", FORMAT_ERROR),
        ("1KiB", FORMAT_ERROR),
        ("٣", FORMAT_ERROR),
        ("1" * 200, FORMAT_ERROR),
        ("1K", SUFFIX_ERROR),
        ("1mm", SUFFIX_ERROR),
        ("1e", SUFFIX_ERROR),
        ("1m3", SUFFIX_ERROR),
        ("m", NUMERIC_ERROR),
        (".", NUMERIC_ERROR),
        ("-", NUMERIC_ERROR),
    ],
)
def test_malformed_is_refused_in_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_the_largest_is_the_cap() -> None:
    assert parse("1e400").value == 2**63 - 1
    assert parse("-9Ei").value == 1 - 2**63


def test_units() -> None:
    assert quantity.cpu_millis("0.0001") == 1, "rounds up"
    assert quantity.cpu_millis("250m") == 250
    assert quantity.memory_bytes("1500m") == 2
    assert quantity.memory_bytes("128Mi") == 128 * 1024 * 1024
    assert quantity.format_cpu(1500) == "1500m"
    assert quantity.format_cpu(2000) == "2"
    assert quantity.format_memory(128 * 1024 * 1024) == "128Mi"
    assert quantity.format_memory(0) == "0"


def test_resource_lists_become_canonical_and_take_numbers() -> None:
    given_ = {"limits": {"cpu": 1, "memory": 0.5, "x": None}, "requests": {"cpu": " 0.0005 "}}
    parsed = ResourceRequirements.from_dict(given_)
    assert parsed.limits == {"cpu": "1", "memory": "500m"}
    assert parsed.requests == {"cpu": "1m"}


amounts = st.integers(-(10**9), 10**9)
suffixes = st.sampled_from([*DECIMAL, *BINARY])


@given(amounts, suffixes)
def test_value_is_exact_and_canonical_form_keeps_it(amount: int, suffix: str) -> None:
    factor = Decimal(BINARY[suffix]) if suffix in BINARY else Decimal(1).scaleb(DECIMAL[suffix])
    most = Decimal(2**63 - 1)
    expected = max(-most, min(amount * factor, most))
    parsed = parse(f"{amount}{suffix}")
    assert parsed.value == expected
    again = parse(str(parsed))
    assert again == parsed
    assert str(again) == str(parsed), "canonical form is a fixed point"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-1000, max_value=1000))
def test_rounding_goes_away_from_zero(value: Decimal) -> None:
    millis = parse(f"{value:f}").millis
    assert abs(millis) >= abs(value * 1000)
    assert abs(abs(millis) - abs(value * 1000)) < 1


@given(amounts, suffixes, amounts, suffixes)
def test_order_is_the_order_of_values(a: int, left: str, b: int, right: str) -> None:
    one, two = parse(f"{a}{left}"), parse(f"{b}{right}")
    assert (one < two) == (one.value < two.value)
    assert (one == two) == (one.value == two.value)
    assert Fraction((one + two).value) == Fraction(one.value) + Fraction(two.value)
    assert Fraction((one - two).value) == Fraction(one.value) - Fraction(two.value)


@given(st.text(max_size=12))
def test_anything_parses_or_is_refused(text: str) -> None:
    try:
        parsed = parse(text)
    except QuantityError:
        return
    assert parse(str(parsed)) == parsed


@given(st.integers(0, 10**7))
def test_formatting_round_trips(count: int) -> None:
    assert quantity.cpu_millis(quantity.format_cpu(count)) == count
    assert quantity.memory_bytes(quantity.format_memory(count)) == count
