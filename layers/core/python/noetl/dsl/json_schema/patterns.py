"""Regular expressions of users, run by an engine of linear time (RE2).

Python's ``re`` backtracks and holds the interpreter while it does: ``^(a+)+$`` and 34 letters stop a process for good.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from noetl.domain.sizes.table import PATTERN

_MEMORY = 2 * 1024 * 1024
"""Bytes that one compiled pattern may take. It bounds the program, and so what one character of a text can cost."""
_CACHED = 256
_UTF_16 = "utf_16_le"
_SHOWN = 80
_SPELLED = re.compile(
    r"\\(?:u[dD]([89abAB][0-9a-fA-F]{2})\\u[dD]([c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(Z)|.)",
    re.DOTALL,
)
"""Escapes, left to right. A pair of surrogates, one character, and the end of the text are spelled differently by RE2."""
_SPLIT = "write several patterns, combined with `allOf` and `not`"
_REMEDIES = (
    ("(?=", "a lookahead is not supported", _SPLIT),
    ("(?!", "a lookahead is not supported", _SPLIT),
    ("(?<=", "a lookbehind is not supported", _SPLIT),
    ("(?<!", "a lookbehind is not supported", _SPLIT),
    ("(?>", "an atomic group is not supported", "write (?:…)"),
    (
        "invalid repetition size",
        "a repetition is too large",
        "at most 1000 times; bound lengths with `minLength` and `maxLength`",
    ),
    (
        "pattern too large",
        "it is too large when its repetitions are written out",
        "bound lengths with `minLength` and `maxLength`",
    ),
)


class PatternError(ValueError):
    """A pattern that cannot be used: what is wrong with it, and the remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern. ``size``: instructions of its program.

    Matching costs at most size times the length of the text.
    """

    size: int
    _compiled: Any

    def found_in(self, text: str) -> bool:
        """Report whether it matches anywhere in a text.

        A lone surrogate counts as U+FFFD.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = text.encode(_UTF_16, "surrogatepass").decode(_UTF_16, "replace").encode()
        return self._compiled.search(data) is not None


@lru_cache(_CACHED)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raises PatternError."""
    import re2

    if len(text) > PATTERN.value:
        raise PatternError(f"it is longer than {PATTERN.value} characters", "write it shorter")
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MEMORY, False, True
    try:
        compiled = re2.compile(_SPELLED.sub(_respell, text), options)
    except UnicodeEncodeError:
        raise PatternError("it has a lone surrogate", "write the whole character") from None
    except re2.error as error:
        raise _explained(error) from None
    return Pattern(compiled.programsize, compiled)


def _respell(found: re.Match[str]) -> str:
    high, low, one, end = found.groups()
    if high is not None:
        return f"\\x{{{0x10000 + (int(high, 16) - 0x800 << 10 | int(low, 16) - 0xC00):x}}}"
    if one is not None:
        return f"\\x{{{one}}}"
    return "\\z" if end is not None else found.group()


def _explained(error: Exception) -> PatternError:
    reason = error.args[0] if error.args else ""
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    for sign, message, hint in _REMEDIES:
        if sign in text:
            return PatternError(message, hint)
    escape = text.partition("invalid escape sequence: ")[2]
    if escape[1:2].isdigit() or escape == "\\k":
        return PatternError("a backreference is not supported", _SPLIT)
    return PatternError(text[:_SHOWN], "patterns are those of RE2: see docs/dsl/schemas.md")
