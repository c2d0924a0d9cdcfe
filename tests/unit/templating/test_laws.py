"""What holds for every value: templates hand data on unchanged, SQL keeps its shape."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Expr, Sql, Text
from noetl.templating import MappingScope, StepView, render, render_sql, split, unwrap, wrap
from noetl.templating.sql_split import Hole, tokens_of

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXTS = st.text(max_size=12) | st.sampled_from(
    [
        "'",
        '"',
        "$$",
        "; drop table x; --",
        "/*",
        "*/",
        "%",
        "%(p1)s",
        "\\",
        "{{ 7*7 }}",
        "{% x %}",
        "a.b",
        "\0",
        "\ud800",
    ]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@QUICK
@given(JSON)
def test_an_expression_returns_the_identical_value(value: Any) -> None:
    scope = MappingScope(
        {"x": value, "m": {"k": {"v": value}}, "l": wrap([value]), "s": StepView({"data": value})}
    )
    for source in ("x", "m.k.v", "m['k'].v", "l[0]", "s", "x if true", "missing | default(x)", "[x] | first"):
        assert render(Expr(source), scope) is value
    assert unwrap(wrap(value)) is value


@QUICK
@given(JSON)
def test_containers_made_by_a_template_hold_equal_values(value: Any) -> None:
    scope = MappingScope({"x": value})
    assert render(Expr("{'a': [x], 'b': {'c': x}}"), scope) == {"a": [value], "b": {"c": value}}
    assert render(Expr("x == x and x in [x] and not (x != x)"), scope) is True
    assert render(Expr("x | tojson | fromjson == x"), scope) is True
    assert json.loads(render(Text('{"v": {{ x | tojson }}}'), scope)) == {"v": value}


@QUICK
@given(TEXTS)
def test_a_text_holds_the_value_as_it_is(value: str) -> None:
    assert render(Text("<{{ x }}|{{ x }}>"), MappingScope({"x": value})) == f"<{value}|{value}>"


STATEMENTS = (
    "SELECT {{ a }}, '{{ b }}', '%{{ a }}-{{ b }}%' -- {{ a }}\n FROM t WHERE x = {{ b }}",
    "INSERT INTO t (a, b) VALUES ({{ a }}, E'\\n{{ b }}'); UPDATE t SET a = {{ a }} /* {{ b }} */",
    "{% for i in [1, 2] %}SELECT {{ a }}::jsonb, $x$ ; $x$, {{ b }};{% endfor %}",
    "SELECT a->>'{{ b }}', 5 % 2, {{ a }} IS DISTINCT FROM {{ b }}",
)


@QUICK
@given(JSON, JSON, st.sampled_from(STATEMENTS))
def test_values_never_change_the_text_of_a_statement(first: Any, second: Any, source: str) -> None:
    plain = render_sql(Sql(source), MappingScope({"a": "x", "b": "y"})).statements
    found = render_sql(Sql(source), MappingScope({"a": first, "b": second})).statements
    assert [statement.text for statement in found] == [statement.text for statement in plain]
    assert [set(statement.params) for statement in found] == [set(statement.params) for statement in plain]
    for statement in found:
        assert split(statement.text) == [statement.text]


@QUICK
@given(TEXTS)
def test_a_name_stays_one_name(name: str) -> None:
    try:
        (statement,) = render_sql(
            Sql("SELECT * FROM {{ t }} WHERE 1 = 1"), MappingScope({"t": name})
        ).statements
    except TemplateError:
        return
    tokens = [token for token in tokens_of([statement.text]) if token.kind != "space"]
    kinds = [token.kind for token in tokens]
    parts = 2 * name.count(".") + 1
    assert kinds[3 : 3 + parts] == ["name" if place % 2 == 0 else "mark" for place in range(parts)]
    assert [token.text for token in tokens[3 + parts :]] == ["WHERE", "1", "=", "1"]


PIECES = st.sampled_from(
    [
        "a ",
        "'",
        "''",
        '"',
        "$$",
        "$t$",
        ";",
        "--",
        "\n",
        "/*",
        "*/",
        "E'",
        "\\",
        "(",
        ")",
        "x",
        "%",
        "1",
        "CREATE ",
        "é",
    ]
)


@QUICK
@given(st.lists(PIECES, max_size=25))
def test_tokens_and_statements_lose_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(token.text for token in tokens_of([text])) == text
    assert _essence("; ".join(split(text))) == _essence(text)
    for statement in split(text):
        assert statement in text


def _essence(text: str) -> list[str]:
    """What must survive splitting: all but white space, comments and semicolons."""
    return [
        token.text
        for token in tokens_of([text])
        if token.kind not in ("space", "comment") and token.text != ";"
    ]


@QUICK
@given(st.lists(PIECES | st.none(), max_size=20))
def test_holes_are_kept_in_order(pieces: list[str | None]) -> None:
    mixed = [Hole(number, 1) if piece is None else piece for number, piece in enumerate(pieces)]
    found = [hole for token in tokens_of(mixed) for hole in token.holes]
    assert found == [piece for piece in mixed if isinstance(piece, Hole)]
