"""SQL with templates: expressions become bound parameters, or quoted identifiers where a name must stand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Sql
from noetl.templating.contract import RenderedSql, RenderedStatement, Scope
from noetl.templating.limits import DEFAULT_LIMITS, TemplateLimits
from noetl.templating.parser import parse_template
from noetl.templating.positions import fail
from noetl.templating.run import Run
from noetl.templating.sql_places import Places
from noetl.templating.sql_split import Hole, Piece, Token, group, tokens_of
from noetl.templating.sql_values import SqlName, SqlText, quote_name, quote_part
from noetl.templating.statements import Blocks, Out, Statement
from noetl.templating.undefined import Undefined, closest
from noetl.templating.views import raw, to_text, unwrap


def render_sql(
    node: Sql, scope: Scope, params: Mapping[str, Any] | None = None, limits: TemplateLimits = DEFAULT_LIMITS
) -> RenderedSql:
    """A SQL text to statements with bound parameters.

    ``params`` are the values of the author's own ``%(name)s`` placeholders; when given, ``%%`` in the text is a percent sign.
    Lists and mappings stay Python values in the parameters. Raises TemplateError.
    """
    run = Run(scope, limits)
    out: Out = []
    try:
        _compiled(node.source)(run, out)
        return assemble(out, params)
    except Exception as error:
        fail(error, node, run.line)


def plain_sql(text: str, params: Mapping[str, Any] | None = None) -> RenderedSql:
    """Statements of a SQL text without templates (braces are just characters)."""
    return assemble([text], params)


@lru_cache(1024)
def _compiled(source: str) -> Statement:
    return Blocks(_emit, captures=False).compile(list(parse_template(source).body))


def _emit(run: Run, out: Out, value: Any) -> None:
    if isinstance(value, Undefined):
        raise value.error()
    if isinstance(value, SqlText):
        run.meter.allocate(len(value))
        out.append(str(value))
    else:
        run.meter.tick(4)
        out.append(Hole(value if isinstance(value, SqlName) else unwrap(raw(value)), run.line))


def assemble(pieces: list[Piece], params: Mapping[str, Any] | None) -> RenderedSql:
    """Text and values to statements."""
    return RenderedSql(tuple(_Writer(statement, params).write() for statement in group(tokens_of(pieces))))


class _Writer:
    """Writes one statement."""

    def __init__(self, tokens: list[Token], given: Mapping[str, Any] | None) -> None:
        self._tokens = _merge_holes(tokens)
        self._given = given
        self._places = Places()
        self._texts: list[str] = []
        """Text and placeholders in turn: even entries are text."""
        self._literal: list[str] = []
        self.params: dict[str, Any] = {}

    def write(self) -> RenderedStatement:
        for index, token in enumerate(self._tokens):
            try:
                self._write_token(index, token)
            except TemplateError as error:
                if token.holes:
                    error.details.setdefault("source_line", token.holes[0].line)
                raise
            self._places.see(token)
        self._flush()
        if not self.params:
            return RenderedStatement("".join(self._texts))
        doubled = [text if index % 2 else text.replace("%", "%%") for index, text in enumerate(self._texts)]
        return RenderedStatement("".join(doubled), self.params)

    def _write_token(self, index: int, token: Token) -> None:
        if token.kind == "placeholder":
            self._placeholder(token.text)
        elif token.kind == "hole":
            self._hole(index, token.holes[0])
        elif token.kind == "comment" or not token.holes:
            text = token.text
            self._literal.append(text if self._given is None else text.replace("%%", "%"))
        elif not token.closed:
            raise TemplateError("the quote around this expression is never closed")
        elif token.kind == "dollar":
            raise TemplateError(
                "an expression inside a dollar-quoted text cannot be bound",
                hint="pass it as a parameter of the function, or add | raw_sql",
            )
        elif token.kind == "name":
            name = _content(token)
            self._literal.append(quote_part(name, name))
        else:
            self._quoted(index, token)

    def _hole(self, index: int, hole: Hole) -> None:
        if isinstance(hole.value, SqlName):
            self._literal.append(str(hole.value))
            return
        before = self._tokens[index - 1] if index else None
        place = self._places.of_hole(before, self._tokens[index + 1 : index + 3])
        if place == "name":
            self._literal.append(quote_name(hole.value))
        elif place == "part":
            self._literal.append(_name_part(hole.value))
        elif place == "literal":
            self._literal.append(_literal(to_text(hole.value)))
        else:
            if isinstance(hole.value, list) and self._places.after_in():
                raise TemplateError("a list cannot stand after IN", hint="write = ANY({{ … }})")
            self._bind(hole.value)

    def _quoted(self, index: int, token: Token) -> None:
        before = self._tokens[index - 1] if index else None
        if self._places.of_quote(before) == "literal":
            self._literal.append(_literal(_content(token)))
            return
        value = token.holes[0].value
        if len(token.parts) == 3 and (value is None or isinstance(value, (list, dict))):
            self._bind(value)
        else:
            self._bind(_content(token))

    def _placeholder(self, text: str) -> None:
        if self._given is None:
            self._literal.append(text)
            return
        name = text[2:-2]
        if name not in self._given:
            nearest = closest(name, self._given)
            raise TemplateError(
                f"{text} has no value in params",
                code="undefined",
                hint=f"did you mean {nearest!r}?" if nearest else "add it to params",
                details={"near": text, **({"nearest": nearest} if nearest else {})},
            )
        self.params[name] = self._given[name]
        self._put(text)

    def _bind(self, value: Any) -> None:
        number = len(self.params) + 1
        while (name := f"p{number}") in self.params or name in (self._given or ()):
            number += 1
        self.params[name] = value
        self._put(f"%({name})s")

    def _put(self, placeholder: str) -> None:
        self._flush()
        self._texts.append(placeholder)

    def _flush(self) -> None:
        self._texts.append("".join(self._literal))
        self._literal = []


def _merge_holes(tokens: list[Token]) -> list[Token]:
    """``{{ a }}{{ b }}`` is one value: their texts together."""
    merged: list[Token] = []
    for token in tokens:
        last = merged[-1] if merged else None
        if token.kind == "hole" and last is not None and last.kind == "hole":
            first, second = last.holes[0], token.holes[0]
            merged[-1] = Token("hole", [Hole(to_text(first.value) + to_text(second.value), first.line)])
        else:
            merged.append(token)
    return merged


def _content(token: Token) -> str:
    """The text a quoted token stands for, with its values in place."""
    texts = [part.value if isinstance(part, Hole) else part for part in token.parts]
    literal = [isinstance(part, str) for part in token.parts]
    texts[0] = texts[0][2 if token.kind == "escaped" else 1 :]
    texts[-1] = texts[-1][:-1]
    unescape = {"quoted": _unescape_quote, "name": _unescape_name, "escaped": _unescape_backslash}[token.kind]
    return "".join(
        unescape(text) if is_text else to_text(text) for text, is_text in zip(texts, literal, strict=True)
    )


def _unescape_quote(text: str) -> str:
    return text.replace("''", "'")


def _unescape_name(text: str) -> str:
    return text.replace('""', '"')


_BACKSLASHED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "/": "/",
    "%": "%",
}


def _unescape_backslash(text: str) -> str:
    first, *rest = text.replace("''", "'").split("\\\\")
    return "\\".join(_unescape_simple(part) for part in (first, *rest))


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


def _name_part(value: Any) -> str:
    """A value that is written onto a name, as in ``FROM sales_{{ year }}``: letters, digits and underscores only."""
    text = to_text(value)
    if text and all(char == "_" or (char.isascii() and char.isalnum()) for char in text):
        return text
    raise TemplateError(
        f"{text[:60]!r} cannot be part of a SQL name",
        hint="only letters, digits and _ may be joined to a name; put a space before the braces for a value",
    )


def _literal(text: str) -> str:
    """A text written out as a SQL literal, where no parameter may stand."""
    if "\0" in text or "\\" in text:
        raise TemplateError(
            "a text with a backslash or NUL cannot stand here",
            hint="only a literal is possible in this place; use forward slashes",
        )
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
