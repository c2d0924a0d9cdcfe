"""Quotes of values that a SQL text doubles by hand: where they are found, and where they are right."""

from __future__ import annotations

from noetl.templating.sql_escapes import hand_escaped
from tests.parts import over

DOUBLED = """replace("'", "''")"""


@over(
    ("source", "found"),
    [
        ("SELECT '{{ a | DOUBLED }}'", [(True, " | DOUBLED")]),
        ("SELECT '{{ a.DOUBLED }}', {{ b | DOUBLED }}", [(True, ".DOUBLED"), (False, " | DOUBLED")]),
        ('SELECT \'{{ a | DOUBLED | replace("\n", "x") }}\'', [(True, " | DOUBLED")]),
        ("{%- if a -%} SELECT '{{ a | DOUBLED }}' {%- endif %}", [(True, " | DOUBLED")]),
        ("DO $$ BEGIN x := '{{ a | DOUBLED }}'; END $$", [(True, " | DOUBLED")]),
        ("SELECT run('SELECT ''{{ a | DOUBLED }}''')", []),
        ("SELECT run($$SELECT '{{ a | DOUBLED }}'$$)", []),
        ("SELECT '{{ a | DOUBLED | raw_sql }}'", []),
        ('SELECT \'{{ a | replace("a", "\'") }}\' -- {{ b | DOUBLED }}', []),
        ("SELECT '{{ a | DOUBLED", []),
        ("SELECT '{{ a | DOUBLED }}' {% if b | DOUBLED %} LIMIT 1 {% endif %}", [(True, " | DOUBLED")]),
        ("{% if b | DOUBLED %} SELECT '{{ a }}' {% endif %}", []),
    ],
)
def test_doubling_is_found_where_the_value_is_a_parameter(source: str, found: list[tuple[bool, str]]) -> None:
    text = source.replace("DOUBLED", DOUBLED)
    seen = [(one.quoted, text[one.start : one.end]) for one in hand_escaped(text)]
    assert seen == [(quoted, part.replace("DOUBLED", DOUBLED)) for quoted, part in found]


@over(
    ("source", "found"),
    [
        ("{% set w = a | DOUBLED %}SELECT '{{ w }}'", [("w", "w", True)]),
        ("{% set w = a.DOUBLED %}SELECT {{w}}, '{{ b }}'", [("w", "w", False)]),
        ("{% set w = a %}{% if c %}{% set w = a | DOUBLED %}{% endif %}SELECT '{{ w }}'", [("w", "w", True)]),
        (
            "{% set w = a | DOUBLED %}SELECT '{{ w }}', '{{ b | DOUBLED }}'",
            [("w", "w", True), ("", " | DOUBLED", True)],
        ),
        ("{% set w = a | DOUBLED %}SELECT run('SELECT ''{{ w }}''')", []),
        ("{% set w = a | DOUBLED %}SELECT '{{ w | raw_sql }}', '{{ v }}'", []),
        ("{% set w = a | upper %}SELECT '{{ w }}'", []),
    ],
)
def test_a_value_that_a_statement_has_doubled_is_found_where_it_is_used(
    source: str, found: list[tuple[str, str, bool]]
) -> None:
    text = source.replace("DOUBLED", DOUBLED)
    seen = [(one.through, text[one.start : one.end], one.quoted) for one in hand_escaped(text)]
    assert seen == [(name, part.replace("DOUBLED", DOUBLED), quoted) for name, part, quoted in found]
