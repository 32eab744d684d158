"""The functions that Kubernetes adds to CEL (k8s.io/apiserver/pkg/cel/library): quantities, addresses, URLs, semantic
versions, regular expressions and lists.

The values of those types are maps with one tagged entry, since the runtime knows no types of its own; expressions see
no difference but in `type()`. A function refuses by raising ValueError, which is the expression's error.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from kubeapi import patterns, quantity

Tagged = dict[str, Any]
_QUANTITY, _IP, _CIDR, _URL, _SEMVER = "quantity", "ip", "cidr", "url", "semver"
_INT_BOUND = 1 << 63
_SEMVER_FORM = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _untag(value: Tagged, tag: str) -> str:
    if set(value) != {tag}:
        raise ValueError("no such overload")
    return str(value[tag])


def _tag_of(value: Tagged) -> str:
    return next(iter(value), "") if len(value) == 1 else ""


def holds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


# Quantities


def parse_quantity(text: str) -> Tagged:
    return {_QUANTITY: str(quantity.parse(text))}


def _amount(value: Tagged | int) -> quantity.Quantity:
    return quantity.parse(str(value) if isinstance(value, int) else _untag(value, _QUANTITY))


def add(one: Tagged, two: Tagged | int) -> Tagged:
    return {_QUANTITY: str(_amount(one) + _amount(two))}


def subtract(one: Tagged, two: Tagged | int) -> Tagged:
    left = _amount(one)
    return {_QUANTITY: str(quantity.Quantity(left.value - _amount(two).value, left.format))}


def sign(value: Tagged) -> int:
    amount = _amount(value).value
    return (amount > 0) - (amount < 0)


def is_integer(value: Tagged) -> bool:
    amount = _amount(value).value
    return amount == amount.to_integral_value() and abs(amount) < _INT_BOUND


def as_integer(value: Tagged) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(_amount(value).value)


def as_float(value: Tagged) -> float:
    return float(_amount(value).value)


# Semantic versions


def parse_semver(text: str) -> Tagged:
    if not _SEMVER_FORM.fullmatch(text):
        raise ValueError(f"no semantic version: {text}")
    return {_SEMVER: text}


def _semver_key(text: str) -> tuple[Any, ...]:
    match = _SEMVER_FORM.fullmatch(text)
    assert match  # only what was parsed is tagged so
    major, minor, patch, pre = match.groups()
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in (pre or "").split(".") if part)
    return (int(major), int(minor), int(patch), not pre, parts)


def version_part(index: int) -> Callable[[Tagged], int]:
    return lambda value: int(_semver_key(_untag(value, _SEMVER))[index])


# What quantities and versions share


def compare(one: Tagged, two: Tagged) -> int:
    left: Any
    right: Any
    if _tag_of(one) == _SEMVER:
        left, right = _semver_key(_untag(one, _SEMVER)), _semver_key(_untag(two, _SEMVER))
    else:
        left, right = _amount(one), _amount(two)
    return int(left > right) - int(left < right)


# Addresses


def parse_ip(text: str) -> Tagged:
    if "%" in text:
        raise ValueError(f"IP Address {text!r} with zone value is not allowed")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise ValueError("IPv4-mapped IPv6 address is not allowed")
    return {_IP: str(address)}


def parse_cidr(text: str) -> Tagged:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: {text}")
    return {_CIDR: str(ipaddress.ip_interface(text))}


def _address(value: Tagged | str) -> Address:
    return ipaddress.ip_address(_untag(parse_ip(value) if isinstance(value, str) else value, _IP))


def _network(value: Tagged | str) -> Network:
    text = _untag(parse_cidr(value) if isinstance(value, str) else value, _CIDR)
    return ipaddress.ip_interface(text).network


def family(value: Tagged) -> int:
    return _address(value).version


def address_is(test: Callable[[Address], bool]) -> Callable[[Tagged], bool]:
    return lambda value: test(_address(value))


def is_canonical(text: str) -> bool:
    return _untag(parse_ip(text), _IP) == text


def contains_ip(network: Tagged, address: Tagged | str) -> bool:
    return _address(address) in _network(network)


def contains_cidr(outer: Tagged, inner: Tagged | str) -> bool:
    one, two = _network(outer), _network(inner)
    return one.version == two.version and two.subnet_of(one)  # type: ignore[arg-type]  # the versions are equal


def prefix_length(value: Tagged) -> int:
    return _network(value).prefixlen


def masked(value: Tagged) -> Tagged:
    return {_CIDR: str(_network(value))}


def cidr_ip(value: Tagged) -> Tagged:
    return {_IP: _untag(value, _CIDR).partition("/")[0]}


# URLs


def parse_url(text: str) -> Tagged:
    parts = urlsplit(text)
    if not (parts.scheme and (parts.netloc or parts.path)) and not text.startswith("/"):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    _ = parts.port  # refuses what is no port
    return {_URL: text}


def url_part(read: Callable[[Any], Any]) -> Callable[[Tagged], Any]:
    return lambda value: read(urlsplit(_untag(value, _URL)))


def url_hostname(parts: Any) -> str:
    host: str = parts.netloc.rpartition("@")[2]
    return host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]


def url_port(parts: Any) -> str:
    return "" if parts.port is None else str(parts.port)


def url_path(parts: Any) -> str:
    return quote(parts.path, safe="/%:@!$&'()*+,;=~")


def url_query(parts: Any) -> dict[str, list[str]]:
    return parse_qs(parts.query, keep_blank_values=True)


# Regular expressions (RE2: linear in time)


def find(text: str, pattern: str) -> str:
    return next(patterns.matches(pattern, text), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return list(islice(patterns.matches(pattern, text), limit if limit >= 0 else None))


# Lists


def is_sorted(items: list[Any]) -> bool:
    return all(not one > two for one, two in pairwise(items))


def total(items: list[Any]) -> Any:
    if not all(isinstance(item, int | float | Decimal) for item in items):
        raise ValueError("no such overload")
    return sum(items)


def extreme(choose: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def chosen(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return chosen
