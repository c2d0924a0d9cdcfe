"""What is to be done with each expression of a SQL text, decided from the text around it and never from its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from noetl.domain.errors import TemplateError
from noetl.templating.limits import SQL_LIMITS, Meter
from noetl.templating.sql_places import Places
from noetl.templating.sql_split import Hole, Piece, Token, group, tokens_of

Place = Literal["value", "sorting", "after_in", "name", "part", "literal", "quoted", "quoted_name"]


class Fill(msgspec.Struct, frozen=True):
    """Where values go. ``parts`` are texts and numbers of holes, in order; ``line`` is in the template.

    * ``value``: a bound parameter; ``after_in`` the same, but not for a list; ``sorting``: only a name makes sense
    * ``name``: a quoted identifier; ``part``: letters and digits joined to a name; ``quoted_name``: inside double quotes
    * ``quoted``: a text between quotes, bound as one parameter; ``literal``: written out, where no parameter may stand
    """

    place: Place
    parts: tuple[str | int, ...]
    line: int


class Placeholder(msgspec.Struct, frozen=True):
    """The author's own ``%(name)s``."""

    text: str

    @property
    def name(self) -> str:
        return self.text[2:-2]


Op = str | Fill | Placeholder
Plan = tuple[tuple[Op, ...], ...]
"""The statements of a SQL text."""


def make_plan(pieces: Sequence[Piece]) -> Plan:
    """Text with holes to a plan. Raises TemplateError where neither a value nor a name may stand, or it takes too long."""
    meter = Meter(SQL_LIMITS)
    return tuple(_plan_statement(_merge_holes(tokens), meter) for tokens in group(tokens_of(pieces, meter)))


def _merge_holes(tokens: list[Token]) -> list[Token]:
    """``{{ a }}{{ b }}`` is one value: their texts together."""
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
    texts: list[str] = []
    for index, token in enumerate(tokens):
        meter.tick()
        if token.kind in _PLAIN:
            texts.append(token.text)
            places.see(token)
            continue
        try:
            op = _plan_token(places, tokens, index, token)
        except TemplateError as error:
            error.details.setdefault("source_line", token.holes[0].line)
            raise
        if isinstance(op, str):
            texts.append(op)
        else:
            ops += ["".join(texts), op]
            texts = []
        places.see(token)
    return (*ops, "".join(texts))


_PLAIN = frozenset(("space", "word", "number", "mark"))
"""Tokens that never hold an expression."""


def _plan_token(places: Places, tokens: list[Token], index: int, token: Token) -> Op:
    if token.kind == "placeholder":
        return Placeholder(token.text)
    if token.kind == "comment" or not token.holes:
        return token.text
    before = tokens[index - 1] if index else None
    line = token.holes[0].line
    if token.kind == "hole":
        place = places.of_hole(before, tokens[index + 1 : index + 3])
        return Fill(place, tuple(hole.number for hole in token.holes), line)
    if not token.closed:
        raise TemplateError("the quote around this expression is never closed")
    if token.kind == "dollar":
        raise TemplateError(
            "an expression inside a dollar-quoted text cannot be bound",
            hint="pass it as a parameter of the function, or add | raw_sql",
        )
    if token.kind == "name":
        return Fill("quoted_name", _content(token), line)
    return Fill(places.of_quote(before), _content(token), line)


def _content(token: Token) -> tuple[str | int, ...]:
    """What a quoted token stands for: its texts without quotes and escapes, and its holes."""
    opening = 2 if token.kind == "escaped" else 1
    last = len(token.parts) - 1
    parts: list[str | int] = []
    for index, part in enumerate(token.parts):
        if isinstance(part, Hole):
            parts.append(part.number)
            continue
        text = part[opening if index == 0 else 0 : -1 if index == last else None]
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


_UNESCAPE = {
    "quoted": lambda text: text.replace("''", "'"),
    "name": lambda text: text.replace('""', '"'),
    "escaped": _unescape_backslashes,
}
