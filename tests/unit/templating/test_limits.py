"""Hostile templates: every one ends with its code, after a bounded number of calls, and reaches nothing."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Expr, Pos, Text
from noetl.templating import MappingScope, TemplateLimits, render
from noetl.templating.limits import DEFAULT_LIMITS
from noetl.templating.positions import fail
from tests.parts import over, repeated
from tests.work import calls

MOST_CALLS = 4_000_000
"""Functions called until a template is stopped. What one call of C may cost is held by the sizes that are refused."""


SHARE = repeated(gate=10, full=1)
"""Of the time and of the operations that a template has, `make test` leaves a tenth: what computes without end ends that much sooner."""
LIMITS = TemplateLimits(
    max_operations=DEFAULT_LIMITS.max_operations // SHARE, seconds=DEFAULT_LIMITS.seconds / SHARE
)


def failure(
    node: Expr | Text, limits: TemplateLimits = DEFAULT_LIMITS, most_calls: int = MOST_CALLS, **names: Any
) -> TemplateError:
    found = []

    def refuse() -> None:
        with pytest.raises(TemplateError) as caught:
            render(node, MappingScope(names), limits)
        found.append(caught)

    assert calls(refuse) < most_calls
    (caught,) = found
    assert caught.value.details["template"]
    assert caught.value.details["line"] == 7
    return caught.value


EXPRESSIONS = [
    "9**(9**9)",
    "(9**9)**(9**9)",
    "9.0**(9**9)",
    "2**20000",
    "(2**12000) * (2**12000)",
    "'a' * 10**9",
    "10**9 * 'a'",
    "[0] * 10**9",
    "(1, 2) * 10**9",
    "'a'.ljust(10**9)",
    "'a'.rjust(10**9)",
    "'a'.center(10**9)",
    "'a'.zfill(10**9)",
    "'a' | center(10**9)",
    "'a' | indent(10**9)",
    "'aaaa' | replace('', 'x' * 8000000)",
    "('a' * 8000000).replace('a', 'aaaa')",
    "'x'.join(('a' * 4000000).split('a'))",
    "('\t' * 1000000).expandtabs(1000)",
    "'%1000000000d' | format(1)",
    "'%1000000000d' % 1",
    "'%.1000000000f' % 1",
    "'%(a)1000000000s' % {'a': 1}",
    "'{:1000000000}'.format(1)",
    "'{:{w}}'.format(1, w=1000000000)",
    "'{0:.1000000000f}'.format(1.0)",
    "range(10**9)",
    "range(10**9) | list",
    "range(0, -10**9, -1) | length",
    "range(1000) | map('center', 8000000) | list",
    "range(100000) | map('center', 1000000) | list",
    "[1] | batch(10**9, 0)",
    "[1] | slice(10**9)",
    "[['a' * 4000000] * 10] | tojson",
    "'a' * 4000000 ~ 'b' * 4000000 ~ 'c' * 4000000",
    "(" * 500 + "1" + ")" * 500,
    "[" * 500 + "]" * 500,
    "{'a':" * 500 + "1" + "}" * 500,
    "not " * 500 + "true",
    "-" * 500 + "1",
    "+".join(["1"] * 2000),
    "x" + ".a" * 2000,
    "x" + "|upper" * 500,
    "1 if 1 else " * 500 + "1",
    "'a' * " * 300 + "1",
    "[" + "1," * 99000 + "]",
    "x" + "[0]" * 500,
    '"' + "a" * 2_000_000 + '"',
    "10**3000 * 10**3000",
    "(10**3900) * 10 ~ ''",
    "[[[['x'] * 1000] * 1000] * 1000] * 1000",
    "([[[['x'] * 1000] * 1000] * 1000] * 1000) | tojson",
    "{'a': [['x' * 2000] * 1000] * 1000}",
    "[big] * 100000",
    "([[big] * 1000] * 1000) | string",
    "'-%s' % ([[big] * 1000] * 1000)",
    "('-%s' * 1000) % (([big] * 1000, ) * 1000)",
    "(['a' * 3000000] * 9) | join",
    "('%(a)s' * 100000) % {'a': 'x' * 1000000}",
    "('%99999d' * 100000) % 1",
    "('{0:99999}' * 1000).format(1)",
    "('{0}' * 1000).format('x' * 1000000)",
    "('a ' * 4000000) | title",
    "('\u00e9' * 4000000) | urlencode",
    "{'q': '\u00e9' * 4000000} | urlencode",
    "('a ' * 4000000).split()",
    "('a ' * 4000000).split(none, 3000000)",
    "('a,' * 4000000).rsplit(',')",
    "('a,' * 4000000).split(sep=',')",
    "('\\n' * 8000000).splitlines()",
]


@over("source", EXPRESSIONS, ids=lambda source: source[:40])
def test_an_expression_that_asks_too_much_is_stopped(source: str) -> None:
    error = failure(Expr(source, Pos(7, 1)), LIMITS, x="a", big={"k": "v" * 1000})
    assert error.code == "template_limit"


TEXTS = [
    "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set x = 'a' * 1000 %}{% for i in range(99999) %}{% set y = x * 8000 %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(100) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}",
    "{% for i in range(100000) %}{{ i in big }}{% endfor %}",
    "{% for i in range(100000) %}{{ big == other }}{% endfor %}",
    "{% for i in range(100000) %}{{ big | sort | length }}{% endfor %}",
    "{% if x %}" * 300 + "{% endif %}" * 300,
    "{{ x }}" * 30000,
    "{{ x" + " or x" * 30000 + " }}",
    "{{ " * 60000,
    "x" * 2_000_000,
    "{% for i in range(2) %}" * 150 + "{% endfor %}" * 150,
]
TEXTS += [
    "{% set s = '"
    + part
    + "' * 2000000 %}{% for i in range(100000) %}{% set x = s "
    + use
    + " %}{% endfor %}"
    for part, use in (
        ("a ", "| wordcount"),
        ("1111", "| float"),
        ("YWFh", "| b64decode"),
        ("    ", "| trim"),
        ("aaaa", "| truncate(7900000)"),
        ("aaaa", "is lower"),
        ("AAAA", "is upper"),
    )
]


DOUBLING = "{% set a = [1, 1] %}{% set b = [1, 1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60
TEXTS += [
    DOUBLING + use
    for use in (
        "{{ a }}",
        "{{ a == b }}",
        "{{ a < b }}",
        "{{ a in [b] }}",
        "{{ [b].index(a) }}",
        "{{ [a, b] | sort }}",
        "{{ [a, b] | max }}",
        "{{ [a, b] | unique | list }}",
        "{{ [{'k': a}, {'k': b}] | groupby('k') }}",
        "{{ a ~ b }}",
        "{{ [a] | join }}",
        "{{ '%s' | format(a) }}",
        "{{ '{!r}'.format(a) }}",
        "{{ {'q': a} | urlencode }}",
        "{% if a %}{{ a | tojson }}{% endif %}",
        "{% if a is eq b or a is sameas b %}{% endif %}",
        "{% if a is sameas b %}{% endif %}",
        "{{ {'k': a, 'l': b} | dictsort(by='value') }}",
    )
]
TEXTS += [
    "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns }}",
    "{% set ns = namespace(x=1) %}{% set ns.x = [ns] %}{{ ns == ns.x[0] }}",
]


@over("source", TEXTS, ids=lambda source: source[-60:])
def test_a_text_that_asks_too_much_is_stopped(source: str) -> None:
    numbers = {"big": list(range(20000)), "other": list(range(20000))}
    error = failure(Text(source, Pos(7, 1)), LIMITS, MOST_CALLS // SHARE, x=True, **numbers)
    assert error.code == "template_limit"


def test_words_are_counted_without_being_made() -> None:
    words = " ".join(f"w{number}" for number in range(40000))
    for text in (words, words + " ", "\n" + words, "x" * 200_000, " " * 200_000, ""):
        assert render(Expr("text | wordcount", Pos(7, 3)), MappingScope({"text": text})) == len(text.split())


def test_a_long_text_is_split_into_few_parts() -> None:
    names = {"text": "a," * 4_000_000}
    parts = render(Expr("text.split(',', 1) | length", Pos(7, 3)), MappingScope(names))
    lines = render(Expr("text.splitlines() | length", Pos(7, 3)), MappingScope(names))
    assert (parts, lines) == (2, 1)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def test_deep_values_are_refused_not_followed() -> None:
    deep, other = nested(10_000), nested(10_000)
    assert failure(Expr("x | tojson", Pos(7, 1)), x=deep).code == "template_limit"
    assert failure(Expr("x == y", Pos(7, 1)), x=deep, y=other).code == "template_limit"
    assert failure(Expr("('[' * 100000) | fromjson", Pos(7, 1))).code == "template_error"
    built = (
        "{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"
    )
    assert failure(Text(built, Pos(7, 1))).code == "template_limit"
    assert render(Expr("x"), MappingScope({"x": deep})) is deep


ESCAPES = [
    "''.__class__",
    "''['__class__']",
    "''.__class__.__mro__[1].__subclasses__()",
    "'' | attr('__class__')",
    "now.__globals__",
    "now['__globals__']",
    "now.__code__",
    "'{0.__class__}'.format(x)",
    "'{0[__class__]}'.format(x)",
    "'{x.__class__.__init__}'.format(x=x)",
    "'{0.__globals__}'.format(now)",
    "''.format.__self__.__class__",
    "x.__init__.__globals__",
    "[x] | map(attribute='__class__') | list",
    "[x] | groupby('__class__')",
    "x.items.__self__",
    "[].append(1)",
    "x.update({'a': 1})",
    "x.pop('a')",
    "x.clear()",
    "(1).__class__",
    "(1).to_bytes(10, 'big')",
    "''.maketrans('a', 'b')",
    "self",
    "self.__init__",
    "config",
    "request",
    "g.pop",
    "cycler.__init__.__globals__.os",
    "joiner",
    "lipsum.__globals__",
    "range.__self__",
    "namespace.__init__",
    "namespace(a=1).__class__",
    "loop.__class__",
    "x.raw",
    "x.hydrate",
    "x.plain()",
]


@over("source", ESCAPES)
def test_python_is_out_of_reach(source: str) -> None:
    names = {"x": {"a": 1}, "now": lambda: 1, "loop": {"index": 1}}
    assert failure(Expr(source, Pos(7, 1)), **names).code == "undefined"
    if "(" not in source:
        body = f"{{% for i in [1] %}}{{{{ {source} is defined }}}}{{% endfor %}}"
        assert render(Text(body), MappingScope(names)) == "False"


def test_classes_and_objects_are_not_called() -> None:
    class Tempting:
        def __call__(self) -> str:
            return "called"

    for value in (Tempting(), Tempting, sys):
        assert failure(Expr("x()", Pos(7, 1)), x=value).code == "template_error"
        assert failure(Expr("x", Pos(7, 1)), x=value).code == "template_error"


def test_values_cannot_be_changed() -> None:
    data = {"a": [1]}
    render(Text("{% set b = data.a + [2] %}{{ b }}"), MappingScope({"data": data}))
    assert data == {"a": [1]}
    assert failure(Text("{% set data.a = 2 %}", Pos(7, 1)), data=data).code == "template_error"


def test_limits_can_be_set() -> None:
    small = TemplateLimits(max_size=10, max_total=15)
    assert render(Expr("'a' * 10"), MappingScope({}), small) == "a" * 10
    for source in ("'a' * 11", "'a' * 8 ~ 'b' * 8"):
        with pytest.raises(TemplateError) as caught:
            render(Expr(source), MappingScope({}), small)
        assert caught.value.code == "template_limit"


def test_limits_hold_in_threads() -> None:
    node = Text("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")

    def attempt(_: int) -> str:
        try:
            return str(render(node, MappingScope({}), TemplateLimits(max_operations=50_000)))
        except TemplateError as error:
            return error.code

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(attempt, range(4))) == {"template_limit"}


def test_the_clock_stops_what_the_counters_let_through() -> None:
    limits = TemplateLimits(
        max_operations=10**12, max_total=10**12, max_range=10**9, max_size=10**12, seconds=0.1
    )
    source = Text("{% for a in range(10000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}")
    with pytest.raises(TemplateError) as caught:
        render(source, MappingScope({}), limits)
    assert caught.value.code == "template_limit"
    assert "0.1 s" in caught.value.message


@over(
    "source",
    [
        "('9' * 4001) | int",
        "('f' * 5000) | int(0, 16)",
        "'x' ~ (('f' * 5000) | int(0, 16))",
        "('[' ~ '9' * 4001 ~ ']') | fromjson",
        "('[' * 300 ~ ']' * 300) | fromjson",
    ],
)
def test_a_number_longer_than_numbers_are_stops_at_its_filter(source: str) -> None:
    """One that JSON cannot write would break the commit that keeps it."""
    assert failure(Expr(source, Pos(7, 3))).code == "template_limit"


def test_a_number_as_long_as_numbers_are() -> None:
    assert render(Expr("('9' * 4000) | int", Pos(7, 3)), MappingScope({})) == 10**4000 - 1


def test_a_machine_without_memory_is_named_and_not_the_value() -> None:
    with pytest.raises(TemplateError) as caught:
        fail(MemoryError(), Expr("value", Pos(7, 1)), 1)
    assert "the system has no more memory" in caught.value.message
    assert "ulimit -v" in (caught.value.hint or "")
    assert caught.value.details["line"] == 7
