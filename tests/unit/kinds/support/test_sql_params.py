"""The statements of a task, with every value bound."""

from __future__ import annotations

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.support.sql_params import insert_statements, native_text, statements_of
from noetl.templating import RenderedSql, RenderedStatement
from tests.parts import over


def shown(statements):
    return [
        (native_text(statement, lambda name: f"${name}"), dict(statement.params)) for statement in statements
    ]


@over(
    ("texts", "given", "expected"),
    [
        (("SELECT 1; SELECT ';'",), None, [("SELECT 1", {}), ("SELECT ';'", {})]),
        (("SELECT 5 % 2, '%%'",), None, [("SELECT 5 % 2, '%%'", {})]),
        (("SELECT %(a)s, '%%'",), {"a": 1, "b": 2}, [("SELECT $a, '%'", {"a": 1})]),
        (("SELECT '%(a)s' -- %(b)s",), {"a": 1}, [("SELECT '%(a)s' -- %(b)s", {})]),
        (
            (RenderedSql((RenderedStatement("SELECT %(p1)s, 5 %% 2", {"p1": 1}),)), "SELECT 2"),
            None,
            [("SELECT $p1, 5 % 2", {"p1": 1}), ("SELECT 2", {})],
        ),
        (
            (RenderedSql((RenderedStatement("SELECT %(p1)s, %%(p1)s", {"p1": "%(x)s"}),)),),
            {"p1": "own"},
            [("SELECT $noetl_rendered_p1, $p1", {"noetl_rendered_p1": "%(x)s", "p1": "own"})],
        ),
    ],
)
def test_statements(texts, given, expected):
    assert shown(statements_of(texts, given)) == expected


def test_a_missing_value_is_named():
    with pytest.raises(TaskError) as caught:
        statements_of(("SELECT %(custmer)s",), {"customer": 1})
    assert caught.value.kind == "schema"
    assert "customer" in str(caught.value)


def test_inserts():
    found = shown(insert_statements("s.t", [{"a": 1, "100%": 2}, {"b": "x"}]))
    assert found == [
        (
            'INSERT INTO "s"."t" ("a", "100%", "b") VALUES ($r0_0, $r0_1, DEFAULT), (DEFAULT, DEFAULT, $r1_2)',
            {"r0_0": 1, "r0_1": 2, "r1_2": "x"},
        )
    ]
    sizes = [len(one.params) for one in insert_statements("t", [{str(i): i for i in range(100)}] * 1000)]
    assert (sum(sizes), max(sizes) <= 65_535) == (100_000, True)
