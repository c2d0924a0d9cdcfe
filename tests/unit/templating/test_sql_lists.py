"""Lists that SQL joins to one text are found where that text is all that ``IN`` compares with."""

from __future__ import annotations

from noetl.templating.sql_lists import joined_lists
from tests.parts import over

QUOTES = """join("','")"""


@over(
    ("source", "found"),
    [
        ("a IN ('{{ x | QUOTES }}')", [("IN ('{{ x | QUOTES }}')", "= ANY('{{ x }}')")]),
        (
            "a in( {{- x.y[0]|join(', ') -}} ) OR b",
            [("in( {{- x.y[0]|join(', ') -}} )", "= ANY({{ x.y[0] }})")],
        ),
        (
            "a NOT  IN ({{ x | sort | join(',') }})",
            [("NOT  IN ({{ x | sort | join(',') }})", "<> ALL({{ x | sort }})")],
        ),
        (
            "a IN ({{ x | join(',') }}) AND b IN ({{ y | join(',') }})",
            [("IN ({{ x | join(',') }})", "= ANY({{ x }})"), ("IN ({{ y | join(',') }})", "= ANY({{ y }})")],
        ),
        ("a IN ({{ x | join(',') | raw_sql }})", []),
        ("a IN ({{ x | join('-') }})", []),
        ("a IN ({{ x | join(sep) }})", []),
        ("a IN ({{ x | join }})", []),
        ("a IN ('{{ x | QUOTES }}', 'b')", []),
        ("a IN ('b', '{{ x | QUOTES }}')", []),
        ("a IN ('{{ x | QUOTES }})", []),
        ("a = '{{ x | QUOTES }}'", []),
        ("admin ('{{ x | QUOTES }}')", []),
        ("a IN ({{ | join(',') }})", []),
        ("a IN ({{ x | join(',')", []),
    ],
)
def test_a_joined_list_is_found_where_it_is_one_value(source: str, found: list[tuple[str, str]]) -> None:
    text = source.replace("QUOTES", QUOTES)
    seen = [(text[one.start : one.end], one.comparison) for one in joined_lists(text)]
    assert seen == [(place.replace("QUOTES", QUOTES), shown) for place, shown in found]
