"""Quotes that a SQL text doubles by hand, although its values are bound or quoted.

``'{{ name | replace("'", "''") }}'`` would store both quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

    from noetl.templating.parser import expression_words, parse_template

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
        expressions = [words[1:-1] for words in expression_words(source)]
    except TemplateError:
        return ()
    escapes: list[SqlEscape] = []
    for number, words in enumerate(expressions):
        if number not in quoted:
            continue
        if number in wanted:
            escapes += [SqlEscape(start, end, quoted[number]) for start, end in _doublings(words)]
        elif number in through:
            escapes.append(SqlEscape(words[0][2], _end(words[-1]), quoted[number], through[number]))
    return tuple(escapes)


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


def _doublings(words: Sequence[tuple[str, str, int]]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each filter or method that doubles quotes."""
    for first in range(1, len(words) - 6):
        if _is_replace([(kind, value) for kind, value, _ in words[first : first + 7]]):
            yield _end(words[first - 1]), _end(words[first + 6])


def _end(word: tuple[str, str, int]) -> int:
    return word[2] + len(word[1])


def _is_replace(tokens: list[tuple[str, str]]) -> bool:
    """Report whether seven tokens are ``| replace("'", "''")`` or the method."""
    words = [value for _, value in tokens]
    if words[0] not in ("|", ".") or words[1:3] != ["replace", "("] or words[4] != "," or words[6] != ")":
        return False
    if tokens[3][0] != "string" or tokens[5][0] != "string":
        return False
    return words[3] in _QUOTE_WRITTEN and words[5] in _ESCAPED_WRITTEN
