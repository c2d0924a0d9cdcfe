"""Quotes that a SQL text doubles by hand, although its values are bound or quoted.

``'{{ name | replace("'", "''") }}'`` would store both quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from noetl.domain.errors import TemplateError
from noetl.domain.kinds import SqlEscape
from noetl.templating.limits import SQL_LIMITS, Meter
from noetl.templating.sql_split import Hole, Piece, Token, group, tokens_of

if TYPE_CHECKING:
    from jinja2 import nodes

_ESCAPED = ("''", "\\'")
_QUOTE_WRITTEN = frozenset((r'''"'"''', r"""'\''""", r'''"\'"'''))
_ESCAPED_WRITTEN = frozenset(
    (r'''"''"''', r"""'\'\''""", r'''"\'\'"''', r'''"\\'"''', r"""'\\\''""", r'''"\\\'"''')
)
"""The same as templates write it."""
_CODE = ("do", "create")
"""First words of statements whose dollar quotes hold code."""


def hand_escaped(source: str) -> tuple[SqlEscape, ...]:
    """Return each place where the quotes of a value are doubled by hand, in order.

    Or where a value is used whose quotes ``{% set %}`` has doubled. A text between quotes that has quotes itself is left out: it holds SQL
    of its own, which the doubling is for.
    """
    from jinja2 import nodes

    from noetl.templating.parser import parse_template, token_places

    if "replace" not in source:
        return ()
    try:
        pieces: list[Piece] = []
        found: list[nodes.Node] = []
        parsed = parse_template(source)
        escaped = {
            one.target.name
            for one in parsed.find_all(nodes.Assign)
            if isinstance(one.target, nodes.Name) and _doubles(one.node)
        }
        for output in parsed.find_all(nodes.Output):
            for part in output.nodes:
                if isinstance(part, nodes.TemplateData):
                    pieces.append(part.data)
                else:
                    pieces.append(Hole(len(found), part.lineno))
                    found.append(part)
        wanted = {number for number, node in enumerate(found) if _doubles(node)}
        through = {
            number: node.name
            for number, node in enumerate(found)
            if isinstance(node, nodes.Name) and node.name in escaped
        }
        if not wanted and not through:
            return ()
        meter = Meter(SQL_LIMITS)
        quoted = dict(_places(tokens_of(pieces, meter), meter))
        tokens = list(token_places(source))
    except TemplateError:
        return ()
    places = [
        *((number, start, end, "") for number, start, end in _spans(tokens) if number in wanted),
        *(
            (number, start, end, through[number])
            for number, start, end in _expressions(tokens)
            if number in through
        ),
    ]
    return tuple(
        SqlEscape(start, end, quoted[number], name)
        for number, start, end, name in sorted(places)
        if number in quoted
    )


def _places(tokens: Iterable[Token], meter: Meter) -> Iterator[tuple[int, bool]]:
    """Yield the expressions that are a value, or a part of a text without quotes in it.

    The flag says that quotes are around it.
    """
    for statement in group(tokens):
        first = next((token.text.lower() for token in statement if token.kind == "word"), "")
        for token in statement:
            if token.kind == "hole":
                yield from ((hole.number, False) for hole in token.holes)
            elif token.kind in ("quoted", "escaped") and token.text.count("'") == 2:
                yield from ((hole.number, True) for hole in token.holes)
            elif token.kind == "dollar" and token.closed and token.holes and first in _CODE:
                quote = len(str(token.parts[0]))
                inside = [*token.parts[1:-1], str(token.parts[-1])[:-quote]]
                yield from _places(tokens_of(inside, meter), meter)


def _doubles(node: nodes.Node | None) -> bool:
    """Report whether the last operations of an expression escape quotes."""
    from jinja2 import nodes

    if isinstance(node, nodes.Filter):
        if node.name == "raw_sql":
            return False
        return (node.name == "replace" and _of_quotes(node.args)) or _doubles(node.node)
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        method = node.node
        return (method.attr == "replace" and _of_quotes(node.args)) or _doubles(method.node)
    if isinstance(node, nodes.CondExpr):
        return _doubles(node.expr1) or _doubles(node.expr2)
    if isinstance(node, nodes.Or):
        return _doubles(node.left) or _doubles(node.right)
    return False


def _of_quotes(args: list[nodes.Expr]) -> bool:
    from jinja2 import nodes

    values = [one.value for one in args if isinstance(one, nodes.Const)]
    return len(values) == 2 and values[0] == "'" and values[1] in _ESCAPED


def _spans(tokens: Iterable[tuple[str, str, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield each filter and method that doubles quotes: its expression's number, start, end."""
    number = -1
    end = 0
    inside = True
    """No statement, whose words belong to no expression."""
    seen: list[tuple[str, str, int]] = []
    for kind, value, start in tokens:
        if kind == "whitespace":
            continue
        inside = kind != "block_begin" and (inside or kind in ("variable_begin", "block_end"))
        if kind == "variable_begin":
            number += 1
        if kind in ("variable_begin", "block_begin", "data"):
            seen = []
        seen = [*seen[-6:], (kind, value, end)]
        end = start + len(value)
        if inside and len(seen) == 7 and _is_replace([(one[0], one[1]) for one in seen]):
            yield number, seen[0][2], end


def _expressions(tokens: Iterable[tuple[str, str, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield each expression: its number, where its first word starts, where its last one ends."""
    number, start, end = -1, -1, -1
    for kind, value, place in tokens:
        if kind == "variable_begin":
            number, start = number + 1, -1
        elif kind == "variable_end":
            yield number, start, end
        elif kind != "whitespace":
            start = place if start < 0 else start
            end = place + len(value)


def _is_replace(tokens: list[tuple[str, str]]) -> bool:
    """Report whether seven tokens are ``| replace("'", "''")`` or the method."""
    words = [value for _, value in tokens]
    if words[0] not in ("|", ".") or words[1:3] != ["replace", "("] or words[4] != "," or words[6] != ")":
        return False
    if tokens[3][0] != "string" or tokens[5][0] != "string":
        return False
    return words[3] in _QUOTE_WRITTEN and words[5] in _ESCAPED_WRITTEN
