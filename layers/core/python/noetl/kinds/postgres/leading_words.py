"""The first words of a statement.

Postgres skips white space and comments before them, and comments may be nested.
"""

from __future__ import annotations

import re

_SKIPPED = {also: re.compile(rf"(?:[\s{also}]|--[^\n\r]*+)*+") for also in (";", "(")}
"""Possessive, and without nesting: no text makes it search twice. A carriage return ends a comment too."""
_BLOCK_MARK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"[A-Za-z_][\w$]*")


def leading_words(text: str, count: int, also: str = ";") -> list[str]:
    """Return up to ``count`` words that a statement begins with, in lower case.

    ``also``: a character that is skipped like white space, ``;`` or ``(``. The time is linear in the length of the text.
    """
    words: list[str] = []
    at = 0
    while len(words) < count:
        at = _behind_comments(text, at, _SKIPPED[also])
        word = _WORD.match(text, at)
        if word is None:
            break
        words.append(word.group().lower())
        at = word.end()
    return words


def _behind_comments(text: str, at: int, skipped: re.Pattern[str]) -> int:
    while True:
        found = skipped.match(text, at)
        at = found.end() if found else at
        if not text.startswith("/*", at):
            return at
        at = _comment_end(text, at)


def _comment_end(text: str, at: int) -> int:
    """Return where the comment that begins at ``at`` ends.

    One that nothing closes ends with the text.
    """
    depth = 0
    for mark in _BLOCK_MARK.finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)
