"""SQL text to tokens and statements.

Knows what hides a semicolon or an expression: quotes (``'…'``, ``E'…'``, ``"…"``, ``$tag$…$tag$``), comments (``--``, nested
``/* */``), brackets, and SQL-standard function bodies (``BEGIN ATOMIC … END``). It works on a mix of text and ``Hole``s, so a
value never takes part in deciding where something ends. Names end where those of Postgres do: every character beyond ASCII
belongs to a name, and a dollar sign in a name opens no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from noetl.templating.limits import SQL_LIMITS, Meter

TokenKind = Literal[
    "space", "comment", "word", "number", "quoted", "escaped", "name", "dollar", "placeholder", "mark", "hole"
]


class Hole(msgspec.Struct, frozen=True):
    """The place of an expression: its number, and its line in the template.

    ``same``: the number of the first expression that is written as this one.
    """

    number: int
    line: int
    same: int = -1


Piece = str | Hole


class Token(msgspec.Struct):
    """A lexical element. ``parts`` is all of it, in order.

    Only quotes, comments and holes have ``Hole`` parts. ``continued``: a part of an ``E'…'`` that goes on, or began, on another line.
    """

    kind: TokenKind
    parts: list[Piece] = msgspec.field(default_factory=list)
    closed: bool = True
    continued: bool = False

    @property
    def text(self) -> str:
        """The text of a token without holes."""
        first = self.parts[0]
        if len(self.parts) == 1 and isinstance(first, str):
            return first
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def holes(self) -> list[Hole]:
        """The expressions in it."""
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return []
        return [part for part in self.parts if isinstance(part, Hole)]


_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<line>--)
  | (?P<block>/\*)
  | (?P<escaped>[eE]')
  | (?P<quoted>')
  | (?P<name>")
  | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
  | (?P<word>(?:[A-Za-z_]|[^\x00-\x7f\s])(?:[A-Za-z0-9_$]|[^\x00-\x7f\s])*)
  | (?P<number>[0-9][\w.]*)
  | (?P<placeholder>%\([^\W\d]\w*\)s)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS = {
    "line": re.compile(r"[\n\r]"),
    "quoted": re.compile(r"'(?!')|(?P<skip>'')"),
    "escaped": re.compile(r"'(?!')|(?P<skip>''|\\.)", re.DOTALL),
    "name": re.compile(r'"(?!")|(?P<skip>"")'),
}
_BLOCK_MARK = re.compile(r"/\*|\*/")
_CONTINUED = re.compile(r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+(?=')")
"""What may stand between the parts of one text: ``E'a'``, an end of a line, and ``'\\n'``, which has escapes like the first."""


class _Lexer:
    """A lexer of SQL pieces; what is open at the end of a piece continues in the next."""

    def __init__(self, meter: Meter) -> None:
        self.tokens: list[Token] = []
        self._meter = meter
        self._open: Token | None = None
        self._mode = ""
        self._closing = ""
        self._depth = 0
        self._resumes = -1
        """Where a quote continues an ``E'…'``."""

    def feed(self, piece: Piece) -> None:
        if isinstance(piece, Hole):
            if self._open is not None:
                self._open.parts.append(piece)
            else:
                self.tokens.append(Token("hole", [piece]))
            return
        at = 0
        self._resumes = -1
        while at < len(piece):
            self._meter.tick()
            at = self._token(piece, at) if self._open is None else self._inside(piece, at)

    def _token(self, text: str, at: int) -> int:
        if at == self._resumes:
            self._begin("escaped", "'")
            self.tokens[-1].continued = True
            return at + 1
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternative takes any character
        kind, value = str(match.lastgroup), match.group()
        if kind in ("line", "block", "escaped", "quoted", "name", "dollar"):
            self._begin(kind, value)
        else:
            self.tokens.append(Token(kind, [value]))  # type: ignore[arg-type]
        return match.end()

    def _begin(self, mode: str, opening: str) -> None:
        kind: Any = "comment" if mode in ("line", "block") else mode
        self._open = Token(kind, [opening], closed=mode == "line")
        self._mode, self._closing, self._depth = mode, opening, 1
        self.tokens.append(self._open)

    def _inside(self, text: str, at: int) -> int:
        end, done = self._find_end(text, at)
        assert self._open is not None
        if end > at:
            self._open.parts.append(text[at:end])
        if done:
            self._open.closed = True
            if self._mode == "escaped" and (continued := _CONTINUED.match(text, end)):
                self._resumes = continued.end()
                self._open.continued = True
            self._open = None
        return end

    def _find_end(self, text: str, at: int) -> tuple[int, bool]:
        if self._mode == "dollar":
            found = text.find(self._closing, at)
            return (found + len(self._closing), True) if found >= 0 else (len(text), False)
        pattern = _BLOCK_MARK if self._mode == "block" else _ENDS[self._mode]
        for match in pattern.finditer(text, at):
            if self._mode == "block":
                self._depth += 1 if match.group() == "/*" else -1
                if self._depth:
                    continue
            elif match.groupdict().get("skip"):
                continue
            return match.end(), True
        return len(text), False


def tokens_of(pieces: Iterable[Piece], meter: Meter | None = None) -> list[Token]:
    """Return the tokens of a text with holes.

    Neighbouring texts are joined first, so a token may reach over them.

    Raises TemplateError(code="template_limit") when that takes too long.
    """
    lexer = _Lexer(meter or Meter(SQL_LIMITS))
    for piece in _joined(pieces):
        lexer.feed(piece)
    return lexer.tokens


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if texts:
            yield "".join(texts)
            texts = []
        yield piece
    if texts:
        yield "".join(texts)


class _Grouping:
    """The state of the statement being read: brackets and bodies that hide semicolons."""

    def __init__(self) -> None:
        self.brackets = 0
        self.blocks = 0
        self.first = ""
        self.last = ""

    def see(self, token: Token) -> bool:
        """Take note of a token; True when it ends the statement."""
        if token.kind == "mark":
            mark = token.text
            if mark == ";":
                return self.brackets == 0 and self.blocks == 0
            if mark == "(":
                self.brackets += 1
            elif mark == ")" and self.brackets:
                self.brackets -= 1
        elif token.kind == "word" and (not self.first or self.first == "create"):
            self._see_word(token.text.lower())
        return False

    def _see_word(self, word: str) -> None:
        self.first = self.first or word
        if (self.last == "begin" and word == "atomic") or (self.blocks and word == "case"):
            self.blocks += 1
        elif self.blocks and word == "end":
            self.blocks -= 1
        self.last = word


def group(tokens: Iterable[Token], *, keep: bool = False) -> list[list[Token]]:
    """Tokens of each statement, without the semicolons; empty statements are left out.

    ``keep``: nothing is left out, and a semicolon ends its statement.
    """
    statements: list[list[Token]] = [[]]
    state = _Grouping()
    for token in tokens:
        if state.see(token):
            if keep:
                statements[-1].append(token)
            statements.append([])
            state = _Grouping()
        else:
            statements[-1].append(token)
    if keep:
        return statements
    return [_trim(statement) for statement in statements if any(_counts(token) for token in statement)]


def _counts(token: Token) -> bool:
    return token.kind not in ("space", "comment")


def _trim(statement: list[Token]) -> list[Token]:
    start, end = 0, len(statement)
    while statement[start].kind == "space":
        start += 1
    while statement[end - 1].kind == "space":
        end -= 1
    return statement[start:end]


def split(text: str) -> list[str]:
    """Split a SQL text into statements without semicolons.

    Empty statements and lone comments are left out.
    """
    return ["".join(token.text for token in statement) for statement in group(tokens_of([text]))]
