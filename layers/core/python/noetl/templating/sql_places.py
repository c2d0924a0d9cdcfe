"""What may replace an expression in SQL: a value, a name or part of one, a literal."""

from __future__ import annotations

from typing import Literal

from noetl.templating.sql_split import Token

HolePlace = Literal["value", "sorting", "after_in", "name", "part", "literal"]
QuotePlace = Literal["quoted", "literal"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAME_FOLLOWS = _words(
    "from join into update table view index schema database sequence truncate copy references only exists describe summarize "
    "as column constraint use analyze vacuum concurrently"
)
_TYPES = _words(
    "interval date time timestamp timestamptz timetz json jsonb numeric uuid inet cidr point bytea bit zone varchar text"
)
"""Words before a quote that make it a typed literal (``INTERVAL '1 day'``), which cannot be a parameter."""
_FROM_IS_NO_TABLE = _words("extract substring trim overlay position")
_CLAUSES = _words(
    "select from where group order having limit offset set values returning using union intersect except window fetch for do "
    "into when partition"
)
_NAME_LISTS = _words("from using drop truncate lock")
_BY = _words("order group partition")


class _Level:
    """One bracket level: the word before the bracket, and the clause being read."""

    __slots__ = ("clause", "opener")

    def __init__(self, opener: str) -> None:
        self.opener = opener
        self.clause = ""


class Places:
    """Follows a statement token by token and knows what may stand next."""

    def __init__(self) -> None:
        self._levels = [_Level("")]
        self._first = ""
        self._before = ["", "", ""]
        """The last three significant tokens, lower case, newest last."""

    @property
    def begun(self) -> bool:
        """Whether the statement has begun: anything but space and comments was seen."""
        return bool(self._before[2])

    @property
    def holds_code(self) -> bool:
        """Whether dollar quotes of the statement hold code: DO, CREATE FUNCTION, CREATE PROCEDURE."""
        return self._first == "do" or (self._first == "create" and self._before[-1] == "as")

    def see(self, token: Token) -> None:
        """Take note of a token."""
        kind = token.kind
        if kind == "space" or kind == "comment":
            return
        text = token.text.lower() if kind == "word" else token.text if kind == "mark" else f"<{kind}>"
        before = self._before
        if kind == "word":
            self._first = self._first or text
            if text in _CLAUSES or text == self._first:
                self._levels[-1].clause = text
        elif text == "(":
            self._levels.append(_Level(before[2]))
        elif text == ")" and len(self._levels) > 1:
            self._levels.pop()
        before[0], before[1], before[2] = before[1], before[2], text

    def of_hole(self, before: Token | None, after: list[Token]) -> HolePlace:
        """Return the place of an expression.

        ``before`` and ``after`` are the tokens that touch it (white space included).
        """
        following = after[0] if after else None
        if _is_mark(before, ".") or (
            _is_mark(following, ".") and len(after) > 1 and after[1].kind in ("word", "name", "hole")
        ):
            return "name"
        if _touches_word(before) or (following is not None and following.kind in ("word", "number")):
            return "part"
        if _is_mark(following, "("):
            return "name"
        if self._first == "copy" and self._before[-1] in ("from", "to"):
            return "literal"
        if self._is_name_place():
            return "name"
        if self._sorts():
            return "sorting"
        return "after_in" if self._before[-1] == "in" else "value"

    def of_quote(self, before: Token | None) -> QuotePlace:
        """Return the place of a quoted text with expressions in it.

        It is a parameter, or a literal where no parameter may be.
        """
        word = self._before[-1]
        typed = word in _TYPES or (before is not None and before.kind == "word")
        copied = self._first == "copy" and word in ("from", "to")
        return "literal" if typed or copied or (word != "as" and self._is_name_place()) else "quoted"

    def _is_name_place(self) -> bool:
        earlier, word = self._before[-2:]
        level = self._levels[-1]
        if word == "from":
            return not (
                level.opener in _FROM_IS_NO_TABLE
                or (earlier == "distinct" and self._before[0] in ("is", "not"))
            )
        if word == "on":
            return self._first in ("create", "grant", "revoke")
        if word == "to":
            return earlier == "rename" or self._first in ("grant", "revoke")
        if word == ",":
            return level.clause in _NAME_LISTS and level.opener not in _FROM_IS_NO_TABLE
        return word in _NAME_FOLLOWS

    def _sorts(self) -> bool:
        earlier, word = self._before[-2:]
        return (word == "by" and earlier in _BY) or (word == "," and self._levels[-1].clause in _BY)


def _is_mark(token: Token | None, mark: str) -> bool:
    return token is not None and token.kind == "mark" and token.text == mark


def _touches_word(token: Token | None) -> bool:
    return token is not None and token.kind in ("word", "number")
