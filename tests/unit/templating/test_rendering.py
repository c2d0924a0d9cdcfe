"""Expressions keep types, texts are texts, names are found or explained."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError, TemplateError
from noetl.dsl.program import Expr, LiteralNode, Map, Pos, Seq, Sql, Text
from noetl.templating import MappingScope, check, is_true, render
from tests.parts import over


def expr(source: str, **names: Any) -> Any:
    return render(Expr(source, Pos(3, 10)), MappingScope(names))


def text(source: str, **names: Any) -> Any:
    return render(Text(source, Pos(3, 10)), MappingScope(names))


WORKLOAD = {"a": {"b": "00123"}, "n": None, "list": [1, {"x": 2}, "three"], "big": 12345678901234567890123}


@over(
    ("source", "expected"),
    [
        ("w.a.b", "00123"),
        ("w['a']['b']", "00123"),
        ("w.big", 12345678901234567890123),
        ("w.n", None),
        ("w.list[1].x", 2),
        ("w.list[-1]", "three"),
        ("w.list[:2]", [1, {"x": 2}]),
        ("w.list.0", 1),
        ("'1_000'", "1_000"),
        ("1_000", 1000),
        ("w.big + 1", 12345678901234567890124),
        ("1.5 * 2", 3.0),
        ("7 // 2 ~ '/' ~ 7 % 2", "3/1"),
        ("2 ** 10", 1024),
        ("-w.list[0]", -1),
        ("[1] + w.list", [1, 1, {"x": 2}, "three"]),
        ("{'k': w.a, 'l': [w.n]}", {"k": {"b": "00123"}, "l": [None]}),
        ("1 < 2 < 3", True),
        ("1 < 2 > 3", False),
        ("'x' in w.a", False),
        ("{'x': 2} in w.list", True),
        ("'b' in w.a and not w.n", True),
        ("w.n or 'fallback'", "fallback"),
        ("'yes' if w.a.b == '00123' else 'no'", "yes"),
        ("'yes' if w.n", None),
        ("('yes' if w.n) | default('no')", "no"),
        ("w.a.b.upper() ~ 'x'", "00123x"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("'{}-{k[b]}'.format(1, k=w.a)", "1-00123"),
        ("'%s %05.1f %%' % ('a', 2)", "a 002.0 %"),
        ("'%(b)s' % w.a", "00123"),
        ("'%s' % [1, 'a']", '[1,"a"]'),
        ("range(3)", [0, 1, 2]),
        ("dict(a=1)", {"a": 1}),
        ("now() + 1", 11),
    ],
)
def test_an_expression_keeps_the_type_of_its_value(source: str, expected: Any) -> None:
    found = expr(source, w=WORKLOAD, now=lambda: 10)
    assert found == expected
    assert type(found) is type(expected)


@over(
    ("source", "expected"),
    [
        ("[3, 1, 2] | sort | join(',')", "1,2,3"),
        ("people | map(attribute='name') | list", ["Bo", "al"]),
        ("people | sort(attribute='name') | map(attribute='age') | list", [30, 20]),
        ("people | selectattr('age', '>', 25) | map(attribute='name') | first", "al"),
        ("people | rejectattr('age', 'gt', 25) | list | length", 1),
        ("people | sum('age')", 50),
        ("people | groupby('age') | map('first') | list", [20, 30]),
        ("people | map(attribute='zip', default='?') | list", ["?", "?"]),
        ("[1, 2, 3] | select('odd') | list", [1, 3]),
        ("[[1], [1], [2]] | unique | list", [[1], [2]]),
        ("['B', 'a'] | map('lower') | sort", ["a", "b"]),
        ("[1, 2, 3] | batch(2) | list", [[1, 2], [3]]),
        ("[1, 2, 3] | slice(2) | list", [[1, 2], [3]]),
        ("{'b': 1, 'a': 2} | dictsort", [["a", 2], ["b", 1]]),
        ("{'b': 1} | items | list", [["b", 1]]),
        (
            "{'a': 1, 'b': 2} | combine({'b': 3}, {'c': people[0]})",
            {"a": 1, "b": 3, "c": {"name": "Bo", "age": 20}},
        ),
        ("'<a>' | tojson", '"<a>"'),
        ("people[0] | tojson | fromjson", {"name": "Bo", "age": 20}),
        ("'x' | b64encode | b64decode", "x"),
        ("'' | md5", "d41d8cd98f00b204e9800998ecf8427e"),
        ("'' | sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("'12.9' | int", 12),
        ("'x' | int(7)", 7),
        ("'ff' | int(base=16)", 255),
        ("'1.5' | float", 1.5),
        ("2.345 | round(2)", 2.35),
        ("0 | isoformat", "1970-01-01T00:00:00Z"),
        ("'1970-01-01T00:01:00Z' | epoch", 60.0),
        ("'hello big world' | truncate(12, leeway=0)", "hello..."),
        ("'--x-' | trim('-') ~ ('--y-' | trim(chars='-'))", "xy"),
        ("'a b' | urlencode", "a%20b"),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("'x' | replace('x', '<y>')", "<y>"),
        ("[2, 1] | max - [2, 1] | min", 1),
        ("people[0] | attr('name')", "Bo"),
        ("missing | default({'a': 1})", {"a": 1}),
        ("people[0].a.b.c | default('deep')", "deep"),
        ("'' | default('empty', true)", "empty"),
        ("(people[0].a | default(people[0].b)) | default('none')", "none"),
        ("(people[0].a | default(nothing.b.c)) is defined", False),
        ("missing is defined or people is undefined", False),
        ("people is sequence and people[0] is mapping and 1 is number and 'x' is string", True),
    ],
)
def test_filters_and_tests(source: str, expected: Any) -> None:
    assert expr(source, people=[{"name": "Bo", "age": 20}, {"name": "al", "age": 30}]) == expected


@over(
    ("source", "expected"),
    [
        ("Hello {{ x }}!", "Hello you!"),
        ("{{ n }} {{ yes }} {{ 1.0 }}", "None True 1.0"),
        ("{{ m }}", '{"k":[1]}'),
        ("{{ 'a' if n }}|", "|"),
        (
            "{% for k, v in m.items() %}{{ loop.index }}:{{ k }}={{ v[0] }}{{ ';' if not loop.last }}{% endfor %}",
            "1:k=1",
        ),
        ("{% for i in range(4) if i is odd %}{{ i }},{% else %}none{% endfor %}", "1,3,"),
        ("{% for i in [] %}{{ i }}{% else %}none{% endfor %}", "none"),
        ("{% if n %}a{% elif yes %}b{% else %}c{% endif %}", "b"),
        ("{% set t = 1 %}{% for i in [1, 2] %}{% set t = t + i %}{% endfor %}{{ t }}", "1"),
        (
            "{% set ns = namespace(t=0) %}{% for i in [1, 2] %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}",
            "3",
        ),
        ("{% set block %}a{{ x }}{% endset %}{{ block | upper }}", "AYOU"),
        ("{% with y = x %}{{ y }}{% endwith %}", "you"),
        ("{% filter upper %}a{{ x }}{% endfilter %}", "AYOU"),
        ("{% raw %}{{ x }}{% endraw %}{# note #}", "{{ x }}"),
        ("line\n", "line\n"),
    ],
)
def test_a_text_is_a_text(source: str, expected: str) -> None:
    assert text(source, x="you", n=None, yes=True, m={"k": [1]}) == expected


def test_other_nodes() -> None:
    node = Map((("a", Expr("x")), ("b", Seq((LiteralNode(1), Text("<{{ x }}>"))))))
    assert render(node, MappingScope({"x": 5})) == {"a": 5, "b": [1, "<5>"]}


@over("key", ["items", "keys", "values", "get", "update", "pop", "__class__", "_ref", "upper"])
def test_keys_win_over_methods(key: str) -> None:
    value = {key: "mine"}
    assert expr(f"r.{key}", r=value) == "mine"
    assert expr(f"r['{key}']", r=value) == "mine"
    assert expr(f"[r] | map(attribute='{key}') | first", r=value) == "mine"


@over(
    ("source", "expected"),
    [
        ("r.items()", [["a", 1]]),
        ("r.keys()", ["a"]),
        ("r.values()", [1]),
        ("r.get('a')", 1),
        ("r.get('b', 2)", 2),
    ],
)
def test_methods_work_where_no_key_has_their_name(source: str, expected: Any) -> None:
    assert expr(source, r={"a": 1}) == expected


def test_data_is_never_evaluated() -> None:
    hostile = "{{ 7 * 7 }}{% for x in y %}"
    assert expr("v", v=hostile) == hostile
    assert text("<{{ v }}>{{ {'k': v} }}", v=hostile) == f'<{hostile}>{{"k":"{hostile}"}}'
    assert expr("v | replace('a', 'b') ~ v", v=hostile) == hostile * 2


@over("value", ["nul \0", "lone \ud800", 10**22 + 7, "é\u2028"])
def test_unusual_data_passes_unchanged(value: Any) -> None:
    assert expr("v", v=value) == value
    assert expr("{'k': v} | tojson | fromjson", v=value) == {"k": value}


UNDEFINED = [
    ("wrkload.x", "wrkload", "workload", 10),
    ("workload.ednpoint", "workload.ednpoint", "endpoint", 10),
    ("1 + workload['ednpoint']", "ednpoint", "endpoint", 24),
    ("workload.list[9]", "9", None, 10),
    ("workload.none.x.y", "workload.none.x", None, 10),
    ("nothing == 1", "nothing", None, 10),
    ("not nothing", "nothing", None, 14),
    ("nothing is none", "nothing", None, 10),
    ("nothing in [1]", "nothing", None, 10),
    ("[nothing]", "nothing", None, 11),
    ("nothing | length", "nothing", None, 10),
    ("nothing | upper", "nothing", None, 10),
    ("'a' ~ nothing", "nothing", None, 16),
    ("nothing()", "nothing", None, 10),
    ("[1] | map('upper') | join(nothing)", "nothing", None, 36),
]


@over(("source", "name", "nearest", "column"), UNDEFINED)
def test_an_undefined_name_is_an_error_with_its_place(
    source: str, name: str, nearest: str | None, column: int
) -> None:
    with pytest.raises(TemplateError) as caught:
        expr(source, workload={"endpoint": "/x", "list": [1], "none": None})
    error = caught.value
    assert error.code == "undefined"
    assert error.details["name"] == name
    assert error.details.get("nearest") == nearest
    assert (error.details["line"], error.details["column"]) == (3, column)
    assert error.details["template"] == f"{{{{ {source} }}}}"
    assert f"3:{column}" in str(error)
    assert nearest is None or repr(nearest) in str(error)


def test_the_place_inside_a_longer_text() -> None:
    with pytest.raises(TemplateError) as caught:
        text("missing {{ x }}\n  and {{ missing }}", x=1)
    assert (caught.value.details["line"], caught.value.details["column"]) == (4, 19)


@over(
    ("source", "code"),
    [
        ("x +", "template_syntax"),
        ("x }} {{ y", "template_syntax"),
        ("x | nofilter", "template_syntax"),
        ("x is notest", "template_syntax"),
        ("lipsum()", "undefined"),
        ("cycler(1)", "undefined"),
        ("f(*[1])", "template_syntax"),
        ("'a' + 1", "template_error"),
        ("1 < 'a'", "template_error"),
        ("1 in 'abc'", "template_error"),
        ("1 / 0", "template_error"),
        ("(-8) ** 0.5", "template_error"),
        ("'x'()", "template_error"),
        ("'x'.upper", "template_error"),
        ("{1: 2}", "template_error"),
        ("'nan' | float", "template_error"),
        ("1e999", "template_error"),
        ("'{' | fromjson", "template_error"),
        ("'x'.center()", "template_error"),
        ("'x' | raw_sql | abs", "template_error"),
        ("'{0}'.format()", "template_error"),
        ("'%d' % 'x'", "template_error"),
        ("[3, 'a'] | sort", "template_error"),
    ],
)
def test_what_cannot_be_done_is_an_error_with_a_code(source: str, code: str) -> None:
    with pytest.raises(TemplateError) as caught:
        expr(source)
    assert caught.value.code == code
    assert caught.value.details["line"] == 3
    assert caught.value.details["template"]


@over(
    "source",
    [
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{% macro m() %}{{ m() }}{% endmacro %}",
        "{% block b %}{% endblock %}",
        "{% for x in y recursive %}{% endfor %}",
        "{% if x %}",
        "{{ x | nofilter }}",
    ],
)
def test_check_finds_what_needs_no_data(source: str) -> None:
    for node in (Text(source, Pos(2, 1)), Map((("k", Seq((Sql(source, Pos(2, 1)),))),))):
        with pytest.raises(TemplateError) as caught:
            check(node)
        assert caught.value.code == "template_syntax"
        assert caught.value.details["line"] == 2


def test_check_accepts_what_data_will_decide() -> None:
    check(Seq((LiteralNode("{{"), Expr("missing.x + 1"), Text("{{ a }}"), Sql("select {{ a }}"))))


@over(
    ("value", "expected"),
    [
        *((value, True) for value in (True, 1, 1.0, "yes", "TRUE", " True\n", "1")),
        *((value, False) for value in (False, 0, 0.0, None, "", "no", "None", "FALSE", " 0 ", "  ")),
    ],
)
def test_a_guard_is_true_or_false(value: Any, expected: bool) -> None:
    assert is_true(Expr("v"), MappingScope({"v": value})) is expected
    if not isinstance(value, float):
        assert is_true(Text("{{ v }} "), MappingScope({"v": value})) is expected
    assert is_true(LiteralNode(value), MappingScope({})) is expected


@over("value", [2, -1, 0.5, "maybe", [], [1], {}, {"a": 1}, "truthy"])
def test_any_other_guard_is_an_error_that_shows_the_value(value: Any) -> None:
    with pytest.raises(TemplateError) as caught:
        is_true(Expr("v", Pos(4, 2)), MappingScope({"v": value}))
    assert caught.value.code == "template_type"
    assert caught.value.details["line"] == 4
    assert str(value) in str(caught.value) or isinstance(value, (list, dict))
    assert ("length > 0" in str(caught.value)) is isinstance(value, (list, dict))


def test_an_undefined_guard_is_an_error() -> None:
    with pytest.raises(TemplateError) as caught:
        is_true(Expr("nothing"), MappingScope({}))
    assert caught.value.code == "undefined"
    assert not is_true(Expr("nothing | default(false)"), MappingScope({}))


class Lazy:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def lookup(self, name: str) -> Any:
        self.asked.append(name)
        if name == "broken":
            raise InfrastructureError("the store is away")
        return {"x": 1}

    def names(self) -> list[str]:
        return []


def test_names_are_asked_for_once_and_only_when_needed() -> None:
    scope = Lazy()
    assert render(Expr("a.x + a.x if a.x else b.x"), scope) == 2
    assert scope.asked == ["a"]


def test_errors_of_the_store_stay_what_they_are() -> None:
    with pytest.raises(InfrastructureError):
        render(Expr("broken.x"), Lazy())


def test_the_value_that_is_stored_is_returned_not_a_copy() -> None:
    value = {"deep": [{"x": 1}]}
    assert expr("v", v=value) is value
    assert expr("v.deep", v=value) is value["deep"]
    assert expr("[v.deep][0]", v=value) is value["deep"]


def test_threads_do_not_disturb_each_other() -> None:
    node = Text("{% for i in range(200) %}{{ x }}{% endfor %}")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: render(node, MappingScope({"x": x})), range(40)))
    assert found == [str(x) * 200 for x in range(40)]
