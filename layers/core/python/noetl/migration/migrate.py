"""The service of this package: it turns a playbook of any dialect into what runs today.

It explains each change and proves the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from noetl.domain.kinds import KindLookup
from noetl.domain.text.version_text import split_version
from noetl.dsl.compiler import Compiled, compile_playbook
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from noetl.formatting.nodes import Document
from noetl.formatting.reading import read
from noetl.formatting.writing import write
from noetl.migration.changes import Change, Lines, changes, state_of
from noetl.migration.equality import same_program
from noetl.migration.page import Note, Page, Refusal
from noetl.migration.rule import Rule
from noetl.migration.rules import RULES

ROUNDS = 4
"""Rounds over all rules: one rule may rewrite what another one wrote."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A migrated playbook.

    ``text`` compiles when ``runs`` is true; else it is as far as the rules go, and ``problems`` says what is left.

    ``refusals`` are places that a rule knows and cannot rewrite. ``problems`` are what the compiler finds beside them, at lines of the
    original.
    """

    original: str
    text: str
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    proved: bool = False
    """The original compiles too, and to an equal program."""
    document: Document | None = None
    """The rewritten document, whose entries know their lines in the original."""

    @property
    def changed(self) -> bool:
        return bool(self.changes)

    @property
    def runs(self) -> bool:
        return not self.refusals and not self.problems


def no_file(path: str) -> str | None:
    """Read nothing: a playbook that has no folder."""
    return None


def migrate_text(
    text: str,
    *,
    source_name: str,
    kinds: KindLookup,
    read_file: Callable[[str], str | None] = no_file,
    canonical: bool = False,
) -> Migrated:
    """Rewrite a playbook. Raises InvalidPlaybookError for text that is no YAML mapping.

    ``read_file``: reads the text of a file that the playbook names, or None. ``canonical``: a playbook that does not compile as it is ends
    in the canonical form.

    Of a playbook that compiles as it is, a rule that would change its program is left out, unless it repairs what can only fail.
    """
    playbook, files = split_version(text)
    original = _compiled(playbook, source_name, kinds)
    left_out: set[str] = set()
    while True:
        attempt = _Attempt(Page(read(playbook, source_name), kinds, read_file), source_name, original)
        wrong = attempt.run([rule for rule in RULES if not rule.finishes and rule.name not in left_out])
        if wrong is None:
            if canonical and not isinstance(original, Compiled):
                attempt.finish([rule for rule in RULES if rule.finishes])
            made = attempt.result(playbook)
            return dataclasses.replace(made, original=text, text=made.text + files) if files else made
        left_out.add(wrong.name)


@dataclass(slots=True)
class _Attempt:
    """One run of the rules over a page."""

    page: Page
    source_name: str
    original: Compiled | tuple[Diagnostic, ...]
    written: str = ""
    found: tuple[Change, ...] = ()
    repaired: bool = False
    state: list[object] = field(default_factory=list)
    lines: Lines | None = None

    def run(self, rules: list[Rule]) -> Rule | None:
        """Apply rules until none of them changes anything.

        Return the rule that changed what the playbook does.
        """
        self.written = write(self.page.document)
        for _ in range(ROUNDS):
            start = self.written
            for rule in rules:
                if not self.apply(rule):
                    continue
                if rule.repairs and isinstance(self.original, Compiled):
                    self.repaired, self.original = True, self.compiled()
                elif not self.does_the_same():
                    return rule
            if self.written == start:
                break
        return None

    def finish(self, rules: list[Rule]) -> None:
        """Apply the last rules to what runs now."""
        if self.found and not self.page.refusals and isinstance(self.compiled(), Compiled):
            for rule in rules:
                self.apply(rule)

    def apply(self, rule: Rule) -> bool:
        document, self.page.rule = self.page.document, rule.name
        if self.lines is None:
            self.state, self.lines = state_of(document), Lines(document)
        rule.apply(self.page)
        if state_of(document) == self.state:
            return False
        made = write(document)
        found = changes(rule.name, self.written, made, self.lines)
        self.written, self.lines = made, None
        self.found += found
        return bool(found)

    def does_the_same(self) -> bool:
        if not isinstance(self.original, Compiled):
            return True
        made = self.compiled()
        return isinstance(made, Compiled) and same_program(self.original.program, made.program)

    def compiled(self) -> Compiled | tuple[Diagnostic, ...]:
        return _compiled(self.written, self.source_name, self.page.kinds)

    def result(self, text: str) -> Migrated:
        page = self.page
        refusals, notes = tuple(page.refusals), tuple(page.notes)
        if not self.found:
            problems = _errors(self.original)
            return Migrated(text, text, (), notes, refusals, problems, isinstance(self.original, Compiled))
        made = self.compiled()
        problems = _placed(_errors(made), page.document, self.written, text.splitlines())
        known = {refusal.line for refusal in refusals}
        problems = tuple(problem for problem in problems if problem.line not in known)
        proved = isinstance(self.original, Compiled) and isinstance(made, Compiled) and not self.repaired
        return Migrated(text, self.written, self.found, notes, refusals, problems, proved, page.document)


def _compiled(text: str, source_name: str, kinds: KindLookup) -> Compiled | tuple[Diagnostic, ...]:
    try:
        return compile_playbook(text, source_name=source_name, kinds=kinds, shipped=False)
    except InvalidPlaybookError as invalid:
        return invalid.diagnostics


def _errors(made: Compiled | tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    if isinstance(made, Compiled):
        return ()
    return tuple(found for found in made if found.severity == "error")


def _placed(
    errors: tuple[Diagnostic, ...], document: Document, written: str, lines: list[str]
) -> tuple[Diagnostic, ...]:
    """Give each error the line and the column of the original.

    Inside of a text, the column is where its line begins.
    """
    if not errors:
        return ()
    original = Lines(document).places(written)
    found = []
    for error in errors:
        line, column = original(error.line)
        if column == 1 and line <= len(lines):
            column += len(lines[line - 1]) - len(lines[line - 1].lstrip())
        found.append(replace(error, line=line, column=column))
    return tuple(found)
