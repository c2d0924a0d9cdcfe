"""The service of this package: a playbook of any dialect → what runs today, with each change explained and the result proved."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from msgspec.structs import replace

from noetl.domain.kinds import KindLookup
from noetl.dsl.compiler import Compiled, compile_playbook
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from noetl.formatting.nodes import Document
from noetl.formatting.reading import read
from noetl.formatting.writing import write
from noetl.migration.changes import Change, Lines, changes
from noetl.migration.equality import same_program
from noetl.migration.page import Note, Page, Refusal
from noetl.migration.rule import Rule
from noetl.migration.rules import RULES

ROUNDS = 4
"""Times that the rules are gone through: what one writes may be the matter of another."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """``text`` runs when ``ran`` is true; else it is as far as the rules go, and ``problems`` says what is left.

    ``problems`` stand at lines of the original; those of ``refusals`` are not repeated.
    """

    original: str
    text: str
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    proved: bool = False
    """The original compiles too, and to an equal program."""

    @property
    def changed(self) -> bool:
        return bool(self.changes)

    @property
    def runs(self) -> bool:
        return not self.refusals and not self.problems


def migrate_text(text: str, *, source_name: str, kinds: KindLookup) -> Migrated:
    """Rewrite a playbook. Raises InvalidPlaybookError for text that is no YAML mapping.

    Of a playbook that compiles as it is, a rule that would change its program is left out.
    """
    document = read(text, source_name)
    original = _compiled(text, source_name, kinds)
    page = Page(document, kinds)
    found: list[Change] = []
    written = write(document)
    before = original.program if isinstance(original, Compiled) else None
    for _ in range(ROUNDS):
        start = written
        for rule in RULES:
            kept, written = _applied(page, rule, written, found, source_name)
            if before is not None and kept is not None:
                made = _compiled(written, source_name, kinds)
                if not isinstance(made, Compiled) or not same_program(before, made.program):
                    page, written, found = kept
        if written == start:
            break
    if not found:
        written = text
    problems, proved = _proof(page, written, source_name, bool(found), original)
    return Migrated(
        text, written, tuple(found), tuple(page.notes), tuple(page.refusals), problems, proved
    )


def _applied(
    page: Page, rule: Rule, written: str, found: list[Change], source_name: str
) -> tuple[tuple[Page, str, list[Change]] | None, str]:
    """Apply one rule. Return the state before it, if it changed anything, and the text after it."""
    document = copy.deepcopy(page.document)
    notes, refusals = list(page.notes), list(page.refusals)
    page.rule = rule.name
    rule.apply(page)
    made = write(page.document)
    if made == written:
        return None, written
    kept = Page(document, page.kinds, rule.name, refusals, notes)
    state = (kept, written, list(found))
    found += changes(rule.name, written, made, Lines(document, written))
    return state, made


def _compiled(text: str, source_name: str, kinds: KindLookup) -> Compiled | tuple[Diagnostic, ...]:
    try:
        return compile_playbook(text, source_name=source_name, kinds=kinds)
    except InvalidPlaybookError as invalid:
        return invalid.diagnostics


def _proof(
    page: Page, written: str, source_name: str, changed: bool, original: Compiled | tuple[Diagnostic, ...]
) -> tuple[tuple[Diagnostic, ...], bool]:
    made = _compiled(written, source_name, page.kinds) if changed else original
    if isinstance(made, Compiled):
        return (), isinstance(original, Compiled)
    errors = tuple(found for found in made if found.severity == "error")
    return tuple(_placed(errors, page.document, written) if changed else errors), False


def _placed(errors: tuple[Diagnostic, ...], document: Document, written: str) -> list[Diagnostic]:
    lines = Lines(document, written)
    found = []
    for error in errors:
        line, column = lines.original(error.line)
        found.append(replace(error, line=line, column=column))
    return found
