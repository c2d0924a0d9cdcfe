"""The plan of a SQL text: what happens to each expression.

The text around an expression decides, and never its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from noetl.domain.errors import TemplateError
from noetl.templating.limits import SQL_LIMITS, Meter
from noetl.templating.sql_places import Places
from noetl.templating.sql_split import Hole, Piece, Token, group, tokens_of

Place = Literal[
    "value", "sorting", "after_in", "name", "part", "literal", "quoted", "quoted_name", "written", "statement"
]


class Fill(msgspec.Struct, frozen=True):
    """The place of values. ``parts``: texts and numbers of holes; ``line``: in the template.

    * ``value``: a bound parameter; ``after_in`` the same, but not for a list; ``sorting``: only a name makes sense
    * ``name``: a quoted identifier; ``part``: letters and digits joined to a name; ``quoted_name``: inside double quotes
    * ``quoted``: a text between quotes, bound as one parameter; ``literal``: written out, where no parameter may be
    * ``written``: a value written out as a literal of its type, in code; ``statement``: nothing may be here

    ``shared``: what the parameter is known by, in a statement whose equal expressions have to be one parameter.
    """

    place: Place
    parts: tuple[str | int, ...]
    line: int
    shared: tuple[str | int, ...] = ()


class Body(msgspec.Struct, frozen=True):
    """Code between dollar quotes.

    Its expressions are written out, because code has no parameters.
    """

    quote: str
    ops: tuple[Op, ...]
    line: int


class Placeholder(msgspec.Struct, frozen=True):
    """The author's own ``%(name)s``."""

    text: str

    @property
    def name(self) -> str:
        return self.text[2:-2]


Op = str | Fill | Placeholder | Body
Plan = tuple[tuple[Op, ...], ...]
"""The statements of a SQL text."""


def make_plan(pieces: Sequence[Piece]) -> Plan:
    """Plan a text with holes.

    Raises TemplateError where neither a value nor a name is allowed, or when the plan takes too long.
    """
    meter = Meter(SQL_LIMITS)
    return tuple(_plan_statement(_merge_holes(tokens), meter) for tokens in group(tokens_of(pieces, meter)))


def _merge_holes(tokens: list[Token]) -> list[Token]:
    """Merge ``{{ a }}{{ b }}`` into one value: their texts together."""
    merged: list[Token] = []
    for token in tokens:
        if token.kind == "hole" and merged and merged[-1].kind == "hole":
            merged[-1] = Token("hole", [*merged[-1].parts, *token.parts])
        else:
            merged.append(token)
    return merged


def _plan_statement(tokens: list[Token], meter: Meter) -> tuple[Op, ...]:
    places = Places()
    ops: list[Op] = []
    groups = _groups(tokens)
    texts: list[str] = []
    for index, token in enumerate(tokens):
        meter.tick()
        if token.kind in _PLAIN:
            texts.append(token.text)
            places.see(token)
            continue
        try:
            op = _plan_token(places, tokens, index, token, meter)
        except TemplateError as error:
            error.details.setdefault("source_line", token.holes[0].line)
            raise
        if isinstance(op, str):
            texts.append(op)
        else:
            if groups and isinstance(op, Fill):
                op = msgspec.structs.replace(op, shared=_key(op, token))
            ops += ["".join(texts), op]
            texts = []
        places.see(token)
    return (*ops, "".join(texts))


_PLAIN = frozenset(("space", "word", "number", "mark"))
"""Tokens that never hold an expression."""


def _groups(tokens: list[Token]) -> bool:
    """Report whether GROUP BY or DISTINCT compares expressions by their text."""
    words = [token.text.lower() for token in tokens if token.kind == "word"]
    return "distinct" in words or ("group", "by") in pairwise(words)


def _key(op: Fill, token: Token) -> tuple[str | int, ...]:
    """Return a parameter's key: its place, texts, and expressions as first written."""
    same = {hole.number: hole.same for hole in token.holes}
    if any(number < 0 for number in same.values()):
        return ()
    return (op.place, *(part if isinstance(part, str) else same[part] for part in op.parts))


def _plan_token(places: Places, tokens: list[Token], index: int, token: Token, meter: Meter) -> Op:
    if token.kind == "placeholder":
        return Placeholder(token.text)
    if token.kind == "comment" or not token.holes:
        return token.text
    before = tokens[index - 1] if index else None
    line = token.holes[0].line
    if token.kind == "hole":
        place: Place = places.of_hole(before, tokens[index + 1 : index + 3])
        if place == "value" and not places.begun:
            place = "statement"
        return Fill(place, tuple(hole.number for hole in token.holes), line)
    if not token.closed:
        raise TemplateError("the quote around this expression is never closed")
    if token.kind == "dollar":
        if places.holds_code:
            return _plan_body(token, line, meter)
        return Fill(places.of_quote(before), _content(token), line)
    if token.kind == "name":
        return Fill("quoted_name", _content(token), line)
    return Fill(places.of_quote(before), _content(token), line)


def _plan_body(token: Token, line: int, meter: Meter) -> Body:
    """Plan code between dollar quotes: statements whose every expression is written out."""
    quote = str(token.parts[0])
    inside: list[Piece] = [*token.parts[1:-1], str(token.parts[-1])[: -len(quote)]]
    ops: list[Op] = []
    for statement in group(tokens_of(inside, meter), keep=True):
        tokens = _merge_holes(statement)
        dynamic = any(one.kind == "word" and one.text.lower() == "execute" for one in tokens)
        places = Places()
        for index, one in enumerate(tokens):
            meter.tick()
            ops.append(_plan_in_body(places, tokens, index, one, dynamic))
            places.see(one)
    return Body(quote, tuple(ops), line)


def _plan_in_body(places: Places, tokens: list[Token], index: int, token: Token, dynamic: bool) -> Op:
    if not token.holes or token.kind == "comment":
        return token.text
    line = token.holes[0].line
    before = tokens[index - 1] if index else None
    if token.kind == "hole":
        place = places.of_hole(before, tokens[index + 1 : index + 3])
        written: Place = place if place in ("name", "part") else "written"
        return Fill(written, tuple(hole.number for hole in token.holes), line)
    if not token.closed:
        problem, hint = "the quote around this expression is never closed", None
    elif dynamic and token.kind != "name":
        problem = "an expression inside the text of EXECUTE would become SQL"
        hint = "write EXECUTE format('… %I … %L', {{ name }}, {{ value }}), or EXECUTE … USING {{ value }}"
    else:
        return Fill("quoted_name" if token.kind == "name" else "literal", _content(token), line)
    raise TemplateError(problem, hint=hint, details={"source_line": line})


def _content(token: Token) -> tuple[str | int, ...]:
    """Return the content of a quoted token: texts without quotes and escapes, and holes."""
    if token.continued:
        raise TemplateError(
            "an expression is in a text of several lines", hint="write the text between two quotes"
        )
    opening = len(str(token.parts[0]))
    closing = opening if token.kind == "dollar" else 1
    last = len(token.parts) - 1
    parts: list[str | int] = []
    for index, part in enumerate(token.parts):
        if isinstance(part, Hole):
            parts.append(part.number)
            continue
        text = part[opening if index == 0 else 0 : -closing if index == last else None]
        if text:
            parts.append(_UNESCAPE[token.kind](text))
    return tuple(parts)


_BACKSLASHED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "'": "'", '"': '"', "/": "/", "%": "%"}


def _unescape_backslashes(text: str) -> str:
    return "\\".join(_unescape_simple(part) for part in text.replace("''", "'").split("\\\\"))


def _unescape_simple(text: str) -> str:
    first, *rest = text.split("\\")
    parts = [first]
    for part in rest:
        if part[:1] not in _BACKSLASHED:
            raise TemplateError(
                f"the escape \\{part[:1]} is not supported beside an expression",
                hint="use a text without E before the quote",
            )
        parts.append(_BACKSLASHED[part[0]] + part[1:])
    return "".join(parts)


def _as_it_is(text: str) -> str:
    return text


_UNESCAPE: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: text.replace("''", "'"),
    "name": lambda text: text.replace('""', '"'),
    "escaped": _unescape_backslashes,
    "dollar": _as_it_is,
}
