"""CEL as Kubernetes speaks it: values, macros, the libraries it adds, errors, and limits."""

from __future__ import annotations

from typing import Any

import pytest

from kubeapi import cel

POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 3,
        "nothing": None,
        "ratio": 1.5,
        "containers": [{"name": "a", "image": "r.example/a:1"}, {"name": "b", "image": "r.example/b:2"}],
        "memory": "512Mi",
    },
}


def evaluate(expression: str, **bindings: Any) -> Any:
    bindings = {"object": POD, **bindings}
    return cel.compile(expression, set(bindings)).evaluate(bindings)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("object.spec.replicas <= 5", True),
        ("object.spec.replicas == 3.0 && object.spec.ratio > 1", True),
        ("has(object.spec.absent)", False),
        ("has(object.spec.containers) && object.spec.nothing == null", True),
        ("object.spec.absent == 1 || true", True),
        ("object.spec.containers.all(c, c.image.startsWith('r.example/'))", True),
        ("object.spec.containers.exists_one(c, c.name == 'b')", True),
        ("object.spec.containers.map(c, c.name)", ["a", "b"]),
        ("object.spec.containers.filter(c, c.name != 'a').size()", 1),
        ("object.spec.containers.all(i, c, i < 2 && c.name != '')", True),
        ("object.?spec.?absent.orValue(7)", 7),
        ("object.metadata.labels[?'none'].hasValue()", False),
        ("'app' in object.metadata.labels", True),
        ("'%s has %d'.format([object.metadata.name, 3])", "web has 3"),
        ("'A,b'.lowerAscii().split(',').join('-')", "a-b"),
        ("'abc'.replace('b', 'x').indexOf('x')", 1),
        ("sets.contains([1, 2], [1])", True),
        ("timestamp('2026-01-02T03:04:05Z').getMonth()", 0),
        ("duration('1h') > duration('59m')", True),
        ("'abc'.matches('^a.c$')", True),
        ("'a1b22'.find('[0-9]+')", "1"),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
        ("'a1b22'.findAll('[0-9]+', 1)", ["1"]),
        ("[1, 2, 2].isSorted() && [1, 2].sum() == 3 && [3, 4].max() == 4 && [3, 4].min() == 3", True),
        ("quantity(object.spec.memory).isLessThan(quantity('1Gi'))", True),
        ("quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi')", True),
        ("quantity('1k').sub(1).asInteger()", 999),
        ("quantity('50m').compareTo(quantity('0.05'))", 0),
        ("isQuantity('1.2.3')", False),
        ("ip('192.168.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('1.2.3')", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("url('https://u@example.com:80/a?b=c').getHostname()", "example.com"),
        ("url('https://example.com:80/a?b=c').getQuery()['b'][0]", "c"),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.10.0').minor() == 10", True),
    ],
)
def test_values(expression: str, value: Any) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1 +", "Syntax error"),
        ("objekt.spec", "undeclared reference to 'objekt.spec'"),
        ("'a' + 1", "no matching overload for '_+_' applied to '(string, int)'"),
        ("object.spec.toto()", "undeclared reference to 'toto'"),
        ("quantity(1)", "no matching overload for 'quantity'"),
        (" ", "expression is not specified"),
        ("1 == 1 || " * 2000 + "true", "longer than"),
        ("(" * 3000 + "1" + ")" * 3000, "recursion"),
    ],
)
def test_what_does_not_compile(expression: str, words: str) -> None:
    with pytest.raises(cel.CompileError, match=r".*") as error:
        evaluate(expression)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.spec.absent == 1", "no such key: absent"),
        ("object.spec.replicas + 'a'", "no such overload"),
        ("object.spec.replicas.startsWith('a')", "no such overload"),
        ("object.spec.containers[5]", "index out of bounds: 5"),
        ("1 / (object.spec.replicas - 3)", "division by zero"),
        ("quantity('x')", "quantities must match"),
        ("[].max()", "max called on empty list"),
        ("'a'.find('(')", "missing )"),
        ("quantity('1').isLessThan(object.metadata.labels)", "no such overload"),
        ("optional.none()", ""),
    ],
)
def test_what_has_no_value(expression: str, words: str) -> None:
    with pytest.raises(cel.EvaluationError) as error:
        evaluate(expression)
    assert words in str(error.value)


def test_the_type_of_a_result_is_checked_as_far_as_it_is_known() -> None:
    assert cel.compile("object.spec.x", {"object"}, {"bool"}).result == "dyn"
    with pytest.raises(cel.CompileError, match="must evaluate to bool"):
        cel.compile("'text'", (), {"bool"})


def test_loops_without_end_are_cut_off() -> None:
    items = list(range(300))
    with pytest.raises(cel.BudgetExceeded, match="actual cost limit exceeded"):
        evaluate("object.all(a, object.all(b, object.all(c, a + b + c >= 0)))", object=items)
    with pytest.raises(cel.BudgetExceeded):
        evaluate("object.all(a, object.exists(b, b == a))", object=items)


def test_a_greedy_pattern_is_linear() -> None:
    assert evaluate("object.find('(a+)+$')", object="a" * 5000 + "b") == ""
