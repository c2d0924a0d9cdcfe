"""Problems of a playbook as data: what, where, and what to write instead.

Every pass adds to one ``Diagnostics`` and continues, so an author sees all problems at once, in the order
of the text. ``InvalidPlaybookError`` carries them out of the compiler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from noetl.domain.errors import PlaybookError
from noetl.domain.sizes.table import DIAGNOSTICS
from noetl.dsl.program import Pos

Severity = Literal["error", "warning", "note"]
"""A note reports no problem. The compiler adds notes only where a caller asks for them."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""
_FUZZY = 500
_LISTED = 20
_WORD = 40
"""Characters of a word that are compared: comparing costs their square."""
MAX_REPORTED = DIAGNOSTICS.value
"""A document that is wrong everywhere is not explained more than this many times."""


HELP = "docs/diagnostics.md"
"""The page that explains every code, each under an anchor of its name."""


def help_for(code: str) -> str:
    """Return the page and anchor that explain a code."""
    return f"{HELP}#{code}"


class Diagnostic(msgspec.Struct, frozen=True):
    """One problem and its place.

    ``line`` and ``column`` are 1-based; ``path`` is the place in the document (``workflow[2].tool.url``).
    """

    code: str
    message: str
    line: int
    column: int
    severity: Severity = "error"
    hint: str | None = None
    path: str = ""

    def format(self, source_name: str) -> str:
        """Format as ``file:line:column: severity: code: message (hint)``; omit ``error``."""
        kind = "" if self.severity == "error" else f"{self.severity}: "
        hint = f" ({self.hint})" if self.hint else ""
        return f"{source_name}:{self.line}:{self.column}: {kind}{self.code}: {self.message}{hint}"


class InvalidPlaybookError(PlaybookError):
    """The error of a playbook that cannot be run.

    ``diagnostics`` holds every problem, warnings included, sorted by position.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], *, source_name: str = "<playbook>") -> None:
        self.diagnostics = tuple(diagnostics)
        self.source_name = source_name
        errors = [d for d in self.diagnostics if d.severity == "error"]
        text = "\n".join(d.format(source_name) for d in errors)
        super().__init__(
            text,
            details={
                "diagnostics": [
                    {"code": d.code, "message": d.message, "line": d.line, "column": d.column, "hint": d.hint}
                    for d in errors
                ]
            },
        )


class Diagnostics:
    """Collects problems; the same code at the same place is kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str, str], Diagnostic] = {}

    def error(self, code: str, message: str, pos: Pos, *, hint: str | None = None, path: str = "") -> None:
        self.add(Diagnostic(code, message, pos.line, pos.column, "error", hint, path))

    def warning(self, code: str, message: str, pos: Pos, *, hint: str | None = None) -> None:
        self.add(Diagnostic(code, message, pos.line, pos.column, "warning", hint))

    def add(self, diagnostic: Diagnostic) -> None:
        key = (diagnostic.line, diagnostic.column, diagnostic.code, diagnostic.message)
        self._found.setdefault(key, diagnostic)

    def __len__(self) -> int:
        return len(self._found)

    def has_reported(self, code: str, line: int) -> bool:
        """Report whether a problem with ``code`` is recorded on ``line`` already."""
        return any(d.code == code and d.line == line for d in self._found.values())

    def has_errors(self) -> bool:
        return any(d.severity == "error" for d in self._found.values())

    def error_positions(self) -> set[tuple[int, int]]:
        return {(d.line, d.column) for d in self._found.values() if d.severity == "error"}

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Sort by position, errors before warnings; cut after ``MAX_REPORTED`` with a note."""
        ordered = sorted(
            self._found.values(), key=lambda d: (d.line, d.column, d.severity, d.code, d.message)
        )
        if len(ordered) <= MAX_REPORTED:
            return tuple(ordered)
        last = ordered[MAX_REPORTED]
        left = len(ordered) - MAX_REPORTED
        severities = {d.severity for d in ordered[MAX_REPORTED:]}
        severity = next(one for one in SEVERITIES if one in severities)
        note = Diagnostic(
            "more-problems", f"{left} more problems are not shown", last.line, last.column, severity
        )
        return (*ordered[:MAX_REPORTED], note)

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """Guess the word that was meant, while problems can still be reported.

        So the compiler does not guess at each of a thousand misspellings.
        """
        return nearest(word, known) if len(self) <= MAX_REPORTED else None

    def suggest(self, word: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
        """Make a ``did_you_mean`` hint, while problems can still be reported."""
        return did_you_mean(word, known, otherwise) if len(self) <= MAX_REPORTED else otherwise

    def raise_errors(self, source_name: str) -> None:
        """Raise InvalidPlaybookError when any error was added."""
        if self.has_errors():
            raise InvalidPlaybookError(self.sorted(), source_name=source_name)


def listing(what: str, names: Iterable[str], none: str = "none") -> str:
    """Write ``what: a, b, c``; of many names the first twenty."""
    known = list(names)
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{what}: {', '.join(known[:_LISTED]) or none}{more}"


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known word that ``word`` was probably meant to be.

    Long lists are searched only for words that begin alike. ``likeness``: from 0 to 1, where 1 is the same word.
    """
    words = list(known)
    if len(words) > _FUZZY:
        words = [other for other in words if other[:2] == word[:2]][:_FUZZY]
    by_start = {other[:_WORD]: other for other in reversed(words)}
    found = difflib.get_close_matches(word[:_WORD], by_start, n=1, cutoff=likeness)
    return by_start[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """Make a hint ``did you mean 'x'?``, else return ``otherwise``."""
    found = nearest(word, known)
    return f"did you mean '{found}'?" if found else otherwise
