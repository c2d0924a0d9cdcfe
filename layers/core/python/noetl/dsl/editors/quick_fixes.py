"""The change of a text that a diagnostic suggests, for editors that make it at once."""

from __future__ import annotations

import re

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.editors.shapes import TextEdit

_DID_YOU_MEAN = re.compile(r"did you mean '([^'\n]+)'\?")
_QUOTED = re.compile(r"'([^'\n]+)'|`([^`\n]+)`|\b(?:ctx|vars|iter)\.([\w-]+)")
"""A word that a message is about: between quotes, or an entry of a scope."""
_BRACES = re.compile(r'write "?(\{\{ (.+) \}\})"?')
_WRITE = re.compile(r"write (apiVersion|kind): (\S+)")
_WRITTEN = {word: re.compile(rf"(?<![\w-]){word}:[ ]+([^\s,}}#]+)") for word in ("apiVersion", "kind")}
_SPELLING = r"(?<![\w-]){word}(?![\w-])"


def quick_fix(lines: list[str], found: Diagnostic) -> TextEdit | None:
    """Return the change that a diagnostic's hint names; None where it names none.

    ``lines``: of the text that was compiled.
    """
    if not found.hint or not 0 < found.line <= len(lines):
        return None
    line, start = lines[found.line - 1], found.column - 1
    if guess := _DID_YOU_MEAN.search(found.hint):
        return _replaced(line, start, found, guess[1])
    if braces := _BRACES.fullmatch(found.hint):
        return _in_braces(line, start, found, braces[1], braces[2])
    if (written := _WRITE.fullmatch(found.hint)) and (value := _WRITTEN[written[1]].search(line)):
        return TextEdit(found.line, value.start(1) + 1, value.end(1) + 1, written[2])
    return None


def _replaced(line: str, start: int, found: Diagnostic, guess: str) -> TextEdit | None:
    """Return the change of the word that the message quotes, from the place on."""
    words = [word for kinds in _QUOTED.findall(found.message) for word in kinds if word]
    places = [
        (match.start(), word)
        for word in words
        if word != guess and (match := re.compile(_SPELLING.format(word=re.escape(word))).search(line, start))
    ]
    if not places:
        return None
    at, word = min(places)
    return TextEdit(found.line, at + 1, at + 1 + len(word), guess)


def _in_braces(line: str, start: int, found: Diagnostic, template: str, plain: str) -> TextEdit | None:
    """Return the change of a plain text to the template of it, its own quotes replaced."""
    at = line.find(plain, start)
    if at < 0 or '"' in plain or "\\" in plain:
        return None
    end = at + len(plain)
    if at > 0 and line[at - 1] in "'\"" and line[end : end + 1] == line[at - 1]:
        at, end = at - 1, end + 1
    return TextEdit(found.line, at + 1, end + 1, f'"{template}"')
