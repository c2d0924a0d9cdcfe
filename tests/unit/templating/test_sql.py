"""SQL: values are bound, names are quoted, statements are found; no value changes the text around it."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Pos, Sql
from noetl.templating import MappingScope, RenderedStatement, plain_sql, render, render_sql, split
from tests.parts import over


def sql(source: str, params: dict[str, Any] | None = None, /, **names: Any) -> tuple[RenderedStatement, ...]:
    return render_sql(Sql(source, Pos(3, 10)), MappingScope(names), params).statements


def one(source: str, params: dict[str, Any] | None = None, /, **names: Any) -> tuple[str, list[Any]]:
    (statement,) = sql(source, params, **names)
    return statement.text, list(statement.params.values())


HOSTILE = "'; drop table x; --"


@over(
    ("source", "text", "values"),
    [
        ("SELECT {{ v }}", "SELECT %(p1)s", [HOSTILE]),
        ("SELECT '{{ v }}'", "SELECT %(p1)s", [HOSTILE]),
        ("SELECT '%{{ v }}%' , 5 % 2", "SELECT %(p1)s , 5 %% 2", [f"%{HOSTILE}%"]),
        ("SELECT 'it''s {{ v }}'", "SELECT %(p1)s", [f"it's {HOSTILE}"]),
        ("SELECT E'a\\n\\\\{{ v }}'", "SELECT %(p1)s", [f"a\n\\{HOSTILE}"]),
        ("SELECT '{{ n }}', {{ n }}", "SELECT %(p1)s, %(p2)s", ["7", 7]),
        ("SELECT '{{ n }}-{{ v }}'", "SELECT %(p1)s", [f"7-{HOSTILE}"]),
        ("SELECT {{ n }}{{ v }}", "SELECT %(p1)s", [f"7{HOSTILE}"]),
        ("SELECT '{{ null }}', {{ null }}", "SELECT %(p1)s, %(p2)s", [None, None]),
        ("SELECT {{ m }}::jsonb, '{{ m }}'::jsonb", "SELECT %(p1)s::jsonb, %(p2)s::jsonb", [{"a": [1]}] * 2),
        ("SELECT '{{ m | tojson }}'::jsonb", "SELECT %(p1)s::jsonb", ['{"a":[1]}']),
        ("SELECT x = ANY({{ l }})", "SELECT x = ANY(%(p1)s)", [[1, 2]]),
        ("SELECT a->>'{{ v }}'", "SELECT a->>%(p1)s", [HOSTILE]),
        ("SELECT f({{ n }}, {{ v }})", "SELECT f(%(p1)s, %(p2)s)", [7, HOSTILE]),
        ("SELECT 1 -- {{ v }} 100%\n, {{ n }}", "SELECT 1 --  100%%\n, %(p1)s", [7]),
        ("SELECT /* {{ v }} /* ; */ */ {{ n }}", "SELECT /*  /* ; */ */ %(p1)s", [7]),
        ("SELECT $$ ' ; $$, {{ n }}", "SELECT $$ ' ; $$, %(p1)s", [7]),
        ("SELECT '100%'", "SELECT '100%'", []),
        ("SELECT '%(x)s'", "SELECT '%(x)s'", []),
        ("SELECT '%(x)s', {{ n }}", "SELECT '%%(x)s', %(p1)s", [7]),
        ("SELECT {{ t }} IS DISTINCT FROM {{ n }}", "SELECT %(p1)s IS DISTINCT FROM %(p2)s", ["s.t", 7]),
        ("SELECT extract(day FROM {{ v }})", "SELECT extract(day FROM %(p1)s)", [HOSTILE]),
        (
            "SELECT substring({{ v }} from {{ n }} for {{ n }})",
            "SELECT substring(%(p1)s from %(p2)s for %(p3)s)",
            [HOSTILE, 7, 7],
        ),
        ("SELECT 1 LIMIT {{ n }} OFFSET {{ n }}", "SELECT 1 LIMIT %(p1)s OFFSET %(p2)s", [7, 7]),
        ("{% if n %}SELECT {{ n }}{% else %}DROP {{ t }}{% endif %}", "SELECT %(p1)s", [7]),
        (
            "SELECT * FROM t WHERE {% for c in l %}a = {{ c }}{{ ' OR ' | raw_sql if not loop.last }}{% endfor %}",
            "SELECT * FROM t WHERE a = %(p1)s OR a = %(p2)s",
            [1, 2],
        ),
        (
            "CALL f({% for c in l %}{% if not loop.first %}, {% endif %}{{ c }}{% endfor %})",
            "CALL f(%(p1)s, %(p2)s)",
            [1, 2],
        ),
        ("SELECT {{ 'a, b' | raw_sql }}, {{ n }}", "SELECT a, b, %(p1)s", [7]),
        ("DO $$ BEGIN {{ 'x' | raw_sql }}; END $$", "DO $$ BEGIN x; END $$", []),
    ],
)
def test_values_become_parameters(source: str, text: str, values: list[Any]) -> None:
    names = {"v": HOSTILE, "n": 7, "null": None, "m": {"a": [1]}, "l": [1, 2], "t": "s.t"}
    assert one(source, **names) == (text, values)


@over(
    ("source", "text"),
    [
        ("SELECT * FROM {{ t }}", 'SELECT * FROM "s"."t"'),
        ("select a from\n -- which\n {{ t }} x", 'select a from\n -- which\n "s"."t" x'),
        ("SELECT 1 FROM a JOIN {{ t }} ON true", 'SELECT 1 FROM a JOIN "s"."t" ON true'),
        ("SELECT 1 FROM a, {{ t }}, {{ n }} x", 'SELECT 1 FROM a, "s"."t", "n" x'),
        ("INSERT INTO {{ t }} (a) VALUES (1)", 'INSERT INTO "s"."t" (a) VALUES (1)'),
        ("INSERT INTO {{ t }}(a) VALUES (1)", 'INSERT INTO "s"."t"(a) VALUES (1)'),
        ("UPDATE {{ t }} SET a = 1", 'UPDATE "s"."t" SET a = 1'),
        ("DELETE FROM {{ t }}", 'DELETE FROM "s"."t"'),
        ("CREATE TABLE IF NOT EXISTS {{ t }} (a int)", 'CREATE TABLE IF NOT EXISTS "s"."t" (a int)'),
        ("CREATE INDEX {{ n }} ON {{ t }} (a)", 'CREATE INDEX "n" ON "s"."t" (a)'),
        ("DROP TABLE {{ n }}, {{ t }}", 'DROP TABLE "n", "s"."t"'),
        ("TRUNCATE {{ t }}", 'TRUNCATE "s"."t"'),
        ("SELECT * FROM s.{{ n }}", 'SELECT * FROM s."n"'),
        ("SELECT * FROM {{ n }}.x", 'SELECT * FROM "n".x'),
        ("SELECT a AS {{ n }}", 'SELECT a AS "n"'),
        ("SELECT {{ n }}.a, {{ n }}.{{ n }}", 'SELECT "n".a, "n"."n"'),
        ("SELECT * FROM sales_{{ year }}", "SELECT * FROM sales_2026"),
        ("SELECT * FROM {{ n }}_old", "SELECT * FROM n_old"),
        ('SELECT * FROM "a ""{{ n }}"', 'SELECT * FROM "a ""n"'),
        ("SELECT {{ n | identifier }} ORDER BY {{ n | identifier }}", 'SELECT "n" ORDER BY "n"'),
        ("INSERT INTO x ({{ cols | identifier }}) VALUES (1)", 'INSERT INTO x ("a", "b""c") VALUES (1)'),
        ("SELECT * FROM '{{ file }}'", "SELECT * FROM 'it''s.csv'"),
        ("COPY t TO '{{ file }}' (FORMAT csv)", "COPY t TO 'it''s.csv' (FORMAT csv)"),
        ("COPY t FROM {{ file }}", "COPY t FROM 'it''s.csv'"),
        ("SELECT now() - INTERVAL '{{ year }} days'", "SELECT now() - INTERVAL '2026 days'"),
        ("SELECT DATE '{{ n }}'", "SELECT DATE 'n'"),
    ],
)
def test_names_are_quoted(source: str, text: str) -> None:
    names = {"t": "s.t", "n": "n", "year": 2026, "cols": ["a", 'b"c'], "file": "it's.csv"}
    assert one(source, **names) == (text, [])


@over(
    "source",
    [
        "SELECT * FROM {{ v }}",
        "SELECT * FROM s.{{ v }}",
        'SELECT "{{ v }}"',
        "SELECT '{{ v }}'",
        "SELECT x{{ v }}",
        "SELECT DATE '{{ v }}'",
        "SELECT * FROM '{{ v }}'",
        "SELECT {{ v }} /* {{ v }} */",
    ],
)
@over("value", [HOSTILE, 'a"; drop table x; --', "*/ drop table x; /*", "$$;$$", "%s", "\\'; x", ";"])
def test_no_value_makes_a_second_statement(source: str, value: str) -> None:
    try:
        statements = sql(source, v=value)
    except TemplateError:
        return
    assert len(statements) == 1
    assert len(split(statements[0].text)) == 1


@over(
    ("source", "value", "part", "column"),
    [
        ("SELECT * FROM {{ v }}", "", "not a usable SQL name", 24),
        ("SELECT * FROM {{ v }}", "a..b", "not a usable SQL name", 24),
        ("SELECT * FROM {{ v }}", "x" * 64, "63 bytes", 24),
        ("SELECT * FROM {{ v }}", "a\0b", "not a usable SQL name", 24),
        ("SELECT * FROM {{ v }}", 5, "must be a text", 24),
        ("SELECT * FROM x_{{ v }}", "a b", "part of a SQL name", 26),
        ("SELECT a ORDER BY {{ v }}", "a", "| identifier", 28),
        ("SELECT a GROUP BY b, {{ v }}", "a", "| identifier", 31),
        ("SELECT a IN {{ v }}", [1], "= ANY(", 22),
        ("SELECT 'open {{ v }}", "a", "never closed", 23),
        ("DO $$ BEGIN EXECUTE 'DROP TABLE {{ v }}'; END $$", "a", "EXECUTE", 42),
        ("DO $$ BEGIN RAISE NOTICE '%', {{ v }}; END $$", "a$$b", "contains $$", 40),
        ("{{ v }}", "SELECT 1", "begin with a value", 10),
        ("/* x */ {{ v }} FROM t", "SELECT 1", "begin with a value", 18),
        ("SELECT DATE '{{ v }}'", "a\\", "backslash", 23),
        ("SELECT E'\\x41{{ v }}'", "a", "\\x", 23),
        ("SELECT E'{{ v }}'\n'\\'b'", "a", "several lines", 19),
        ("SELECT {{ w }}", "a", "'w' is not defined", 20),
        ("{% set x %}{{ v }}{% endset %}", "a", "not available", 10),
        ("{% macro x() %}{% endmacro %}", "a", "not available", 10),
    ],
)
def test_what_cannot_be_done_says_where_and_what_instead(
    source: str, value: Any, part: str, column: int
) -> None:
    with pytest.raises(TemplateError) as caught:
        sql(source, v=value)
    assert part in str(caught.value)
    assert caught.value.details["line"] == 3
    assert caught.value.details["column"] == column


def test_placeholders_of_the_author() -> None:
    source = "SELECT %(id)s, {{ v }}, '%%' , 5 %% 2 ; SELECT 1"
    first, second = sql(source, {"id": 4, "p1": 0, "p2": 0}, v=7)
    assert (first.text, dict(first.params)) == ("SELECT %(id)s, %(p3)s, '%%' , 5 %% 2", {"id": 4, "p3": 7})
    assert (second.text, dict(second.params)) == ("SELECT 1", {})


def test_a_placeholder_without_a_value() -> None:
    with pytest.raises(TemplateError) as caught:
        sql("SELECT 1,\n %(idd)s", {"id": 4})
    assert caught.value.code == "undefined"
    assert caught.value.details["nearest"] == "id"


@over(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;; -- only\n /* notes */ ", []),
        ("a; b ;\nc", ["a", "b", "c"]),
        ("a ';' b; c", ["a ';' b", "c"]),
        ("a 'it''s;' ; b", ["a 'it''s;'", "b"]),
        ("a '\\'; b", ["a '\\'", "b"]),
        ("a E'\\';' ; b", ["a E'\\';'", "b"]),
        ("a e'\\\\' ; b", ["a e'\\\\'", "b"]),
        ("a E'b'\n '\\';' ; c", ["a E'b'\n '\\';'", "c"]),
        ("a E'b' -- d '\r'\\';' ; c", ["a E'b' -- d '\r'\\';'", "c"]),
        ("a E'b'\n'\\''\n'\\';' ; c", ["a E'b'\n'\\''\n'\\';'", "c"]),
        ("a E'b' '\\'; c", ["a E'b' '\\'", "c"]),
        ("a E'b'\n/* */'\\'; c", ["a E'b'\n/* */'\\'", "c"]),
        ("a €$b$; c $b$", ["a €$b$", "c $b$"]),
        ("a e\u0301$b$; c $b$", ["a e\u0301$b$", "c $b$"]),
        ("a \u0663$b$; c $b$", ["a \u0663$b$", "c $b$"]),
        ("a $€$ ; $€$ ; b", ["a $€$ ; $€$", "b"]),
        ('a "x;""y;" ; b', ['a "x;""y;"', "b"]),
        ("a -- ;\n; b", ["a -- ;\n", "b"]),
        ("a /* ; /* ; */ ; */ ; b", ["a /* ; /* ; */ ; */", "b"]),
        ("a $$ ; ' $$ ; b", ["a $$ ; ' $$", "b"]),
        ("a $t$ ; $$ ; $t$ ; b", ["a $t$ ; $$ ; $t$", "b"]),
        ("a$b$c; d$b$e", ["a$b$c", "d$b$e"]),
        ("SELECT $1; b", ["SELECT $1", "b"]),
        ("CREATE RULE r AS DO (a; b); c", ["CREATE RULE r AS DO (a; b)", "c"]),
        (
            "CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; c; END; d",
            ["CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; c; END", "d"],
        ),
        ("BEGIN; a; END; b", ["BEGIN", "a", "END", "b"]),
        ("a 'open ; b", ["a 'open ; b"]),
        ("a /* open ; b", ["a /* open ; b"]),
    ],
)
def test_splitting(text: str, statements: list[str]) -> None:
    assert [part.strip() for part in split(text)] == [part.strip() for part in statements]


def test_statements_number_their_own_parameters() -> None:
    first, second = sql(
        "INSERT INTO a VALUES ({{ x }}); UPDATE a SET b = {{ y }} WHERE c = {{ x }};", x=1, y=2
    )
    assert dict(first.params) == {"p1": 1}
    assert second == RenderedStatement("UPDATE a SET b = %(p1)s WHERE c = %(p2)s", {"p1": 2, "p2": 1})


def test_render_gives_the_same_as_render_sql() -> None:
    node = Sql("SELECT {{ x }}")
    assert render(node, MappingScope({"x": 1})) == render_sql(node, MappingScope({"x": 1}))


def test_text_without_templates() -> None:
    (statement,) = plain_sql("SELECT '{{ x }}', %(y)s", {"y": 1}).statements
    assert statement == RenderedStatement("SELECT '{{ x }}', %(y)s", {"y": 1})


def test_a_bound_value_is_the_data_behind_a_reference() -> None:
    from noetl.templating import wrap

    ref = {"kind": "result_ref", "ref": "noetl://execution/7/result/s/x", "extracted": {}}
    assert one("SELECT {{ big }}", big=wrap(ref, lambda _: {"a": 1})) == ("SELECT %(p1)s", [{"a": 1}])


@over(
    ("source", "text", "params"),
    [
        ("SELECT $$a {{ v }}'s$$, $t${{ v }}$t$", "SELECT %(p1)s, %(p2)s", {"p1": "a x's", "p2": "x"}),
        (
            "SELECT f({{ v }}), {{ n }} FROM t GROUP BY f({{ v }}), a + {{ n }}",
            "SELECT f(%(p1)s), %(p2)s FROM t GROUP BY f(%(p1)s), a + %(p2)s",
            {"p1": "x", "p2": 5},
        ),
        (
            "SELECT DISTINCT '{{ v }}-' || a FROM t ORDER BY '{{ v }}-' || a, '{{ v }}+'",
            "SELECT DISTINCT %(p1)s || a FROM t ORDER BY %(p1)s || a, %(p2)s",
            {"p1": "x-", "p2": "x+"},
        ),
        (
            "INSERT INTO t VALUES ({{ v }}, {{ v }})",
            "INSERT INTO t VALUES (%(p1)s, %(p2)s)",
            {"p1": "x", "p2": "x"},
        ),
    ],
)
def test_dollar_quotes_are_texts_and_groups_share_parameters(
    source: str, text: str, params: dict[str, object]
) -> None:
    (statement,) = render_sql(Sql(source), MappingScope({"v": "x", "n": 5})).statements
    assert (statement.text, statement.params) == (text, params)


def test_values_in_code_are_written_out_as_literals() -> None:
    body = """DO $body$
DECLARE n int := {{ n }}; b bool := {{ b }};
BEGIN
  IF {{ nothing }} IS NULL AND n > {{ less }} THEN UPDATE {{ table }} SET a = {{ v }}, c = 'is {{ v }}', d = {{ back }}; END IF;
  FOR i IN 1..{{ n }} LOOP PERFORM {{ table }}_{{ n }}({{ rows }}); END LOOP; -- {{ v }}
END $body$"""
    values = {
        "n": 5,
        "less": -1,
        "b": True,
        "nothing": None,
        "table": "s.t",
        "v": "O'x $$",
        "back": "a\\b",
        "rows": [1],
    }
    values["table"] = "t"
    (statement,) = render_sql(Sql(body), MappingScope(values)).statements
    assert not statement.params
    assert "n int := 5; b bool := TRUE;" in statement.text
    assert (
        """IF NULL IS NULL AND n > (-1) THEN UPDATE "t" SET a = 'O''x $$', c = 'is O''x $$', d = E'a\\\\b';"""
        in statement.text
    )
    assert """FOR i IN 1..5 LOOP PERFORM""" in statement.text and "'[1]'" in statement.text
    assert statement.text.startswith("DO $body$") and statement.text.endswith("END $body$")
