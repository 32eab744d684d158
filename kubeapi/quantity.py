"""Exact Kubernetes quantities: what `250m`, `1.5Gi` and `1e3` mean, and how the API server writes them back.

Source of the rules: k8s.io/apimachinery/pkg/api/resource (quantity.go, suffix.go). Values are exact decimals, rounded
up (away from zero) to whole nanos and capped at 2^63-1, as there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from enum import Enum
from functools import lru_cache, total_ordering

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"
NUMERIC_ERROR = "unable to parse numeric part of quantity"

_GRAMMAR = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_MAX = Decimal(2**63 - 1)
_EXACT = Context(prec=400)
"""Enough digits that no step below rounds on its own (inputs are bounded by MAX_LENGTH and MAX_EXPONENT)."""
_MAX_LENGTH = 128
_MAX_EXPONENT = 100


class QuantityError(ValueError):
    """Malformed; the message is the API server's."""


class Format(Enum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A parsed quantity. Compares by value (`1` == `1000m`); `str()` is the canonical form."""

    value: Decimal
    format: Format = Format.DECIMAL_SI

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(_EXACT.add(self.value, other.value), self.format if self.value else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(_EXACT.subtract(self.value, other.value), self.format if self.value else other.format)

    def __str__(self) -> str:
        return _canonical(self.value, self.format)

    @property
    def millis(self) -> int:
        """Thousandths, rounded up (away from zero)."""
        return int(self.rounded(-3).value.scaleb(3, _EXACT))

    @property
    def whole(self) -> int:
        """Whole units (bytes for memory), rounded up (away from zero)."""
        return int(self.rounded(0).value)

    def rounded(self, power: int) -> Quantity:
        """Rounded up (away from zero) to a multiple of 10**power."""
        return Quantity(_round_up(self.value, power), self.format)


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Raises QuantityError with the API server's message."""
    match = _GRAMMAR.fullmatch(text)
    if not text or match is None or len(text) > _MAX_LENGTH:
        raise QuantityError(FORMAT_ERROR)
    sign, whole, fraction, suffix = match.groups()
    factor, form = _interpret(suffix)
    if not whole and not fraction:
        raise QuantityError(NUMERIC_ERROR)
    number = Decimal(f"{sign}{whole or '0'}.{fraction or '0'}")
    value = _round_up(_EXACT.multiply(number, factor), -9)
    if abs(value) > _MAX:
        value = _MAX.copy_sign(value)
    return Quantity(value, form)


def cpu_millis(text: str) -> int:
    """Millicores, rounded up. Raises QuantityError."""
    return parse(text).millis


def memory_bytes(text: str) -> int:
    """Bytes, rounded up. Raises QuantityError."""
    return parse(text).whole


def canonical(text: str) -> str:
    """As the API server would write it back: `0.5` → `500m`, `1024Mi` → `1Gi`. Raises QuantityError."""
    return str(parse(text))


def format_cpu(millis: int) -> str:
    """`500m`, `1`, `1500m`."""
    return _canonical(Decimal(millis).scaleb(-3, _EXACT), Format.DECIMAL_SI)


def format_memory(count: int) -> str:
    """Bytes in binary units: `128Mi`."""
    return _canonical(Decimal(count), Format.BINARY_SI)


def _interpret(suffix: str) -> tuple[Decimal, Format]:
    if suffix in _DECIMAL:
        return Decimal(1).scaleb(_DECIMAL[suffix]), Format.DECIMAL_SI
    if suffix in _BINARY:
        return Decimal(1 << _BINARY[suffix]), Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(SUFFIX_ERROR)
    exponent = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(match[1])))
    return Decimal(1).scaleb(exponent), Format.DECIMAL_EXPONENT


def _round_up(value: Decimal, power: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(power), rounding=ROUND_UP, context=_EXACT)


def _canonical(value: Decimal, form: Format) -> str:
    """No fraction, the largest suffix that allows that; binary units only for whole numbers from 1024 up."""
    if not value:
        return "0"
    if form is Format.BINARY_SI and abs(value) >= 1024 and value == value.to_integral_value():
        return _binary(int(value))
    sign, digits, power = value.as_tuple()
    assert isinstance(power, int)
    mantissa = int("".join(map(str, digits)))
    while mantissa % 10 == 0:
        mantissa, power = mantissa // 10, power + 1
    mantissa, power = mantissa * 10 ** (power % 3), power - power % 3
    unit = _DECIMAL_SUFFIX.get(power)
    if form is Format.DECIMAL_EXPONENT or unit is None:
        unit = f"e{power}" if power else ""
    return f"{'-' if sign else ''}{mantissa}{unit}"


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < 60:
        value, power = value // 1024, power + 10
    return f"{value}{_BINARY_SUFFIX[power]}"
